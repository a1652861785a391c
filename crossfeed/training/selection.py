"""Which epoch a stage keeps, and when it gives up."""

import math
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Best:
    """The best epoch so far by a score where lower is better; patience counts the epochs since."""

    patience: int
    epoch: int = -1
    score: float = math.inf
    waited: int = 0

    def update(self, epoch: int, score: float) -> Self:
        """Take a new epoch's score into account; ties keep the earlier epoch, a score that is no number never wins."""
        if score < self.score:
            return replace(self, epoch=epoch, score=score, waited=0)
        return replace(self, waited=self.waited + 1)

    @property
    def exhausted(self) -> bool:
        """Whether `patience` epochs have gone by without a better one."""
        return self.waited >= self.patience
