"""How far a run comes above the earlier ones of its program, as a part of the load: believed first, then learned.

Only what lies above the middle says how high loads come: entries, where a row holds half a cut, lie far below it.
"""

import math

import numpy as np

from crossfeed.control.tail import Tail

_LEAST = 0.06  # of the load: by which cuts of the same part differ at least from run to run; set by hand
_WEIGHT = 10.0  # rows that what is believed counts for


class Repeat:
    """Scores of rows against what was said of them, and the margin that the next one stays below.

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
        own = float(np.median(self._scores)) if count else 0.0
        return (_WEIGHT * self._middle + count * own) / (_WEIGHT + count)

    @property
    def tail(self) -> Tail:
        """How high the next score comes, by Student's law over the upper half."""
        middle, rows = self.middle, _WEIGHT + len(self._scores)
        square, count = _upper(np.array(self._scores) - middle)
        half = 0.5 * _WEIGHT
        square = (half * self._spread**2 + count * square) / (half + count)
        # Readings scatter more than loads do, and limits are about loads.
        noise = float(np.mean(np.square(self._scatter))) if self._scatter else 0.0
        square = max(square - noise, min(square, self._least**2))
        return Tail(middle, math.sqrt(square * (1.0 + 1.0 / rows)), rows - 1.0)

    def within(self, risk: float) -> float:
        """What the next score stays below with probability 1 - risk."""
        return self.tail.within(risk)


def _upper(above: np.ndarray) -> tuple[float, int]:
    """The mean square of what lies above the middle, and how many do."""
    own = above[above > 0.0]
    return (float(np.mean(own**2)), len(own)) if len(own) else (0.0, 0)
