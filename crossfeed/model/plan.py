"""The commands a forecast is made under.

B windows, T planned steps, H horizons, A commands.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.windows.windows import WindowBatch


@dataclass(frozen=True, slots=True)
class Plan:
    """Planned commands step by step, their mean up to each horizon, and the horizons that are asked for."""

    future_a_BTA: Tensor
    mean_a_BHA: Tensor
    horizons: tuple[int, ...]

    @classmethod
    def of(cls, batch: WindowBatch, horizons: tuple[int, ...]) -> Self:
        """What a window batch, cut for these horizons, says was commanded."""
        return cls(batch.future_a_BTA, batch.mean_a_BHA, horizons)

    @classmethod
    def under(cls, future_a_BTA: Tensor, horizons: tuple[int, ...]) -> Self:
        """Any commands, for any horizons up to their end."""
        return cls(future_a_BTA, mean_commands(future_a_BTA, horizons), horizons)

    def repeated(self, copies: int) -> "Plan":
        """The same plans again for further views of the same windows."""
        return Plan(self.future_a_BTA.repeat(copies, 1, 1), self.mean_a_BHA.repeat(copies, 1, 1), self.horizons)


def mean_commands(future_a_BTA: Tensor, horizons: tuple[int, ...]) -> Tensor:
    """The mean command over (t, t+h] for each horizon h (line 1 of Algorithm 1)."""
    if future_a_BTA.shape[1] < max(horizons):
        raise ConfigError(
            f"Commands are planned for {future_a_BTA.shape[1]} steps, but horizon {max(horizons)} was asked for.",
            expected=f"at least {max(horizons)} planned command rows",
        )
    return torch.stack([future_a_BTA[:, :horizon].mean(1) for horizon in horizons], 1)
