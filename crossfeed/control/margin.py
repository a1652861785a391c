"""How far above a prediction a load may come, learned from how far it came before (split conformal prediction).

Of n earlier scores and the next one, each is equally likely to be the highest: the k-th smallest of them is passed with
a probability of 1 - k / (n + 1), whatever their distribution is.
"""

import math
from bisect import insort
from collections.abc import Iterable

FEWEST = 20  # scores below which nothing is said


class Margin:
    """Scores of predictions that came true, and the margin that all but a share of them stayed below."""

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
        order = min(math.ceil((len(self) + 1) * (1.0 - risk)), len(self))
        return self._ascending[order - 1]
