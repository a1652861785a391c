"""How far above what is said of it a load may come: Student's law, so that few rows make wide tails."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit


@dataclass(frozen=True)
class Tail:
    """Scores lie about a middle with a spread; `freedom` is the number of rows that vouch for both."""

    middle: float
    spread: float
    freedom: float

    def above(self, score: np.ndarray) -> np.ndarray:
        """The chance that the next score is higher."""
        return np.asarray(stdtr(self.freedom, (self.middle - score) / self.spread))

    def within(self, risk: float) -> float:
        """What the next score stays below with probability 1 - risk."""
        return self.middle + float(stdtrit(self.freedom, 1.0 - risk)) * self.spread
