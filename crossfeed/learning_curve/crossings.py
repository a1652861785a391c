"""From how many minutes of own logs on a model is better than the fleet, and stays so."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from crossfeed.learning_curve.minutes import spoken


@dataclass(frozen=True)
class Crossing:
    """Between which two measured points the lead changes for good, and about where.

    `after` is None where the model is ahead from the first point on, `by` where it never is.
    """

    model: str
    after: float | None
    by: float | None
    about: float | None
    words: str


def crossing(model: str, fleet: Sequence[tuple[float, float]], own: Sequence[tuple[float, float]]) -> Crossing | None:
    """Where the model overtakes the fleet for good; (minutes, error) of both, at the minutes they share.

    Between two points both errors are joined by straight lines over the logarithm of the minutes.
    """
    theirs = dict(fleet)
    gaps = [(minutes, error - theirs[minutes]) for minutes, error in sorted(own) if minutes in theirs]
    if not gaps:
        return None
    behind = [index for index, (_, gap) in enumerate(gaps) if gap >= 0.0]
    if not behind:
        first = gaps[0][0]
        return Crossing(model, None, first, first, f"{model} is ahead of the fleet from {spoken(first)} on")
    if behind[-1] == len(gaps) - 1:
        last = gaps[-1][0]
        told = (
            f"does not overtake the fleet within {spoken(last)}" if last else "is behind the fleet before any own logs"
        )
        return Crossing(model, last, None, None, f"{model} {told}")
    (after, gap), (by, lead) = gaps[behind[-1]], gaps[behind[-1] + 1]
    told = f"{model} overtakes the fleet between {after:.3g} and {spoken(by)}"
    about = _between(after, by, gap / (gap - lead))
    return Crossing(model, after, by, about, f"{told} (about {about:.2g})")


def _between(after: float, by: float, share: float) -> float:
    if after == 0.0:
        return share * by
    return math.exp((1.0 - share) * math.log(after) + share * math.log(by))
