"""What is left to earn: a value for every stretch, fitted backwards through the program, and the model of a run.

N runs, F features. Rewards are taken as quadratic in the override, so the mean over a normal policy is exact.
"""

from dataclasses import dataclass

import numpy as np

from crossfeed.control.offpolicy.log import DecisionLog
from crossfeed.control.offpolicy.policy import LinearPolicy

_COPIES = 4  # runs in the model from every logged start
_RIDGE = 1e-6  # enough for features that never vary; more would bias what is nearly known
# Gauss-Hermite nodes for a standard normal: exact for what is quadratic in the override, and beyond.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def _known(state_NF: np.ndarray, override_N: np.ndarray) -> np.ndarray:
    """What a value is linear in; overrides count from 100 % in parts of ten per cent."""
    turned = (override_N - 1.0)[:, None] / 0.1
    return np.column_stack([np.ones(len(state_NF)), state_NF, turned, turned**2, state_NF * turned])


def _ridge(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The weights of a ridge regression."""
    size = known.shape[1]
    penalty = _RIDGE * len(known) * np.diag(np.append(0.0, np.ones(size - 1)))
    return np.linalg.solve(known.T @ known + penalty + 1e-9 * np.eye(size), known.T @ wanted)


@dataclass(frozen=True, eq=False)
class FittedQ:
    """One fit for every stretch: what the policy earns from there on, if it begins with some override."""

    fits: tuple[np.ndarray, ...]  # weights of what is known
    policy: LinearPolicy

    @classmethod
    def of(cls, log: DecisionLog, policy: LinearPolicy) -> "FittedQ":
        """Fitted Q evaluation: backwards from the last stretch."""
        stretches = log.override_NH.shape[1]
        fits: list[np.ndarray] = []
        to_come = np.zeros(len(log))
        for stretch in range(stretches - 1, -1, -1):
            known = _known(log.state_NHF[:, stretch], log.override_NH[:, stretch])
            fits.append(_ridge(known, log.reward_NH[:, stretch] + to_come))
            to_come = _mean_under(fits[-1], log.state_NHF[:, stretch], policy)
        return cls(tuple(reversed(fits)), policy)

    def q(self, log: DecisionLog) -> np.ndarray:
        """The value (N, H) of what was done."""
        return np.column_stack(
            [_known(log.state_NHF[:, h], log.override_NH[:, h]) @ fit for h, fit in enumerate(self.fits)]
        )

    def v(self, log: DecisionLog) -> np.ndarray:
        """The value (N, H) of what the policy would have done there."""
        return np.column_stack([_mean_under(fit, log.state_NHF[:, h], self.policy) for h, fit in enumerate(self.fits)])


def _mean_under(fit: np.ndarray, state_NF: np.ndarray, policy: LinearPolicy) -> np.ndarray:
    mean_N = policy.mean(state_NF)
    parts = [weight * (_known(state_NF, mean_N + policy.spread * node) @ fit) for node, weight in zip(_NODES, _WEIGHTS)]
    return np.asarray(np.sum(parts, axis=0))


def model_based(log: DecisionLog, policy: LinearPolicy, seed: int) -> float:
    """Learn what a stretch earns and where it leads, then let the policy run in that model from the logged starts."""
    draw = np.random.default_rng([seed, 11])
    runs, stretches, features = log.state_NHF.shape
    state = np.repeat(log.state_NHF[:, 0], _COPIES, axis=0)
    total = np.zeros(len(state))
    for stretch in range(stretches):
        known = _known(log.state_NHF[:, stretch], log.override_NH[:, stretch])
        override = policy.mean(state) + policy.spread * draw.standard_normal(len(state))
        asked = _known(state, override)
        total += asked @ _ridge(known, log.reward_NH[:, stretch])
        if stretch + 1 < stretches and features:
            step = _ridge(known, log.state_NHF[:, stretch + 1])
            left = log.state_NHF[:, stretch + 1] - known @ step
            state = asked @ step + left[draw.integers(0, runs, len(state))]
    return float(total.mean())
