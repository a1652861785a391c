"""The commands a forecast is made under.

B windows, T planned steps, H horizons, A commands.
"""

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from crossfeed.windows.windows import WindowBatch, mean_commands


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
