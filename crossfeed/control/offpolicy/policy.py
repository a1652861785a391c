"""Policies that can be judged from logs: an override that is linear in what is known, with dither around it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from crossfeed.configuration import CheckedForm, load_yaml, parse
from crossfeed.control.offpolicy.log import normal_log_density
from crossfeed.errors import ConfigError


class LinearPolicyConfig(CheckedForm):
    """As it stands in a YAML file: override = intercept + sum of weight x feature, and its dither."""

    intercept: float = Field(default=1.0, gt=0.0, le=2.0)
    weights: dict[str, float] = {}
    spread: float = Field(default=0.03, gt=0.0, le=0.3)


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """override ~ Normal(intercept + state . weights, spread)."""

    intercept: float
    weights_F: np.ndarray
    spread: float

    @classmethod
    def of(cls, config: LinearPolicyConfig, features: tuple[str, ...]) -> "LinearPolicy":
        """A policy over the features of a log."""
        unknown = [feature for feature in config.weights if feature not in features]
        if unknown:
            raise ConfigError(
                f"The policy looks at '{unknown[0]}', which the log does not have.",
                expected=f"some of {', '.join(features) or 'no features'}",
            )
        weights = np.array([config.weights.get(feature, 0.0) for feature in features])
        return cls(config.intercept, weights, config.spread)

    def mean(self, state_xF: np.ndarray) -> np.ndarray:
        return np.asarray(self.intercept + state_xF @ self.weights_F)

    def log_density(self, state_xF: np.ndarray, override_x: np.ndarray) -> np.ndarray:
        return normal_log_density(override_x, self.mean(state_xF), self.spread)


def read_policy(path: Path | str, features: tuple[str, ...]) -> LinearPolicy:
    """A policy from a YAML file."""
    content = load_yaml(path, "The policy") or {}
    return LinearPolicy.of(parse(LinearPolicyConfig, content, f"The policy in {path}"), features)
