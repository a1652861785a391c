"""Policies by reinforcement learning inside the model: short branches, many at once, doubt that costs something.

Needs the extra `control`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from pydantic import Field
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import Tanh

from crossfeed.configuration import CheckedForm
from crossfeed.control.imagined_episodes import ImaginedEpisodes
from crossfeed.control.policy import LearnedPolicy, free_knobs, size
from crossfeed.control.task import Task
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress

_JUDGED = 16  # periods by which policies are compared


class LearnConfig(CheckedForm):
    """How and how long; the best of the seeds, by what it earns in branches it was not trained on, is kept."""

    steps: int = Field(default=60_000, ge=1)
    seeds: int = Field(default=3, ge=1)
    copies: int = Field(default=64, ge=1)  # branches at once
    branches: int = Field(default=96, ge=2)
    width: int = Field(default=32, ge=2)
    learning_rate: float = Field(default=1e-3, gt=0.0)
    discount: float = Field(default=0.95, gt=0.0, lt=1.0)


def learn(
    model: WorldModel | Path | str, table: Table | Path | str, task: Task, config: LearnConfig | None = None,
    out: Path | str | None = None,
) -> LearnedPolicy:  # fmt: skip
    """PPO of stable-baselines3 in imagined branches; several seeds, the best one exported."""
    config = config or LearnConfig()
    training = ImaginedEpisodes.of_log(model, table, task, config.copies, config.branches, seed=0)
    held = ImaginedEpisodes.of_log(model, table, task, 4 * config.copies, max(2, config.branches // 3), seed=1)
    learned = []
    with progress("Learning a policy in the model", total=config.seeds) as bar:
        for seed in range(config.seeds):
            training.draw = np.random.default_rng([seed, 7])
            learner = _learner(BranchVecEnv(training), config, seed)
            learner.learn(config.steps)
            policy = LearnedPolicy(_layers(learner), task, {})
            learned.append((earned(held, policy), seed, policy))
            bar.advance()
    nothing = earned(held, None)
    earnings = [value for value, _, _ in learned]
    best, seed, policy = max(learned, key=lambda each: each[0])
    about = {"earned": best, "as_written": nothing, "seed": seed, "all_seeds": earnings, "config": config.model_dump()}
    policy = LearnedPolicy(policy.layers, task, about)
    if out is not None:
        policy.save(out)
    return policy


def earned(branches: ImaginedEpisodes, policy: LearnedPolicy | None) -> float:
    """What a period earns on average, in branches that always begin the same; None leaves the knobs alone."""
    branches.draw = np.random.default_rng(99)
    everything = np.ones(branches.count, dtype=bool)
    seen, total = branches.reset(everything), 0.0
    for _ in range(_JUDGED):
        action = np.zeros((branches.count, len(free_knobs(branches.task)))) if policy is None else policy.action(seen)
        stepped = branches.step(action)
        total += float(stepped.reward_B.mean())
        if stepped.done_B.any():
            branches.reset(stepped.done_B)
        seen = branches.observation()
    return total / _JUDGED


def _learner(branches: "BranchVecEnv", config: LearnConfig, seed: int) -> PPO:
    """A learner of stable-baselines3 with tanh between the layers, as the exported file has it."""
    network: dict[str, Any] = {"net_arch": [config.width, config.width], "activation_fn": Tanh}
    return PPO(
        "MlpPolicy", branches, n_steps=32, batch_size=256, n_epochs=8, ent_coef=1e-3, policy_kwargs=network, seed=seed,
        device="cpu", learning_rate=config.learning_rate, gamma=config.discount,
    )  # fmt: skip


def _layers(learner: PPO) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The mean action of a policy, before it is squashed, as plain arrays."""
    policy = learner.policy
    hidden = [module for module in policy.mlp_extractor.policy_net if hasattr(module, "weight")]
    return tuple(
        (layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy())
        for layer in [*hidden, policy.action_net]
    )


class BranchVecEnv(VecEnv):
    """Imagined episodes as stable-baselines3 takes many environments; an action is squashed here by its tanh.

    Each episode ends where the model's reach ends, which is no end of the work: it is marked as cut short.
    """

    def __init__(self, episodes: ImaginedEpisodes) -> None:
        self.episodes = episodes
        seen = spaces.Box(-10.0, 10.0, (size(episodes.limits),), np.float32)
        # Wider than what is obeyed, so that the squashed action is the network's own.
        far = 3.0
        super().__init__(episodes.count, seen, spaces.Box(-far, far, (len(free_knobs(episodes.task)),), np.float32))
        self._actions = np.zeros((episodes.count, 1))

    def reset(self) -> np.ndarray:
        return self.episodes.reset(np.ones(self.num_envs, dtype=bool))

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = np.tanh(np.asarray(actions, dtype=np.float64))

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        stepped = self.episodes.step(self._actions)
        seen = self.episodes.observation()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(stepped.done_B):
            infos[index] = {"terminal_observation": seen[index], "TimeLimit.truncated": True}
        if stepped.done_B.any():
            seen = self.episodes.reset(stepped.done_B)
        return seen, stepped.reward_B.astype(np.float32), stepped.done_B, infos

    def close(self) -> None:
        """Nothing is held."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * len(self._indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:  # noqa: ARG002
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        raise NotImplementedError(f"branches have no method {method_name} of their own")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:  # noqa: ARG002
        return [False] * len(self._indices(indices))

    def _indices(self, indices: Any) -> Sequence[int]:
        return list(range(self.num_envs)) if indices is None else list(np.atleast_1d(indices))
