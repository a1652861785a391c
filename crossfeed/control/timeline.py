"""A program as a timeline: what it commands at each place, and how long each place takes under the knobs.

Everything is counted in places, the seconds of the program as written: a cut is met at the same place whatever the
knobs say, only later or earlier. T places of one period each, B candidates, A commands.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crossfeed.control.task import Task
from crossfeed.errors import ProgramError, SchemaError
from crossfeed.programs.blocks import Program
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.plan import plan
from crossfeed.programs.trajectory import COMMAND_UNITS
from crossfeed.scenarios.plan import STILL
from crossfeed.schema import Schema
from crossfeed.show.tables import plural

FINE = 10  # samples in a place: short moves inside a second keep their own share of it
_STRAIGHT = 0.98  # cosine of the angle between two directions of the same move
_TIMES = 2.5  # as fast or slow: still the same move
_SPEED = 1.0  # rpm
MOVING = 1.0  # mm/min
_RAPID = 0.6  # of the fastest feed in a log; what is faster is a rapid, unless no feed of a cut can be meant
_FASTEST_CUT = 10_000.0  # mm/min


@dataclass(frozen=True, eq=False)
class Timeline:
    """The program as written, place by place."""

    name: str
    period: float  # s
    commands_TA: np.ndarray  # in the units of the schema
    feed_share_T: np.ndarray  # of the place spent in feed moves: these obey the feed knob
    turn_share_T: np.ndarray  # the part of it whose feed follows the spindle too
    line_T: np.ndarray
    tool_T: tuple[str, ...]
    spindle_column: int
    whole: int  # places of the whole program, of which this may be a part
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.commands_TA)

    @classmethod
    def of(
        cls, program: Program, schema: Schema, period: float, limits: MotionLimits | None = None, unsigned: bool = True
    ) -> "Timeline":
        """Plan a program within the machine's limits; `unsigned` logs count spindle speeds without sign."""
        _check(program, schema)
        trajectory = plan(program, limits)
        fine = trajectory.sample(FINE / period, "mean")
        count = -(-len(fine) // FINE)

        def by_place(values: np.ndarray, how: str = "mean") -> np.ndarray:
            padded = np.zeros((count * FINE, *values.shape[1:]), dtype=values.dtype)
            padded[: len(values)] = values
            if how == "last":
                padded[len(values) :] = values[-1]
                return np.asarray(padded[FINE - 1 :: FINE])
            return np.asarray(padded.reshape(count, FINE, *values.shape[1:]).mean(axis=1))

        commands = by_place(fine.commanded(schema.commands))
        spindle = schema.command_names.index("spindle_speed")
        if unsigned:
            commands[:, spindle] = np.abs(commands[:, spindle])
        return cls(
            name=program.name,
            period=period,
            commands_TA=commands,
            feed_share_T=by_place(fine.feeding.astype(float)),
            turn_share_T=by_place((fine.feeding & fine.per_revolution).astype(float)),
            line_T=by_place(fine.line, "last"),
            tool_T=tuple(trajectory.tools[number] for number in by_place(fine.tool, "last")),
            spindle_column=spindle,
            whole=count,
            warnings=tuple(f"line {finding.line}: {finding.reason}" for finding in trajectory.remarks),
        )

    @classmethod
    def of_log(cls, schema: Schema, commands_TA: np.ndarray, period: float = 1.0) -> "Timeline":
        """Logged commands as a timeline: a log does not say what is a rapid, but how fast."""
        spindle = schema.command_names.index("spindle_speed")
        feeds_TA = np.delete(commands_TA, spindle, axis=1)
        fastest = float(np.nanmax(np.abs(feeds_TA), initial=0.0))
        path_T = np.sqrt((feeds_TA**2).sum(axis=1))
        turning = np.abs(commands_TA[:, spindle]) > 0.0
        feeding = (path_T > MOVING) & (path_T < max(_RAPID * fastest, _FASTEST_CUT)) & turning
        none = np.zeros(len(commands_TA))
        tools = ("",) * len(none)
        return cls("log", period, commands_TA, feeding.astype(float), none, none.astype(int), tools, spindle, len(none))

    @property
    def seconds(self) -> float:
        """How long the program takes as written."""
        return len(self) * self.period

    @cached_property
    def cutting(self) -> np.ndarray:
        """Places that are all feed moves with the spindle on, where a limit can be kept by the knobs."""
        return np.asarray((self.feed_share_T > 0.99) & (np.abs(self.commands_TA[:, self.spindle_column]) > 0.0))

    def free(self, task: Task) -> np.ndarray:
        """Places whose feed or speed the task may change."""
        left = np.array([tool in task.leave for tool in self.tool_T], dtype=bool)
        return np.asarray((self.feed_share_T > 0.0) & ~left)

    def under_way(self, now_A: np.ndarray) -> np.ndarray:
        """Places (T,) that go on with the move of a commanded row; everything after another move is another one."""
        feeds_TA, now = np.delete(self.commands_TA, self.spindle_column, axis=1), np.delete(now_A, self.spindle_column)
        fast_T, fast = np.linalg.norm(feeds_TA, axis=1), float(np.linalg.norm(now))
        same_T = feeds_TA @ now > _STRAIGHT * fast_T * fast
        # A knob changes how fast a move is, by less than what tells a rapid from it.
        same_T &= (fast > fast_T / _TIMES) & (fast < fast_T * _TIMES)
        same_T &= np.abs(self.commands_TA[:, self.spindle_column] - now_A[self.spindle_column]) < _SPEED
        return np.logical_and.accumulate(same_T)

    def rows(self, first: int, last: int) -> "Timeline":
        """Some places of it, first to before last, as a timeline of their own."""
        part = slice(first, last)
        arrays = ("commands_TA", "feed_share_T", "turn_share_T", "line_T", "tool_T")
        parts = {name: getattr(self, name)[part] for name in arrays}
        return replace(self, **parts, whole=len(parts["line_T"]))

    def taken(self, feed_BT: np.ndarray, spindle_BT: np.ndarray) -> np.ndarray:
        """Seconds (B, T) that each place takes under the knobs."""
        feeding, turning = self.feed_share_T, self.turn_share_T
        along = (feeding - turning) / feed_BT + turning / (feed_BT * spindle_BT)
        return np.asarray(self.period * (1.0 - feeding + along))

    def commanded(self, feed_T: np.ndarray, spindle_T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Commands of every period on the wall under the knobs, and the place at the end of each."""
        wall = np.concatenate([[0.0], np.cumsum(self.taken(feed_T, spindle_T))])
        rows = max(1, int(np.ceil(wall[-1] / self.period - 1e-9)))
        edges = np.minimum(np.arange(rows + 1) * self.period, wall[-1])
        reached = np.interp(edges, wall, np.arange(len(feed_T) + 1.0))
        commands = np.empty((rows, self.commands_TA.shape[1]))
        lasting = np.diff(wall) / self.period
        for column in range(commands.shape[1]):
            planned = self.commands_TA[:, column]
            # Feeds are paths, which the knobs keep; speeds are turned at for as long as the place lasts.
            amount = planned * spindle_T * lasting if column == self.spindle_column else planned
            commands[:, column] = between(reached, amount)
        # The last period is not filled by the program; the machine stands in what is left of it.
        return commands, reached[1:]

    def knots(self, task: Task, longest: int) -> np.ndarray:
        """The knot (T,) of every place: NC blocks, or stretches of `longest` places; tools begin new ones."""
        knots, number, begun = [], -1, 0
        for index in range(len(self)):
            same = index > 0 and self.tool_T[index] == self.tool_T[index - 1]
            if task.resolution == "block":
                same = same and self.line_T[index] == self.line_T[index - 1]
            else:
                same = same and index - begun < longest
                same = same and (self.feed_share_T[index] > 0) == (self.feed_share_T[index - 1] > 0)
            if not same:
                number, begun = number + 1, index
            knots.append(number)
        return np.array(knots, dtype=np.intp)


def between(edges: np.ndarray, amount_T: np.ndarray) -> np.ndarray:
    """How much of what the places hold lies between neighbouring positions, which may lie inside of places."""
    total = np.concatenate([[0.0], np.cumsum(amount_T)])
    return np.diff(np.interp(edges, np.arange(len(total)), total))


def slewed(
    timeline: Timeline, feed_BT: np.ndarray, spindle_BT: np.ndarray, task: Task, start: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest knob positions that no knob has to be turned too fast for; each place lasts as the knobs say."""
    feed_BT, spindle_BT = feed_BT.copy(), spindle_BT.copy()
    feed, spindle = (np.full(feed_BT.shape[:-1], value) for value in start)
    taken = np.full(feed_BT.shape[:-1], timeline.period)
    for index in range(feed_BT.shape[-1]):
        room = task.slew * taken
        feed = feed_BT[..., index] = np.clip(feed_BT[..., index], feed - room, feed + room)
        spindle = spindle_BT[..., index] = np.clip(spindle_BT[..., index], spindle - room, spindle + room)
        feeding, turning = timeline.feed_share_T[index], timeline.turn_share_T[index]
        taken = timeline.period * (1.0 - feeding + (feeding - turning) / feed + turning / (feed * spindle))
    return feed_BT, spindle_BT


def _check(program: Program, schema: Schema) -> None:
    missing = [name for name in schema.command_names if name not in COMMAND_UNITS]
    if missing or "spindle_speed" not in schema.command_names:
        raise SchemaError(
            f"An NC program does not tell the commands {', '.join(missing) or 'without a spindle'} of the model.",
            expected=f"a model whose commands are among {', '.join(COMMAND_UNITS)}",
        )
    errors = [finding for finding in program.findings if finding.severity == "error"]
    skipped = ", ".join(f"{name} x{count}" for name, count in program.skipped_calls.items() if name not in STILL)
    if errors or skipped:
        first = f"line {errors[0].line} ({errors[0].reason})" if errors else f"calls to {skipped}"
        raise ProgramError(
            f"{program.name} was not understood ({plural(len(errors), 'unclear line')}): {first}.",
            expected="a program every motion of which is known before its overrides are planned",
            remedy="crossfeed program lists what is unclear; replace it or plan another program.",
        )
