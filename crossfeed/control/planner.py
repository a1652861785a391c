"""Overrides for a program: look some places ahead, search the knots by iCEM, go on, and decide over all of it.

iCEM is that of Pinneri and others (2020), with bounds. P candidates, N knots, 2 knobs, T places.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm
from crossfeed.control.load_forecast import CuttingLaw, LoadForecast
from crossfeed.control.score import Decision, Score, decide, reachable
from crossfeed.control.task import Knob, Task
from crossfeed.control.timeline import slewed
from crossfeed.schema import Schema

Judge = Callable[[np.ndarray], np.ndarray]  # (P, N, 2) -> what each candidate costs, (P,)
_GRID = 36  # feeds tried at each place
_PRICES = (1e-3, 1e4)  # s for passing a limit with certainty
_HALVINGS = 16  # of the prices' range, in powers
_LATE = 1e4  # what a second too late counts for, where a time is given, and a limit passed beyond the budget


class SearchConfig(CheckedForm):
    """How hard to look; `seconds` ends a search early with the best found so far."""

    candidates: int = Field(default=64, ge=8)
    iterations: int = Field(default=5, ge=1)
    elites: int = Field(default=8, ge=2)
    kept: float = Field(default=0.3, ge=0.0, le=1.0)  # of the elites, into the next iteration
    smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)  # of the old mean and spread
    colour: float = Field(default=1.0, ge=0.0)  # 0 white; higher makes neighbouring knots move together
    spread: float = Field(default=0.35, gt=0.0)  # of the first draw, as a part of the range
    seconds: float = Field(default=2.0, gt=0.0)

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.elites > self.candidates:
            raise ValueError(f"{self.elites} elites of {self.candidates} candidates")
        return self


@dataclass(frozen=True)
class SearchResult:
    """The best plan and what it costs; `finished` is False where time ran out."""

    knots_N2: np.ndarray
    cost: float
    finished: bool


def search(
    judge: Judge, low_2: np.ndarray, high_2: np.ndarray, start_N2: np.ndarray, config: SearchConfig,
    draw: np.random.Generator, clock: Callable[[], float] = time.monotonic,
) -> SearchResult:  # fmt: skip
    """Look for the cheapest knots between low and high; the start itself is always among the candidates."""
    until = clock() + config.seconds
    mean, spread = start_N2.copy(), np.broadcast_to(config.spread * (high_2 - low_2), start_N2.shape).copy()
    best, cheapest, kept = start_N2.copy(), np.inf, start_N2[None]
    for iteration in range(config.iterations):
        count = max(config.candidates - len(kept), config.elites)
        noise = coloured((count, len(start_N2), 2), config.colour, draw)
        tried = np.concatenate([np.clip(mean + spread * noise, low_2, high_2), kept])
        if iteration == 0:
            tried = np.concatenate([tried, _corners(low_2, high_2, len(start_N2))])
        cost = judge(tried)
        order = np.argsort(cost, kind="stable")
        if cost[order[0]] < cheapest:
            best, cheapest = tried[order[0]].copy(), float(cost[order[0]])
        elite = tried[order[: config.elites]]
        mean = config.smoothing * mean + (1.0 - config.smoothing) * elite.mean(axis=0)
        spread = config.smoothing * spread + (1.0 - config.smoothing) * elite.std(axis=0)
        kept = elite[: max(1, round(config.kept * config.elites))]
        if clock() >= until and iteration + 1 < config.iterations:
            return SearchResult(best, cheapest, False)
    return SearchResult(best, cheapest, True)


def coloured(shape: tuple[int, int, int], colour: float, draw: np.random.Generator) -> np.ndarray:
    """Unit noise (P, N, knobs) whose power falls with frequency to this power along the knots."""
    white, knots = draw.standard_normal(shape), shape[1]
    if knots < 2 or colour == 0.0:
        return white
    spectrum = np.fft.rfft(white, axis=1)
    frequency = np.maximum(np.fft.rfftfreq(knots), 1.0 / knots)
    shaped = np.fft.irfft(spectrum * frequency[None, :, None] ** (-colour / 2.0), n=knots, axis=1)
    return np.asarray(shaped / max(float(shaped.std()), 1e-9))


def _corners(low_2: np.ndarray, high_2: np.ndarray, knots: int) -> np.ndarray:
    """All knots at one value: each end of each range, and 100 %."""
    ones = np.ones_like(low_2)
    rows = [ones, low_2, high_2, np.array([high_2[0], 1.0]), np.array([low_2[0], 1.0]), np.array([1.0, low_2[1]])]
    return np.stack([np.broadcast_to(row, (knots, 2)) for row in rows])


class PlannerConfig(CheckedForm):
    """How far to look at once, and how hard to search."""

    search: SearchConfig = SearchConfig()
    horizon: int = Field(default=32, ge=2)  # places planned at once, where the forecast reaches that far
    knot: int = Field(default=4, ge=1)  # places under one knob position


@dataclass(frozen=True, eq=False)
class OverridePlan:
    """The knobs that a search found, the stretches to decide about, and the wanted knobs to start from next time."""

    feed_T: np.ndarray
    spindle_T: np.ndarray
    knot_T: np.ndarray
    wanted_T2: np.ndarray
    finished: bool


def plan_ahead(
    score: Score, config: PlannerConfig, start: tuple[float, float], budget: float, seed: int = 0,
    warm_T2: np.ndarray | None = None,
) -> OverridePlan:  # fmt: skip
    """Find the best knobs for the places of a forecast.

    `budget` is the chance of passing a limit that the plan may add. It is spent where it saves most: all places pay the
    same price for chance, the lowest that keeps to the budget.
    """
    timeline, task = score.forecast.timeline, score.task
    knot_T, free_T = timeline.knots(task, config.knot), timeline.free(task)
    # Speeding the spindle up in a cut takes torque that no law of cutting knows of, so below limits it stays.
    spindle = Knob() if score.highest else task.spindle
    low, high = (np.array([getattr(task.feed, end), getattr(spindle, end)]) for end in ("min", "max"))
    price, best_T = priced(score, task, knot_T, budget, start)

    def spread(knots_PN2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = np.where(free_T[:, None], knots_PN2[..., knot_T, :], 1.0)
        return slewed(timeline, wanted[..., 0], wanted[..., 1], task, start)

    def judge(knots_PN2: np.ndarray) -> np.ndarray:
        knobs = spread(knots_PN2)
        return np.asarray(score.of(*knobs).total(price) + _lateness(score, *knobs))

    # The search begins with the last plan moved on, or with the best feeds of the places.
    first_T2 = np.stack([best_T, np.ones_like(best_T)], axis=1)
    if warm_T2 is not None and len(warm_T2):
        first_T2 = warm_T2[np.minimum(np.arange(len(knot_T)), len(warm_T2) - 1)]
    first_N2 = np.stack([first_T2[knot_T == number].mean(axis=0) for number in range(int(knot_T.max()) + 1)])
    result = search(judge, low, high, first_N2, config.search, np.random.default_rng([seed, len(timeline)]))
    feed_T, spindle_T = spread(result.knots_N2)
    # A knot is as slow as its worst place: the feeds chosen place by place may be cheaper.
    totals = []
    for tried_T in (feed_T, best_T):
        knobs = tried_T[None], spindle_T[None]
        scored = score.of(*knobs)
        late_B = _lateness(score, *knobs) + _LATE * np.maximum(scored.added_B - budget, 0.0)
        totals.append(float((scored.total(price) + late_B)[0]))
    wanted_T2 = np.where(free_T[:, None], result.knots_N2[knot_T], 1.0)
    return OverridePlan(best_T if totals[1] < totals[0] else feed_T, spindle_T, knot_T, wanted_T2, result.finished)


def plan_whole(
    forecast: LoadForecast, law: CuttingLaw, task: Task, schema: Schema, config: PlannerConfig, seed: int = 0
) -> tuple[Decision, bool]:
    """A plan for a whole program whose loads are known or sampled beforehand, and whether every search was finished."""
    timeline, total = forecast.timeline, len(forecast)
    feed_T, spindle_T, start, finished = np.ones(total), np.ones(total), (1.0, 1.0), True
    step = config.horizon // 2
    for first in range(0, total, step):
        part = Score(forecast.section(first, first + config.horizon), law, task, schema)
        planned = plan_ahead(part, config, start, task.risk * len(part.forecast) / total, seed + first)
        places = slice(first, min(first + step, total))
        count = places.stop - places.start
        feed_T[places], spindle_T[places] = planned.feed_T[:count], planned.spindle_T[:count]
        start = (float(feed_T[places.stop - 1]), float(spindle_T[places.stop - 1]))
        finished = finished and planned.finished
    # The decision is made over the whole program, with its reasons.
    score = Score(forecast, law, task, schema)
    return decide(score, feed_T, spindle_T, timeline.knots(task, config.knot), (1.0, 1.0), seed=seed), finished


def priced(
    score: Score, task: Task, knot_T: np.ndarray, budget: float, start: tuple[float, float]
) -> tuple[float, np.ndarray]:
    """The lowest price of added chance at which the best feed of every place keeps to the budget, and those feeds."""
    timeline, grid = score.forecast.timeline, np.linspace(task.feed.min, task.feed.max, _GRID)
    # 100 % itself is among the feeds whatever the range is.
    grid = np.unique(np.append(grid, 1.0))
    each = score.by_place(
        np.broadcast_to(grid[:, None], (len(grid), len(timeline))), np.ones((len(grid), len(timeline)))
    )
    free_T, ones = timeline.free(task), np.ones(len(timeline))

    def best(price: float) -> np.ndarray:
        total_GT = each.total(price)
        if task.resolution == "block":
            total_GT = np.stack([np.bincount(knot_T, row) for row in total_GT])[:, knot_T]
        wanted_T = np.where(free_T, grid[total_GT.argmin(axis=0)], 1.0)
        # A place meets the knob of the one before it, too.
        wanted_T[:-1] = np.where(free_T[:-1], np.minimum(wanted_T[:-1], wanted_T[1:]), 1.0)
        return reachable(timeline, wanted_T, ones, task, start)[0]

    def added(feed_T: np.ndarray) -> float:
        return float(score.added(feed_T, ones).sum())

    low, high = _PRICES
    feed_T = best(low)
    if added(feed_T) <= budget:
        return low, feed_T
    feed_T = best(high)
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(low * high))
        tried_T = best(middle)
        if added(tried_T) > budget:
            low = middle
        else:
            high, feed_T = middle, tried_T
    return high, feed_T


def _lateness(score: Score, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> np.ndarray:
    """With a given time: what it costs to be slower than the program as written would have to be scaled to."""
    within, timeline = score.task.objective.within, score.forecast.timeline
    if within is None:
        return np.zeros(len(feed_BT))
    late_B = timeline.taken(feed_BT, spindle_BT).sum(-1) - within * len(timeline) / timeline.whole
    return np.asarray(_LATE * np.maximum(late_B, 0.0))
