"""Policies by reinforcement learning inside the model: short branches, many at once, doubt that costs something."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.control.imagined_episodes import ImaginedEpisodes
from crossfeed.control.learned_policy import LearnedPolicy
from crossfeed.control.observation import free_knobs
from crossfeed.control.task import Task
from crossfeed.extras import need
from crossfeed.ingest.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress

_JUDGED = 16  # periods by which policies are compared


class LearnConfig(CheckedForm):
    """How and how long; the best of the seeds, by what it earns in branches it was not trained on, is kept."""

    method: Literal["ppo", "sac"] = "ppo"
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
    """PPO or SAC of stable-baselines3 in imagined branches; several seeds, the best one exported."""
    config = config or LearnConfig()
    need("stable_baselines3", "Learning a policy", "control")

    from crossfeed.control.sb3 import BranchVecEnv

    training = ImaginedEpisodes.of_log(model, table, task, config.copies, config.branches, seed=0)
    held = ImaginedEpisodes.of_log(model, table, task, 4 * config.copies, max(2, config.branches // 3), seed=1)
    found = []
    with progress("Learning a policy in the model", total=config.seeds) as bar:
        for seed in range(config.seeds):
            training.draw = np.random.default_rng([seed, 7])
            learner = _learner(BranchVecEnv(training, squashed=config.method == "sac"), config, seed)
            learner.learn(config.steps)
            policy = LearnedPolicy(_layers(learner), task, {})
            found.append((earned(held, policy), seed, policy))
            bar.advance()
    nothing = earned(held, None)
    earnings = [value for value, _, _ in found]
    best, seed, policy = max(found, key=lambda each: each[0])
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


def _learner(branches: Any, config: LearnConfig, seed: int) -> Any:
    """A learner of stable-baselines3; the networks between observation and action are alike in both."""
    from stable_baselines3 import PPO, SAC
    from torch.nn import Tanh

    network: dict[str, Any] = {"net_arch": [config.width, config.width], "activation_fn": Tanh}
    shared: dict[str, Any] = {
        "seed": seed,
        "device": "cpu",
        "learning_rate": config.learning_rate,
        "gamma": config.discount,
    }
    if config.method == "ppo":
        return PPO(
            "MlpPolicy", branches, n_steps=32, batch_size=256, n_epochs=8, ent_coef=1e-3, policy_kwargs=network,
            **shared,
        )  # fmt: skip
    # A few updates for every step of all branches: more would hardly be better, since all branches are short and alike.
    return SAC(
        "MlpPolicy", branches, buffer_size=50_000, batch_size=256, learning_starts=10 * config.copies, train_freq=1,
        gradient_steps=4, policy_kwargs=network, **shared,
    )  # fmt: skip


def _layers(learner: Any) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The mean action of a policy, before it is squashed, as plain arrays."""
    policy = learner.policy
    actor = getattr(policy, "actor", None)
    linear = (
        [*_linear(policy.mlp_extractor.policy_net), policy.action_net]
        if actor is None
        else [*_linear(actor.latent_pi), actor.mu]
    )
    return tuple((layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy()) for layer in linear)


def _linear(modules: Sequence[Any]) -> list[Any]:
    return [module for module in modules if hasattr(module, "weight")]
