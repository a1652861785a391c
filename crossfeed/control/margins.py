"""How far above a prediction a load may come, learned from how far it came before.

Scores say by how much loads came above their predictions, in parts of something that grows with the load.
"""

import math
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from crossfeed.evaluation.statistics import conformal_rank

FEWEST = 20  # scores below which a conformal margin says nothing
_LEAST = 0.06  # of the load: by which cuts of the same part differ at least from run to run; set by hand
_WEIGHT = 10.0  # rows that what is believed counts for


class ConformalMargin:
    """The margin that all but a share of the earlier scores stayed below (split conformal prediction).

    Of n earlier scores and the next one, each is equally likely to be the highest: the k-th smallest of them is passed
    with a probability of 1 - k / (n + 1), whatever their distribution is.
    """

    def __init__(self, scores: Iterable[float] = ()) -> None:
        self._ascending = sorted(score for score in scores if math.isfinite(score))

    def __len__(self) -> int:
        return len(self._ascending)

    def add(self, score: float) -> None:
        """One more row that came true."""
        if math.isfinite(score):
            insort(self._ascending, score)

    def within(self, risk: float) -> float:
        """What the next score stays below with probability 1 - risk; infinite where too little is known.

        With fewer than 1 / risk - 1 scores that is the highest of them: the log can vouch for no more.
        """
        if len(self) < FEWEST:
            return math.inf
        return self._ascending[min(conformal_rank(len(self), 1.0 - risk), len(self)) - 1]


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


class StudentMargin:
    """A tail that is believed first, then learned: by which part of its load a run comes above what was said of it.

    Only what lies above the middle says how high loads come: entries, where a row holds half a cut, lie far below it.
    `like` holds scores of something like it: the earlier runs against each other, one against its neighbours, or
    forecasts of other programs; `least` is the spread that is believed whatever they say.
    """

    def __init__(self, like: np.ndarray, least: float = _LEAST) -> None:
        like = like[np.isfinite(like)]
        self._count = len(like)
        self._middle = min(float(np.median(like)), 0.0) if len(like) else 0.0
        self._least = least
        self._spread = max(least, math.sqrt(_upper(like - self._middle)[0]))
        self._scores: list[float] = []
        self._scatter: list[float] = []

    def __len__(self) -> int:
        return self._count + len(self._scores)

    def add(self, score: float, scatter: float = 0.0) -> None:
        """One more row that came true, and the part of its load by which a single reading scatters."""
        if math.isfinite(score):
            self._scores.append(score)
            self._scatter.append(scatter)

    @property
    def middle(self) -> float:
        """What half of the scores stay below."""
        count = len(self._scores)
        median = float(np.median(self._scores)) if count else 0.0
        return (_WEIGHT * self._middle + count * median) / (_WEIGHT + count)

    @property
    def tail(self) -> StudentTail:
        """How high the next score comes."""
        middle, rows = self.middle, _WEIGHT + len(self._scores)
        square, count = _upper(np.array(self._scores) - middle)
        half = 0.5 * _WEIGHT
        square = (half * self._spread**2 + count * square) / (half + count)
        # Readings scatter more than loads do, and limits are about loads.
        noise = float(np.mean(np.square(self._scatter))) if self._scatter else 0.0
        square = max(square - noise, min(square, self._least**2))
        return StudentTail(middle, math.sqrt(square * (1.0 + 1.0 / rows)), rows - 1.0)

    def within(self, risk: float) -> float:
        """What the next score stays below with probability 1 - risk."""
        return self.tail.within(risk)


def _upper(above: np.ndarray) -> tuple[float, int]:
    """The mean square of what lies above the middle, and how many do."""
    higher = above[above > 0.0]
    return (float(np.mean(higher**2)), len(higher)) if len(higher) else (0.0, 0)
