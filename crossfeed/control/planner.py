"""A receding plan: look ahead, search the knots, decide, go a few places, look again."""

from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from crossfeed.control.course import Course, slewed
from crossfeed.control.decision import Decision, decide, reachable
from crossfeed.control.law import CuttingLaw
from crossfeed.control.limits import Limit
from crossfeed.control.outlook import Lookout, Outlook
from crossfeed.control.score import Score
from crossfeed.control.search import Found, SearchConfig, search
from crossfeed.control.task import Knob, Task
from crossfeed.schema import Schema

_GRID = 15  # feeds tried at each knot for the first start
_LATE = 1e4  # what a second too late counts for, where a time is given


class PlannerConfig(BaseModel):
    """How far to look, how often to decide, and how hard to search."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    search: SearchConfig = SearchConfig()
    horizon: int = Field(default=32, ge=2)  # places planned at once, where the outlook reaches that far
    every: int = Field(default=4, ge=1)  # places between two decisions
    knot: int = Field(default=4, ge=1)  # places under one knob position
    asked: bool = True  # whether the model itself is asked about the plan before it is believed


@dataclass(frozen=True, eq=False)
class Planned:
    """A decision, the knots to start from next time, and how the search went."""

    decision: Decision
    wanted_T2: np.ndarray
    feed_T: np.ndarray  # before it was decided which of it to use
    spindle_T: np.ndarray
    found: Found


def plan_ahead(
    outlook: Outlook, law: CuttingLaw, task: Task, limits: tuple[Limit, ...], schema: Schema, config: PlannerConfig,
    start: tuple[float, float] = (1.0, 1.0), warm_T2: np.ndarray | None = None, seed: int = 0,
    lookout: Lookout | None = None,
) -> Planned:  # fmt: skip
    """Find the best knobs for the places of an outlook and decide which of them to use."""
    course, score = outlook.course, Score(outlook, law, task, limits, schema)
    knot_T = course.knots(task, config.knot)
    free_T = course.free(task)
    # Speeding the spindle up in a cut takes torque that no law of cutting knows of, so below limits it stays.
    spindle = Knob() if limits else task.spindle
    low, high = (np.array([getattr(task.feed, end), getattr(spindle, end)]) for end in ("min", "max"))

    def spread(knots_PN2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wanted = np.where(free_T[:, None], knots_PN2[:, knot_T], 1.0)
        return slewed(course, wanted[..., 0], wanted[..., 1], task, start)

    def judge(knots_PN2: np.ndarray) -> np.ndarray:
        knobs = spread(knots_PN2)
        return np.asarray(score.of(*knobs).total + _lateness(task, score, *knobs))

    first = _start(score, task, knot_T, warm_T2)
    found = search(judge, low, high, first, config.search, np.random.default_rng([seed, len(course)]))
    wanted_T2 = np.where(free_T[:, None], found.knots_N2[knot_T], 1.0)
    feed_T, spindle_T = slewed(course, wanted_T2[:, 0], wanted_T2[:, 1], task, start)
    feed_T = _filled(score, task, feed_T, spindle_T, start)
    if lookout is not None and config.asked:
        score = Score(_asked(outlook, lookout, score, feed_T, spindle_T), law, task, limits, schema)
    decision = decide(score, feed_T, spindle_T, knot_T, start, seed)
    return Planned(decision, wanted_T2, feed_T, spindle_T, found)


def plan_whole(
    outlook: Outlook, law: CuttingLaw, task: Task, limits: tuple[Limit, ...], schema: Schema, config: PlannerConfig,
    seed: int = 0,
) -> tuple[Decision, bool]:  # fmt: skip
    """A plan for a whole program whose loads are known or sampled beforehand, and whether every search was finished."""
    course, total = outlook.course, len(outlook)
    feed_T, spindle_T, start, finished = np.ones(total), np.ones(total), (1.0, 1.0), True
    step = max(config.every, config.horizon // 2)
    for first in range(0, total, step):
        part = section(outlook, first, first + config.horizon)
        planned = plan_ahead(part, law, task, limits, schema, config, start, seed=seed + first)
        own = slice(first, min(first + step, total))
        count = own.stop - own.start
        # What is wanted, not what was decided here: the last word is spoken over the whole program, with its reasons.
        feed_T[own], spindle_T[own] = planned.feed_T[:count], planned.spindle_T[:count]
        start = (float(feed_T[own.stop - 1]), float(spindle_T[own.stop - 1]))
        finished = finished and planned.found.finished
    score = Score(outlook, law, task, limits, schema)
    return decide(score, feed_T, spindle_T, course.knots(task, config.knot), (1.0, 1.0), seed), finished


def section(outlook: Outlook, first: int, last: int) -> Outlook:
    """Some places of an outlook."""
    places = slice(first, min(last, len(outlook)))
    course = outlook.course.after(float(first), places.stop - first)
    paths = {name: path_ST[:, places] for name, path_ST in outlook.paths.items()}
    middle, high = ({name: load_T[places] for name, load_T in part.items()} for part in (outlook.middle, outlook.high))
    return Outlook(course, paths, outlook.doubt_T[places], outlook.basis, middle, high)


def _start(score: Score, task: Task, knot_T: np.ndarray, warm_T2: np.ndarray | None) -> np.ndarray:
    """Where the search begins: the last plan moved on, or the best feed of each knot on its own."""
    knots = int(knot_T.max()) + 1
    if warm_T2 is not None and len(warm_T2):
        rows = np.minimum(np.arange(len(knot_T)), len(warm_T2) - 1)
        return np.stack([warm_T2[rows][knot_T == number].mean(axis=0) for number in range(knots)])
    start = np.ones((knots, 2))
    grid = np.linspace(task.feed.min, task.feed.max, _GRID)
    for number in range(knots):
        feed_PT = np.where(knot_T == number, grid[:, None], 1.0)
        start[number, 0] = grid[int(score.of(feed_PT, np.ones_like(feed_PT)).total.argmin())]
    return start


def _filled(
    score: Score, task: Task, feed_T: np.ndarray, spindle_T: np.ndarray, start: tuple[float, float]
) -> np.ndarray:
    """The feed raised, place by place, to what the limits allow, where that is cheaper: a knot is as slow as its worst.

    A second without a limit in danger is never dearer for being shorter, but with a given time slower may be better.
    """
    course, grid = score.outlook.course, np.linspace(task.feed.min, task.feed.max, 2 * _GRID)
    passed_GT = score.passed(np.broadcast_to(grid[:, None], (len(grid), len(feed_T))), spindle_T)
    allowed_T = np.where(passed_GT <= 0.0, grid[:, None], 0.0).max(axis=0)
    wanted_T = np.where(course.free(task), np.maximum(feed_T, allowed_T), 1.0)
    raised_T, _ = reachable(course, wanted_T, spindle_T, task, start)
    totals = []
    for each_T in (feed_T, raised_T):
        knobs = each_T[None], spindle_T[None]
        totals.append(float((score.of(*knobs).total + _lateness(task, score, *knobs))[0]))
    return raised_T if totals[1] < totals[0] else feed_T


def _lateness(task: Task, score: Score, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> np.ndarray:
    """With a given time: what it costs to be slower than the program as written would have to be scaled to."""
    within = task.objective.within
    if within is None:
        return np.zeros(len(feed_BT))
    course: Course = score.outlook.course
    late_B = course.taken(feed_BT, spindle_BT).sum(-1) - within * len(course) / course.whole
    return np.asarray(_LATE * np.maximum(late_B, 0.0))


def _asked(outlook: Outlook, lookout: Lookout, score: Score, feed_T: np.ndarray, spindle_T: np.ndarray) -> Outlook:
    """The outlook with the loads that the model itself expects under the plan, where those are above the law.

    They are brought back to the program as written by the law, so that everything else goes on as before.
    """
    course = outlook.course
    commands_TA, place_R = course.commanded(feed_T, spindle_T)
    count = min(len(commands_TA), lookout.reach)
    mean_RC, doubt_R = lookout.expected(commands_TA[:count])
    row_T = np.clip(np.searchsorted(place_R[:count], np.arange(len(course)) + 0.5), 0, count - 1)
    reached_T = np.arange(len(course)) < place_R[count - 1]
    names = lookout.model.schema.sensor_names
    paths, high = dict(outlook.paths), dict(outlook.high)
    factors = score.effective(feed_T, spindle_T)
    speed_T = np.abs(course.commands_TA[:, course.spindle_column])
    for name in score.limited:
        path_ST, quantity = outlook.paths[name], score.schema.channel(name).quantity
        said_T = mean_RC[row_T, names.index(name)]
        by_law_T = score.law.expected(name, quantity, path_ST.mean(axis=0), speed_T, *factors)
        more_T = np.where(reached_T, np.maximum(said_T - by_law_T, 0.0), 0.0)
        paths[name], high[name] = path_ST + more_T, high[name] + more_T
    doubt_T = np.where(reached_T, np.maximum(outlook.doubt_T, doubt_R[row_T]), outlook.doubt_T)
    return replace(outlook, paths=paths, high=high, doubt_T=doubt_T)
