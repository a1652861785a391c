"""How far above a prediction a load may come, learned from how far it came before.

Scores say by how much loads came above their predictions, in parts of something that grows with the load.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

FEWEST = 20  # scores below which a conformal margin says nothing
LEAST = 0.06  # of the load: by which cuts of the same part differ at least from run to run; set by hand
WEIGHT = 10.0  # rows that what is believed counts for


def conformal_margin(scores: np.ndarray, risk: float) -> float:
    """What the next score stays below with probability 1 - risk (split conformal); infinite where too little is known.

    Of n earlier scores and the next one, each is equally likely to be the highest: the k-th smallest of them is passed
    with a probability of 1 - k / (n + 1), whatever their distribution is. With fewer than 1 / risk - 1 scores that is
    the highest of them: the log can vouch for no more.
    """
    if len(scores) < FEWEST:
        return math.inf
    order = min(math.ceil((len(scores) + 1) * (1.0 - risk)), len(scores))
    return float(np.partition(scores, order - 1)[order - 1])


@dataclass(frozen=True)
class StudentTail:
    """Scores lie about a middle with a spread; `freedom` is the number of rows that vouch for both.

    By Student's law few rows make wide tails. (`scipy.stats.t` says the same, fifty times slower.)
    """

    middle: float
    spread: float
    freedom: float

    def above(self, score: np.ndarray) -> np.ndarray:
        """The chance that the next score is higher."""
        return np.asarray(stdtr(self.freedom, (self.middle - score) / self.spread))

    def within(self, risk: float) -> float:
        """What the next score stays below with probability 1 - risk."""
        return self.middle + float(stdtrit(self.freedom, 1.0 - risk)) * self.spread


def student_tail(scores: np.ndarray) -> StudentTail:
    """The tail that finite scores make believe, as if ten rows vouched for it.

    Only what lies above the middle says how high loads come: entries, where a row holds half a cut, lie far below it.
    """
    middle = min(float(np.median(scores)), 0.0) if len(scores) else 0.0
    spread = max(LEAST, math.sqrt(upper_square(scores - middle)))
    return StudentTail(middle, spread * math.sqrt(1.0 + 1.0 / WEIGHT), WEIGHT - 1.0)


def upper_square(above: np.ndarray) -> float:
    """The mean square of what lies above the middle."""
    higher = above[above > 0.0]
    return float(np.mean(higher**2)) if len(higher) else 0.0
