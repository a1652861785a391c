"""The task as Gymnasium environments: `crossfeed/Machine-v0` is the simulator, `crossfeed/Model-v0` the learned model.

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
from crossfeed.control.limits import highest_by_row, sensors_of
from crossfeed.control.machine import MachineRun, Workpiece
from crossfeed.control.observation import PolicyFeatures, free_knobs, observe, size, wanted_knobs
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline
from crossfeed.ingest.table import Table
from crossfeed.machines.simulated.catalogue import machine_named
from crossfeed.model.world_model import WorldModel
from crossfeed.programs.bundled import program_path
from crossfeed.schema import canonical, conversion

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
        path = program_path(program)
        self.task = task or Task()
        self.limits = self.task.limits_of(canonical())
        text = path.read_text(encoding="utf-8", errors="replace")
        self.piece = Workpiece.of(text, path.stem, machine_named(machine), material)
        self.timeline = Timeline.of(self.piece.program, canonical(), 1.0, self.piece.motion_limits)
        self._features = PolicyFeatures.of(self.timeline, self.limits)
        self._highest = highest_by_row(self.limits, self.timeline.tool_T)
        names = canonical().sensor_names
        self._limited = [names.index(name) for name in sensors_of(self.limits)]
        self._powers = [
            (names.index(channel.name), conversion(channel.unit, "kW").scale)
            for channel in canonical().sensors
            if channel.quantity == "power"
        ]
        self.observation_space, self.action_space = _spaces(self.task, size(self.limits))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._run = MachineRun(self.piece, seed=int(self.np_random.integers(2**31)))
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
        energy = (
            (sum(row.truth[n] * scale for n, scale in self._powers) + self.task.objective.base_load)
            * row.seconds
            / 3600.0
        )
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


class ModelEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """A short branch of a log as one member of the model imagines it; `info` holds how far the members disagree."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self, model: WorldModel | Path | str, table: Table | Path | str, task: Task | None = None, branches: int = 64
    ) -> None:
        self.task = task or Task()
        self._episodes = ImaginedEpisodes.of_log(model, table, self.task, 1, branches)
        self.observation_space, self.action_space = _spaces(self.task, size(self._episodes.limits))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._episodes.draw = self.np_random
        seen = self._episodes.reset(np.ones(1, dtype=bool))
        return seen[0], {"member": int(self._episodes.member_B[0])}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        stepped = self._episodes.step(np.asarray(action, dtype=np.float64)[None])
        info = {name: values[0] for name, values in stepped.info.items()}
        # A branch ends where the model's reach ends, not where the work does.
        return self._episodes.observation()[0], float(stepped.reward_B[0]), False, bool(stepped.done_B[0]), info


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
gymnasium.register(
    "crossfeed/Model-v0",
    entry_point=f"{_HERE}:ModelEnvironment",
    vector_entry_point=f"{_HERE}:ModelVectorEnvironment",
)
