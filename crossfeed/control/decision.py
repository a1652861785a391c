"""The decision: act only where a gain is sure and no limit is in danger; otherwise leave the program alone, and say so.

S samples, T places.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from crossfeed.control.score import Score
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline, slewed
from crossfeed.serving.measures import Estimate, sample_quantiles
from crossfeed.show.tables import significant

_OFF = 1e-3  # a knob nearer to 100 % than this stands there
_NOTHING = 1e-9  # of a chance
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
    budget: float | None = None, seed: int = 0,
) -> Decision:  # fmt: skip
    """Judge a plan stretch by stretch and keep of it what can be answered for.

    `budget` is the chance of passing a limit that all of it may add; the task's risk where nothing is said.
    """
    task, timeline = score.task, score.forecast.timeline
    budget = task.risk if budget is None else budget
    gain_ST, _ = score.gains(feed_T, spindle_T, seed)
    ones = np.ones_like(feed_T)
    added_T, excess_T = score.added(feed_T, spindle_T), score.excess(feed_T, spindle_T)
    # Knobs that stand high may not come back to 100 % in time: what that adds is borne.
    back_T, _ = reachable(timeline, np.minimum(feed_T, 1.0), ones, task, start)
    borne_T = score.added(back_T, ones)
    left_T = ~timeline.free(task)
    choices = []
    feed_T, spindle_T = feed_T.copy(), spindle_T.copy()
    for number in np.unique(stretch_T):
        places = np.flatnonzero(stretch_T == number)
        stretch = _Stretch(
            off=np.abs(feed_T[places] - 1.0).max() > _OFF or np.abs(spindle_T[places] - 1.0).max() > _OFF,
            gain=_estimate(gain_ST[:, places].sum(axis=1), task.confidence),
            danger=bool((added_T[places] > np.maximum(borne_T[places], budget) + _NOTHING).any()),
            barred=bool(score.barred[places].any()),
            likely=bool(score.likely[places].any()),
            kept=not (excess_T[places] > 0.0).any(),
            doubt=float(score.forecast.doubt_T[places].max()),
            left=bool(left_T[places].all()),
        )
        verdict, why = stretch.judged
        if verdict == "as written":
            feed_T[places] = spindle_T[places] = 1.0
        choices.append(Choice(int(places[0]), int(places[-1]), verdict, why, stretch.gain))
    feed_T, spindle_T = reachable(timeline, feed_T, spindle_T, task, start)
    if float(score.added(feed_T, spindle_T).sum()) > max(budget, float(borne_T.sum())) + _NOTHING:
        feed_T, spindle_T = back_T, ones
    # What is promised is what the knobs that can be reached bring, not what was wanted.
    gain_ST, _ = score.gains(feed_T, spindle_T, seed)
    promised = [_estimate(gain_ST[:, each.first : each.last + 1].sum(axis=1), task.confidence) for each in choices]
    return Decision(feed_T, spindle_T, tuple(replace(each, gain=gain) for each, gain in zip(choices, promised)))


@dataclass(frozen=True)
class _Stretch:
    """What is known of one stretch under a plan when it is judged."""

    off: bool  # a knob is
    gain: Estimate
    danger: bool  # one place adds more chance of passing a limit than the whole plan may
    barred: bool  # a limit is in danger as written
    likely: bool  # it is passed as written with even chance
    kept: bool  # and no longer under the plan
    doubt: float
    left: bool

    @property
    def judged(self) -> tuple[Verdict, str]:
        """What to do, and the sentence that says why."""
        if self.left:
            return "as written", "nothing here obeys the knobs"
        if not self.off:
            why = "a limit may be in danger; faster is out of the question" if self.barred else "no plan was better"
            return "as written", why
        if not self.kept:
            return "as written", "a limit is passed as written, and slower would not keep it"
        if self.danger:
            return "as written", "the plan would bring a limit into danger"
        if self.likely:
            return "slower", "a limit is in danger as written"
        if self.doubt > _DOUBTED:
            return "as written", f"the members of the model disagree {self.doubt:.1f} times as much as usual"
        gain = self.gain
        if gain.low > 0.0:
            saving = f"saves {significant(gain.mean)} s (at least {significant(gain.low)})"
            return "faster" if gain.mean > 0.0 else "as written", saving
        return "as written", f"the gain is not sure ({gain.low:+.2g} to {gain.high:+.2g} s)"


def _estimate(values_S: np.ndarray, confidence: float) -> Estimate:
    low, high = sample_quantiles(values_S, (1.0 - confidence, confidence))
    return Estimate(float(values_S.mean()), float(low), float(high), 2.0 * confidence - 1.0)


def reachable(
    timeline: Timeline, feed_T: np.ndarray, spindle_T: np.ndarray, task: Task, start: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Knobs that are never turned too fast and never stand above what was wanted, if need be by turning down early."""
    feed_T = feed_T.copy()
    for index in range(len(feed_T) - 2, -1, -1):
        # What a place lasts at the lower of both feeds is more than it does; at the wanted one it is safe.
        share = timeline.feed_share_T[index]
        taken = timeline.period * (1.0 - share + share / max(feed_T[index], 1.0))
        feed_T[index] = min(feed_T[index], feed_T[index + 1] + task.slew * taken)
    return slewed(timeline, feed_T, spindle_T, task, start)
