"""Overrides: a constant factor, or the factors an operator turns the knob to, as (time in s, factor) pairs."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from crossfeed.errors import ProgramError
from crossfeed.programs.path import LegKind, Legs
from crossfeed.programs.profile import SpeedSegments

Override = float | Sequence[tuple[float, float]]


@dataclass(frozen=True)
class OverrideSteps:
    """A piecewise constant factor: `factors[i]` holds from `times[i]` on; the first time is 0."""

    times: tuple[float, ...]
    factors: tuple[float, ...]

    @classmethod
    def of(cls, override: Override, name: str) -> "OverrideSteps":
        """Read an override and refuse one under which the program could never end."""
        pairs = [(0.0, override)] if isinstance(override, int | float) else list(override)
        times, factors = tuple(float(time) for time, _ in pairs), tuple(float(factor) for _, factor in pairs)
        rising = all(later > earlier for earlier, later in pairwise(times))
        if not pairs or times[0] != 0.0 or not rising or not all(map(math.isfinite, times)):
            raise ProgramError(
                f"The {name} override has the times {list(times)}.",
                expected="a factor, or (seconds, factor) pairs that start at 0 s and rise",
            )
        if not all(math.isfinite(factor) and 0.0 <= factor <= 10.0 for factor in factors) or factors[-1] == 0.0:
            raise ProgramError(
                f"The {name} override has the factors {list(factors)}.",
                expected="factors from 0 to 10, the last one above 0 so that the program ends",
            )
        return cls(times, factors)

    @property
    def highest(self) -> float:
        return max(self.factors)

    def at(self, seconds: float) -> float:
        """The factor in force at a time."""
        return self.factors[bisect_right(self.times, seconds) - 1]


@dataclass(frozen=True)
class Retimed:
    """Segments as they happen under the overrides, with the spindle factor during each."""

    segments: SpeedSegments
    spindle_factor: np.ndarray


def retime(
    segments: SpeedSegments, legs: Legs, feed: OverrideSteps, rapid: OverrideSteps, spindle: OverrideSteps
) -> Retimed:
    """Slow the planned motion down wherever an override stands below its highest value.

    Plans are made for the highest factor, so that no limit is exceeded; a lower factor stretches time, and a factor of
    zero is a feed hold.
    """
    if len(feed.times) == len(rapid.times) == len(spindle.times) == 1:
        return Retimed(segments, np.full(len(segments.leg), spindle.highest))
    changes = sorted({*feed.times, *rapid.times, *spindle.times})[1:]
    rows: list[tuple[int, float, float, float, float, float]] = []
    now, upcoming = 0.0, 0
    columns = (segments.leg, segments.seconds, segments.distance, segments.speed, segments.acceleration)
    for leg, seconds, distance, speed, push in zip(*(column.tolist() for column in columns)):
        done = 0.0
        while done < seconds:
            rate = _rate(legs, leg, now, feed, rapid, spindle)
            until = changes[upcoming] if upcoming < len(changes) else math.inf
            step = min((until - now) * rate, seconds - done) if rate else 0.0
            elapsed = step / rate if rate else until - now
            if elapsed > 0.0:
                here, velocity = distance + speed * done + push * done**2 / 2.0, speed + push * done
                rows.append((leg, elapsed, here, velocity * rate, push * rate**2, spindle.at(now)))
            finished = rate > 0.0 and step == seconds - done
            done = seconds if finished else done + step
            now = now + elapsed if finished else until
            upcoming += now >= until
    table = np.array(rows, dtype=float).reshape(-1, 6)
    return Retimed(
        SpeedSegments(table[:, 0].astype(np.int64), *(table[:, column] for column in range(1, 5))), table[:, 5]
    )


def _rate(legs: Legs, leg: int, now: float, feed: OverrideSteps, rapid: OverrideSteps, spindle: OverrideSteps) -> float:
    """How fast planned time passes: 1 at the highest factor, below it otherwise."""
    if legs.kind[leg] == LegKind.STANDING:
        return 1.0
    if not math.isfinite(legs.feed[leg]):
        return min(rapid.at(now), 1.0) / min(rapid.highest, 1.0)
    rate = feed.at(now) / feed.highest
    return rate * spindle.at(now) / spindle.highest if legs.per_revolution[leg] else rate
