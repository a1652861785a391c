"""The decision: act only where a gain is sure and no limit is in danger; otherwise leave the program alone, and say so.

S samples, T places.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from crossfeed.control.course import Course, slewed
from crossfeed.control.score import Score
from crossfeed.control.task import Task
from crossfeed.serving.measures import Estimate, sample_quantiles

_OFF = 1e-3  # a knob nearer to 100 % than this stands there
_DOUBTED = 3.0  # times the usual disagreement of the members from which on nothing is believed

Verdict = Literal["faster", "slower", "as written"]


@dataclass(frozen=True)
class Choice:
    """What was decided for one stretch of the program, and why."""

    first: int
    last: int  # inclusive
    verdict: Verdict
    why: str
    gain: Estimate  # s, of what was decided


@dataclass(frozen=True, eq=False)
class Decision:
    """The knobs for every place, and the choices behind them."""

    feed_T: np.ndarray
    spindle_T: np.ndarray
    choices: tuple[Choice, ...]

    @property
    def acts(self) -> bool:
        return any(choice.verdict != "as written" for choice in self.choices)


def decide(
    score: Score, feed_T: np.ndarray, spindle_T: np.ndarray, stretch_T: np.ndarray, start: tuple[float, float],
    seed: int = 0,
) -> Decision:  # fmt: skip
    """Judge a plan stretch by stretch and keep of it what can be answered for."""
    task, course = score.task, score.outlook.course
    gain_ST, _ = score.gains(feed_T, spindle_T, seed)
    ones = np.ones_like(feed_T)
    passed_T, passed_as_written_T = score.passed(feed_T, spindle_T), score.passed(ones, ones)
    left_T = ~course.free(task)
    choices = []
    feed_T, spindle_T = feed_T.copy(), spindle_T.copy()
    for number in np.unique(stretch_T):
        own = np.flatnonzero(stretch_T == number)
        off = np.abs(feed_T[own] - 1.0).max() > _OFF or np.abs(spindle_T[own] - 1.0).max() > _OFF
        gain = _estimate(gain_ST[:, own].sum(axis=1), task.confidence)
        likely_T, before = score.likely[own], float(passed_as_written_T[own].max())
        # A plan answers for the danger that it adds, and for keeping the limits that it slows down for.
        danger = bool((passed_T[own] > passed_as_written_T[own] + 1e-9).any())
        kept = not (likely_T & (passed_T[own] > 0.0)).any()
        doubt = float(score.outlook.doubt_T[own].max())
        verdict, why = _judge(off, gain, danger, before, bool(likely_T.any()), kept, doubt, bool(left_T[own].all()))
        if verdict == "as written":
            feed_T[own] = spindle_T[own] = 1.0
        choices.append(Choice(int(own[0]), int(own[-1]), verdict, why, gain))
    feed_T, spindle_T = reachable(course, feed_T, spindle_T, task, start)
    worse = score.passed(feed_T, spindle_T) > np.maximum(passed_as_written_T, 0.0) + 1e-9
    if worse.any():
        # Turning back to 100 % in time was not possible for this stretch; the spindle is what can do harm on the way.
        feed_T, spindle_T = reachable(course, np.minimum(feed_T, 1.0), ones, task, start)
    # What is promised is what the knobs that can be reached bring, not what was wanted.
    gain_ST, _ = score.gains(feed_T, spindle_T, seed)
    promised = [_estimate(gain_ST[:, each.first : each.last + 1].sum(axis=1), task.confidence) for each in choices]
    return Decision(feed_T, spindle_T, tuple(replace(each, gain=gain) for each, gain in zip(choices, promised)))


def _judge(
    off: bool, gain: Estimate, danger: bool, before: float, likely: bool, kept: bool, doubt: float, left: bool
) -> tuple[Verdict, str]:  # fmt: skip
    """One stretch: what to do, and the sentence that says why."""
    if left:
        return "as written", "nothing here obeys the knobs"
    if not off:
        return (
            "as written",
            "no plan was better" if before <= 0.0 else "a limit may be in danger; faster is out of the question",
        )
    if not kept:
        return "as written", "a limit is passed as written, and slower would not keep it"
    if danger:
        return "as written", "the plan would bring a limit into danger"
    if likely:
        return "slower", "a limit is in danger as written"
    if before > 0.0:
        return "as written", "a limit may be in danger; faster is out of the question"
    if doubt > _DOUBTED:
        return "as written", f"the members of the model disagree {doubt:.1f} times as much as usual"
    if gain.low > 0.0:
        return "faster" if gain.mean > 0.0 else "as written", f"saves {gain.mean:.2g} s (at least {gain.low:.2g})"
    return "as written", f"the gain is not sure ({gain.low:+.2g} to {gain.high:+.2g} s)"


def _estimate(values_S: np.ndarray, confidence: float) -> Estimate:
    low, high = sample_quantiles(values_S, (1.0 - confidence, confidence))
    return Estimate(float(values_S.mean()), float(low), float(high), 2.0 * confidence - 1.0)


def reachable(
    course: Course, feed_T: np.ndarray, spindle_T: np.ndarray, task: Task, start: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Knobs that are never turned too fast and never stand above what was wanted, if need be by turning down early."""
    feed_T = feed_T.copy()
    for place in range(len(feed_T) - 2, -1, -1):
        # What a place lasts at the lower of both feeds is more than it does; at the wanted one it is safe.
        share = course.feed_share_T[place]
        taken = course.period * (1.0 - share + share / max(feed_T[place], 1.0))
        feed_T[place] = min(feed_T[place], feed_T[place + 1] + task.slew * taken)
    return slewed(course, feed_T, spindle_T, task, start)
