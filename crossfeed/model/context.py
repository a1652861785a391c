"""What the model keeps of the rows it has read; callers hand it on without looking inside.

B windows, R rows, K context rows, D latent width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from crossfeed.model.parts.instance_norm import Statistics


class Rows(Protocol):
    """Rows that need not be read again: windows of them become contexts, and further rows may follow."""

    @property
    def level(self) -> Statistics | None:
        """What was taken out of them."""

    def window(self, start: int, stop: int) -> "Rows":
        """The rows from `start` up to `stop`."""

    def followed_by(self, later: Any) -> "Rows":
        """These rows and later ones that were read under the same level."""

    def __len__(self) -> int: ...


class Context(Protocol):
    """An encoded window, to be decoded under any plan."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Any:
        """The same with each of its tensors changed; windows lie along the first axis."""


@dataclass(frozen=True, slots=True)
class RowVectors:
    """What the paper's network keeps: one vector a row."""

    vector_BRD: Tensor
    level: Statistics | None

    def window(self, start: int, stop: int) -> "RowVectors":
        """The rows from `start` up to `stop`."""
        return RowVectors(self.vector_BRD[:, start:stop], self.level)

    def followed_by(self, later: "RowVectors") -> "RowVectors":
        """These rows and later ones that were read under the same level."""
        return RowVectors(torch.cat([self.vector_BRD, later.vector_BRD], 1), self.level)

    def __len__(self) -> int:
        return self.vector_BRD.shape[1]


@dataclass(frozen=True, slots=True)
class State:
    """The paper's context: the state at the last row, the mean over all rows where it was asked for, and the level."""

    z_BD: Tensor
    pooled_BD: Tensor | None
    level: Statistics | None

    def map(self, function: Callable[[Tensor], Tensor]) -> "State":
        """The same with each of its tensors changed; windows lie along the first axis."""
        return State(
            function(self.z_BD),
            None if self.pooled_BD is None else function(self.pooled_BD),
            None if self.level is None else self.level.map(function),
        )
