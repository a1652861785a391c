"""ImaginedEpisodes branches in the form in which stable-baselines3 takes many environments."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from crossfeed.control.imagined_episodes import ImaginedEpisodes
from crossfeed.control.observation import free_knobs, size


class BranchVecEnv(VecEnv):
    """Each episode ends where the model's reach ends, which is no end of the work: it is marked as cut short.

    `squashed` says that the learner squashes its actions itself, as SAC does; PPO leaves that to its environment.
    """

    def __init__(self, episodes: ImaginedEpisodes, squashed: bool = False) -> None:
        self.episodes, self._squashed = episodes, squashed
        seen = spaces.Box(-10.0, 10.0, (size(episodes.limits),), np.float32)
        # Wider than what is obeyed, so that the squashed action is the network's own.
        far = 1.0 if squashed else 3.0
        super().__init__(episodes.count, seen, spaces.Box(-far, far, (len(free_knobs(episodes.task)),), np.float32))
        self._actions = np.zeros((episodes.count, 1))

    def reset(self) -> np.ndarray:
        return self.episodes.reset(np.ones(self.num_envs, dtype=bool))

    def step_async(self, actions: np.ndarray) -> None:
        asked = np.asarray(actions, dtype=np.float64)
        self._actions = asked if self._squashed else np.tanh(asked)

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
