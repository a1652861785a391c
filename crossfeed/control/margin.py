"""How far above a prediction a load may come, learned from how far it came before (split conformal prediction).

Of n earlier scores and the next one, each is equally likely to be the highest: the k-th smallest of them is passed with
a probability of 1 - k / (n + 1), whatever their distribution is.
"""

import math

import numpy as np

FEWEST = 20  # scores below which nothing is said
_ROUGH = 0.05  # the least risk that scores of something like it are asked for


class Margin:
    """Scores of predictions that came true, and the margin that all but a share of them stayed below.

    `until` holds scores of something like it, used until there are enough real ones, at a level they can vouch for.
    """

    def __init__(self, scores: np.ndarray | None = None, until: np.ndarray | None = None) -> None:
        self._real, self._until = _finite(scores), _finite(until)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def _known(self) -> list[float]:
        return self._real if len(self._real) >= FEWEST else [*self._real, *self._until]

    def add(self, score: float) -> None:
        """One more row that came true."""
        if math.isfinite(score):
            self._real.append(score)

    def within(self, risk: float) -> float:
        """What the next score stays below with probability 1 - risk; infinite where too little is known.

        With fewer than 1 / risk - 1 scores that is the highest of them: the log can vouch for no more.
        """
        scores = self._known
        if len(scores) < FEWEST:
            return math.inf
        share = 1.0 - (risk if scores is self._real else max(risk, _ROUGH))
        order = min(math.ceil((len(scores) + 1) * share), len(scores))
        return float(np.partition(scores, order - 1)[order - 1])

    @property
    def middle(self) -> float:
        """What half of the scores stayed below; nothing where too little is known."""
        return float(np.median(self._known)) if len(self._known) >= FEWEST else 0.0


def _finite(scores: np.ndarray | None) -> list[float]:
    return [] if scores is None else [float(score) for score in np.ravel(scores) if np.isfinite(score)]
