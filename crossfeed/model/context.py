"""What the model keeps of the rows it has read; callers hand it on without looking inside.

B windows, R rows, K context rows, D latent width.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.model.instance_norm import Statistics


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that need not be read again: windows of them become contexts, and further rows may follow."""

    vector_BRD: Tensor
    level: Statistics | None

    def window(self, start: int, stop: int) -> "Rows":
        """The rows from `start` up to `stop`."""
        return Rows(self.vector_BRD[:, start:stop], self.level)

    def followed_by(self, later: "Rows") -> "Rows":
        """These rows and later ones that were read under the same level."""
        return Rows(torch.cat([self.vector_BRD, later.vector_BRD], 1), self.level)

    def __getitem__(self, windows: slice) -> "Rows":
        """Some of the windows."""
        return Rows(self.vector_BRD[windows], None if self.level is None else self.level[windows])

    def __len__(self) -> int:
        return self.vector_BRD.shape[1]


@dataclass(frozen=True, slots=True)
class Context:
    """The encoded context: the state at the last row, the mean over all rows where it was asked for, and the level."""

    z_BD: Tensor
    pooled_BD: Tensor | None
    level: Statistics | None

    def map(self, function: Callable[[Tensor], Tensor]) -> "Context":
        """The same with each of its tensors changed; windows lie along the first axis."""
        return Context(
            function(self.z_BD),
            None if self.pooled_BD is None else function(self.pooled_BD),
            None if self.level is None else self.level.map(function),
        )
