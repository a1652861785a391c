"""The task as Gymnasium environments: `crossfeed/Machine-v0` on the simulator, `crossfeed/Model-v0` in the model.

import gymnasium
gymnasium.make("crossfeed.control.environments:crossfeed/Machine-v0", program="bundled:face_pocket")
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from crossfeed.control.imagined_episodes import PENALTY, ImaginedEpisodes
from crossfeed.control.policy import PolicyFeatures, free_knobs, observe, size, wanted_knobs
from crossfeed.control.task import Task, highest_by_row, sensors_of
from crossfeed.control.timeline import Timeline
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.programs.parse import program_path
from crossfeed.schema import canonical

_ANY = 10.0


def _spaces(task: Task, limits: int) -> tuple[spaces.Box, spaces.Box]:
    seen = spaces.Box(-_ANY, _ANY, (limits,), np.float32)
    return seen, spaces.Box(-1.0, 1.0, (len(free_knobs(task)),), np.float32)


class MachineEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """A program on a simulated machine; a step is a second under the knobs, the reward what it saved.

    The sum of the rewards is the time as written minus the time taken, minus energy at its price, minus penalties.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self, program: str = "bundled:face_pocket", machine: str = "spinner_620", task: Task | None = None,
        material: str | None = None,
    ) -> None:  # fmt: skip
        # Only this environment needs the simulator.
        from crossfeed.control.machine import MachineRun, Workpiece, drive_kilowatts

        self.task = task or Task()
        self.limits = self.task.limits_of(canonical())
        self.piece = Workpiece.on(machine, program_path(program), material)
        self.timeline = Timeline.of(self.piece.program, canonical(), 1.0, self.piece.motion_limits)
        self._features = PolicyFeatures.of(self.timeline, self.limits)
        self._highest = highest_by_row(self.limits, self.timeline.tool_T)
        names = canonical().sensor_names
        self._limited = [names.index(name) for name in sensors_of(self.limits)]
        self._begin, self._kilowatts = MachineRun, drive_kilowatts
        self.observation_space, self.action_space = _spaces(self.task, size(self.limits))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._run = self._begin(self.piece, seed=int(self.np_random.integers(2**31)))
        self._knobs = np.ones(2)
        self._load = np.zeros(len(self._limited))
        return self._observation(), {"position": 0.0}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        wanted = wanted_knobs(np.asarray(action, dtype=np.float64)[None], self.task)[0]
        self._knobs = np.clip(wanted, self._knobs - self.task.slew, self._knobs + self.task.slew)
        before = self._run.position
        row = self._run.step(float(self._knobs[0]), float(self._knobs[1]))
        index = min(int(before), len(self.timeline) - 1)
        self._load = np.nan_to_num(row.sensors[self._limited])
        used = [row.truth[self._limited[n]] / highest[index] for n, highest in enumerate(self._highest.values())]
        above = max(used, default=0.0) - 1.0 if self.timeline.cutting[index] else -1.0
        power = float(self._kilowatts(row.truth)) + self.task.objective.base_load
        energy = power * row.seconds / 3600.0
        saved = row.position - before - row.seconds
        reward = self.task.time_price * saved - self.task.energy_price * energy
        reward -= PENALTY * (1.0 + above) if above > 0.0 else 0.0
        info = {
            "position": row.position,
            "seconds": row.seconds,
            "energy": energy,
            "passed": above > 0.0,
            "knobs": self._knobs.copy(),
        }
        return self._observation(), float(reward), self._run.done, False, info

    def _observation(self) -> np.ndarray:
        index = min(int(self._run.position), len(self._features) - 1)
        features = self._features
        plan, highest = features.plan_TF[index][None], features.highest_TL[index][None]
        return np.asarray(observe(plan, highest, self._load[None], self._knobs[None])[0])


class ModelVectorEnvironment(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many branches at once in plain arrays; a branch that ended begins anew with the next step."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self, model: WorldModel | Path | str, table: Table | Path | str, num_envs: int = 256, task: Task | None = None,
        branches: int = 64,
    ) -> None:  # fmt: skip
        self.task, self.num_envs = task or Task(), num_envs
        self.episodes = ImaginedEpisodes.of_log(model, table, self.task, num_envs, branches)
        self.single_observation_space, self.single_action_space = _spaces(self.task, size(self.episodes.limits))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._ended_B = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None  # noqa: ARG002
    ) -> tuple[np.ndarray, dict[str, Any]]:  # fmt: skip
        if seed is not None:
            self.episodes.draw = np.random.default_rng(seed if isinstance(seed, int) else [n or 0 for n in seed])
        self._ended_B[:] = False
        return self.episodes.reset(np.ones(self.num_envs, dtype=bool)), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        begin_B = self._ended_B
        stepped = self.episodes.step(np.asarray(actions, dtype=np.float64))
        reward_B, done_B = np.where(begin_B, 0.0, stepped.reward_B), stepped.done_B & ~begin_B
        if begin_B.any():
            self.episodes.reset(begin_B)
        self._ended_B = done_B
        return self.episodes.observation(), reward_B, np.zeros(self.num_envs, dtype=bool), done_B, dict(stepped.info)


_HERE = "crossfeed.control.environments"
gymnasium.register("crossfeed/Machine-v0", entry_point=f"{_HERE}:MachineEnvironment")
gymnasium.register("crossfeed/Model-v0", vector_entry_point=f"{_HERE}:ModelVectorEnvironment")
