"""How good a plan is, and what of it to use: only what surely gains and brings no limit into danger.

Time, energy and the room left below every limit, place by place, for many plans at once. B plans, S samples, T places.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from crossfeed.control.load_forecast import CuttingLaw, LoadForecast
from crossfeed.control.task import Task, highest_by_row
from crossfeed.control.timeline import Timeline, slewed
from crossfeed.scenarios.measures import Estimate, power_sensors
from crossfeed.schema import Schema, conversion
from crossfeed.show.tables import significant

_PENALTY = 50.0  # s for each second that a load passes its limit by the height of it, where slower would keep it
_BARRED = 0.1  # chance of passing a limit as written from which on a place is not made faster
_DOUBT = 2.0  # times the usual disagreement from which on turning a knob costs something
# Knobs are turned once a period, wherever the tool then is: by how many periods a place may be early or late for a
# knob turned by 100 % there, and for one that stands off 100 % by as much. Set by hand.
_TURNED, _STANDS = 0.3, 0.1
_DOUBT_PENALTY = 1.0  # s for each second with a knob off 100 % at one further usual disagreement
_OFF = 1e-3  # a knob nearer to 100 % than this stands there
_NOTHING = 1e-9  # of a chance
_DOUBTED = 3.0  # times the usual disagreement of the members from which on nothing is believed
Verdict = Literal["faster", "slower", "as written"]


@dataclass(frozen=True)
class PlanScores:
    """What B plans bring over the places of an forecast."""

    cost_B: np.ndarray  # in seconds, energy priced in
    seconds_B: np.ndarray
    energy_B: np.ndarray  # Wh
    excess_B: np.ndarray  # seconds x share by which loads pass limits that slower would keep
    added_B: np.ndarray  # the chance of passing a limit that the plan adds to the program as written
    doubt_B: np.ndarray

    def total(self, price: float) -> np.ndarray:
        """What a planner makes small, at a price in seconds for added chance."""
        return self.cost_B + _PENALTY * self.excess_B + price * self.added_B + _DOUBT_PENALTY * self.doubt_B


class Score:
    """Judges plans over one forecast by the law of cutting."""

    def __init__(self, forecast: LoadForecast, law: CuttingLaw, task: Task, schema: Schema) -> None:
        self.forecast, self.law, self.task, self.schema = forecast, law, task, schema
        timeline = forecast.timeline
        self._speed_T = np.abs(timeline.commands_TA[:, timeline.spindle_column])
        self._powers = power_sensors(schema, np.isin(schema.sensor_names, list(forecast.paths)))
        self.highest = highest_by_row(task.limits_of(schema), timeline.tool_T)  # (T,) of every limited sensor

    @cached_property
    def _mean(self) -> dict[str, np.ndarray]:
        return {name: self.forecast.paths[name].mean(axis=0) for name in self.forecast.paths}

    def effective(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The factors that the cut itself meets: none outside feed moves, the spindle's in feeds for each turn."""
        timeline = self.forecast.timeline
        feeding = timeline.feed_share_T > 0.0
        turns = timeline.turn_share_T > 0.5 * timeline.feed_share_T
        return np.where(feeding, feed_BT * np.where(turns, spindle_BT, 1.0), 1.0), spindle_BT

    def of(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> PlanScores:
        """Time, energy, danger and doubt of B plans."""
        by_place = self.by_place(feed_BT, spindle_BT)
        return PlanScores(*(getattr(by_place, name).sum(-1) for name in PlanScores.__dataclass_fields__))

    def by_place(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> PlanScores:
        """The same, place by place: every field is (B, T)."""
        timeline, task = self.forecast.timeline, self.task
        taken_BT = timeline.taken(feed_BT, spindle_BT)
        factors = self.effective(feed_BT, spindle_BT)
        watts_BT = np.full_like(taken_BT, task.objective.base_load * 1000.0)
        for name in self._powers:
            watts_BT = watts_BT + self._watts(name, self._mean[name], *factors)
        energy_BT = watts_BT * taken_BT / 3600.0
        cost_BT = task.time_price * taken_BT + task.energy_price * energy_BT / 1000.0
        excess_BT = self.excess(feed_BT, spindle_BT) * taken_BT
        off_BT = np.maximum(np.abs(feed_BT - 1.0), np.abs(spindle_BT - 1.0)) > _OFF
        doubt_BT = off_BT * np.maximum(self.forecast.doubt_T - _DOUBT, 0.0) * taken_BT
        return PlanScores(cost_BT, taken_BT, energy_BT, excess_BT, self.added(feed_BT, spindle_BT), doubt_BT)

    @cached_property
    def likely(self) -> np.ndarray:
        """Places (T,) whose load as written lies above its limit with even chance or more: there slower is worth it."""
        ones = np.ones(len(self.forecast))
        return self._above_middle(ones, ones) > 0.0

    def excess(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> np.ndarray:
        """The share (B, T) by which the expected load lies above its limit, at likely places.

        Nobody slows down for a mere possibility, nor for the worst case: that would cost too much.
        """
        return np.where(self.likely, self._above_middle(feed_BT, spindle_BT), 0.0)

    def chance(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> np.ndarray:
        """The chance (B, T) that a limited load lies above its limit while cutting."""
        chance_BT = np.zeros(feed_BT.shape)
        for name, load_BT in self.peaks(feed_BT, spindle_BT).items():
            highest_T = self.highest[name]
            own_BT = (load_BT > highest_T).astype(float)
            if (tail := self.forecast.tails.get(name)) is not None:
                factors = self.effective(highest_feed_met(feed_BT), spindle_BT)
                load_BT = self.law.expected(self.schema.channel(name), tail.load_T, self._speed_T, *factors)
                grown_BT = np.maximum(load_BT / np.maximum(tail.load_T, 1e-9), 1.0)
                chance = tail.tail.above((highest_T - load_BT) / (tail.unit_T * grown_BT))
                own_BT = np.where(tail.known_T, chance, own_BT)
            chance_BT = np.maximum(chance_BT, own_BT)
        return np.where(self.forecast.timeline.cutting, chance_BT, 0.0)

    @cached_property
    def as_written(self) -> np.ndarray:
        """The chance (T,) of passing a limit that the program brings with it."""
        ones = np.ones(len(self.forecast))
        return self.chance(ones, ones)

    @cached_property
    def barred(self) -> np.ndarray:
        """Places (T,) that are not made faster: a limit is in danger there as written."""
        return np.asarray(self.likely | (self.as_written > _BARRED))

    def added(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> np.ndarray:
        """The chance (B, T) of passing a limit that a plan adds; what it saves elsewhere is not counted against it."""
        more_BT = np.maximum(self.chance(feed_BT, spindle_BT) - self.as_written, 0.0)
        return np.where(self.barred & (highest_feed_met(feed_BT) > 1.0 + 1e-9), 1.0, more_BT)

    def _above_middle(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> np.ndarray:
        """The share (B, T) by which the load that is passed with even chance lies above its limit while cutting."""
        worst_BT = np.zeros(feed_BT.shape)
        for name, load_BT in self._bounds(self.forecast.middle, feed_BT, spindle_BT).items():
            highest_T = self.highest[name]
            with np.errstate(invalid="ignore"):
                share_BT = np.where(np.isfinite(highest_T), (load_BT - highest_T) / np.abs(highest_T), 0.0)
            worst_BT = np.maximum(worst_BT, share_BT)
        return np.where(self.forecast.timeline.cutting, worst_BT, 0.0)

    def peaks(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> dict[str, np.ndarray]:
        """The cautious load (B, T) of each limited sensor."""
        return self._bounds(self.forecast.high, feed_BT, spindle_BT)

    def _bounds(
        self, loads: Mapping[str, np.ndarray], feed_BT: np.ndarray, spindle_BT: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The most (B, T) that loads as written of the limited sensors can become."""
        factors = self.effective(highest_feed_met(feed_BT), spindle_BT)
        return {
            name: self.law.bound(self.schema.channel(name), loads[name], self._speed_T, *factors)
            for name in self.highest
        }

    def margins(self, feed_T: np.ndarray, spindle_T: np.ndarray) -> np.ndarray:
        """The room (T,) below the nearest limit as a share of it; infinite without limits or without a cut."""
        room_T = np.full(len(self.forecast), np.inf)
        for name, load_T in self.peaks(feed_T, spindle_T).items():
            room_T = np.minimum(room_T, 1.0 - load_T / self.highest[name])
        return np.where(self.forecast.timeline.cutting, room_T, np.inf)

    def gains(self, feed_T: np.ndarray, spindle_T: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """By how much a plan beats the program as written at each place: cost (S, T) in s, and energy (S, T) in Wh.

        The exponent of the law is drawn anew for every sample, so that its doubt is part of the gain's.
        """
        count = len(next(iter(self.forecast.paths.values()))) if self.forecast.paths else 1
        draw = np.random.default_rng([seed, 18]).standard_normal((count, 1))
        exponent = np.clip(self.law.exponent + self.law.spread * draw, 0.3, 1.0)
        ones = np.ones(len(self.forecast))
        energies = []
        for feed, spindle in ((ones, ones), (feed_T, spindle_T)):
            taken_T = self.forecast.timeline.taken(feed, spindle)
            factors = self.effective(feed, spindle)
            watts_ST = np.full((count, len(ones)), self.task.objective.base_load * 1000.0)
            for name in self._powers:
                watts_ST = watts_ST + self._watts(name, self.forecast.paths[name], *factors, exponent)
            energies.append((watts_ST * taken_T / 3600.0, taken_T))
        (before_ST, before_T), (after_ST, after_T) = energies
        saved_ST = before_ST - after_ST
        turned_T = np.abs(np.diff(feed_T, prepend=feed_T[0]))
        late_T = self.forecast.timeline.feed_share_T * (_TURNED * turned_T + _STANDS * np.abs(feed_T - 1.0))
        late_ST = late_T * np.random.default_rng([seed, 19]).standard_normal((count, len(ones)))
        gained_ST = before_T - after_T + self.forecast.timeline.period * late_ST
        cost_ST = self.task.time_price * gained_ST + self.task.energy_price * saved_ST / 1000.0
        return cost_ST, saved_ST

    def _watts(
        self, name: str, load: np.ndarray, feed: np.ndarray, spindle: np.ndarray, exponent: np.ndarray | None = None
    ) -> np.ndarray:
        channel = self.schema.channel(name)
        watts = conversion(channel.unit, "W")
        expected = self.law.expected(channel, load, self._speed_T, feed, spindle, exponent)
        return np.asarray(expected * watts.scale + watts.offset)


def highest_feed_met(feed_BT: np.ndarray) -> np.ndarray:
    """The highest feed (B, T) that a place may meet: knobs are turned once a period, which may have begun before it."""
    before_BT = np.concatenate([feed_BT[..., :1], feed_BT[..., :-1]], axis=-1)
    return np.asarray(np.maximum(feed_BT, before_BT))


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
    task, timeline, level = score.task, score.forecast.timeline, 2.0 * score.task.confidence - 1.0
    budget = task.risk if budget is None else budget
    gain_ST, _ = score.gains(feed_T, spindle_T, seed)
    ones = np.ones_like(feed_T)
    added_T, excess_T = score.added(feed_T, spindle_T), score.excess(feed_T, spindle_T)
    # Knobs that stand high may not come back to 100 % in time: what that adds is borne.
    back_T, _ = reachable(timeline, np.minimum(feed_T, 1.0), ones, task, start)
    borne_T = score.added(back_T, ones)
    off_T, free_T = np.maximum(np.abs(feed_T - 1.0), np.abs(spindle_T - 1.0)) > _OFF, timeline.free(task)

    def judged(places: np.ndarray) -> tuple[Verdict, str]:
        """What to do with a stretch, and the sentence that says why."""
        if not free_T[places].any():
            return "as written", "nothing here obeys the knobs"
        if not off_T[places].any():
            barred = "a limit may be in danger; faster is out of the question"
            return "as written", barred if score.barred[places].any() else "no plan was better"
        if (excess_T[places] > 0.0).any():
            return "as written", "a limit is passed as written, and slower would not keep it"
        if (added_T[places] > np.maximum(borne_T[places], budget) + _NOTHING).any():
            return "as written", "the plan would bring a limit into danger"
        if score.likely[places].any():
            return "slower", "a limit is in danger as written"
        doubt = float(score.forecast.doubt_T[places].max())
        if doubt > _DOUBTED:
            return "as written", f"the members of the model disagree {doubt:.1f} times as much as usual"
        gain = Estimate.of(gain_ST[:, places].sum(axis=1), level)
        if gain.low > 0.0:
            saving = f"saves {significant(gain.mean)} s (at least {significant(gain.low)})"
            return "faster" if gain.mean > 0.0 else "as written", saving
        return "as written", f"the gain is not sure ({gain.low:+.2g} to {gain.high:+.2g} s)"

    stretches = [np.flatnonzero(stretch_T == number) for number in np.unique(stretch_T)]
    verdicts = [judged(places) for places in stretches]
    left_T = np.zeros(len(feed_T), dtype=bool)
    for places, (verdict, _) in zip(stretches, verdicts):
        left_T[places] = verdict == "as written"
    feed_T, spindle_T = (np.where(left_T, 1.0, knob_T) for knob_T in (feed_T, spindle_T))
    feed_T, spindle_T = reachable(timeline, feed_T, spindle_T, task, start)
    if float(score.added(feed_T, spindle_T).sum()) > max(budget, float(borne_T.sum())) + _NOTHING:
        feed_T, spindle_T = back_T, ones
    # What is promised is what the knobs that can be reached bring, not what was wanted.
    gain_ST, _ = score.gains(feed_T, spindle_T, seed)
    choices = []
    for places, (verdict, why) in zip(stretches, verdicts):
        first, last = int(places[0]), int(places[-1])
        gain = Estimate.of(gain_ST[:, first : last + 1].sum(axis=1), level)
        choices.append(Choice(first, last, verdict, why, gain))
    return Decision(feed_T, spindle_T, tuple(choices))


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
