"""A job is an NC program made ready for a machine: commands, path and engagement along its own time.

Played under a feed override the job runs through the same samples slower or faster."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfeed.errors import MachineError
from crossfeed.programs.blocks import Program
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.plan import plan
from crossfeed.sim.physics.cutting import Engagement, Material, Tool, engage, tool_named
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Floats, MachineParameters

RATE = 100.0  # Hz of the samples that describe a job
_HIGHEST = 2.0  # 200 %, the most that a control's knob offers
_ROUNDING = 1e-6  # of a step


class Motion(IntEnum):
    """What the program does in a sample, which decides the override it obeys."""

    STANDING = 0  # dwell, tool change, wait for the spindle
    RAPID = 1
    FEED = 2
    FEED_PER_REVOLUTION = 3


@dataclass(frozen=True)
class Job:
    """A planned program with its engagement, one sample every 1 / RATE seconds of planned time."""

    name: str
    spindle_speed: Floats  # (N,) rpm
    feed: Floats  # (N, 3) mm/min
    position: Floats  # (N, 3) mm from the work zero
    cutting: NDArray[np.bool_]
    motion: NDArray[np.intp]  # (N,) of Motion
    line: NDArray[np.int64]
    tool: NDArray[np.intp]  # index into tools
    tools: list[Tool]
    engagement: Engagement

    @property
    def seconds(self) -> float:
        """Planned duration at 100 % override."""
        return len(self.spindle_speed) / RATE

    @property
    def remarks(self) -> list[str]:
        """What had to be assumed about the tools."""
        return [
            f"tool '{tool.name}' does not tell its diameter: {tool.diameter:g} mm and {tool.teeth} teeth are assumed"
            for number, tool in enumerate(self.tools)
            if tool.assumed and bool((self.engagement.depth[self.tool == number] > 0).any())
        ]


@dataclass(frozen=True)
class Playback:
    """A job as it ran: inputs for the machine at its inner rate, and what the control knows beside them."""

    inputs: DriveInputs
    position: Floats  # (N, 3) mm
    line: NDArray[np.int64]
    tool: NDArray[np.intp]
    override: Floats  # (N,) feed override, 1 = 100 %
    motion: NDArray[np.intp]  # (N,) of Motion

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, part: slice | NDArray[np.intp]) -> "Playback":
        return Playback(**{field.name: getattr(self, field.name)[part] for field in fields(self)})


def prepare(
    program: Program,
    limits: MotionLimits,
    tool_notes: Mapping[str, str] | None = None,
    stock_top: float = 0.0,
    coarseness: float = 1.0,
) -> Job:
    """Plan a program within a machine's limits (`motion_limits`) and mill it out of its stock."""
    if not np.isfinite(stock_top):
        raise MachineError(f"The stock top z = {stock_top} mm is no place.", expected="a finite height in mm")
    trajectory = plan(program, limits)
    trace = trajectory.sample(RATE)
    notes = tool_notes or {}
    tools = [tool_named(name, notes.get(name, "")) for name in trajectory.tools]
    kinds = np.asarray(trace.tool, dtype=np.intp)
    position = np.asarray(trace.position, dtype=np.float64)
    return Job(
        name=program.name,
        spindle_speed=trace.spindle_speed,
        feed=trace.feed,
        position=position,
        cutting=trace.cutting,
        motion=np.select(
            [trace.rapid, trace.feeding & trace.per_revolution, trace.feeding],
            [Motion.RAPID, Motion.FEED_PER_REVOLUTION, Motion.FEED],
            Motion.STANDING,
        ).astype(np.intp),
        line=trace.line,
        tool=kinds,
        tools=tools,
        engagement=engage(position, trace.cutting, kinds, tools, stock_top, coarseness),
    )


def motion_limits(machine: MachineParameters) -> MotionLimits:
    """What the planner may ask of a machine: a little less acceleration than its drives can give."""
    x, y, z = machine.axes
    spindle = machine.spindle
    top = spindle.speed_limit * RAD_PER_RPM
    slowest = 0.8 * min(spindle.torque_limit, spindle.power_limit / top) / spindle.inertia
    return MotionLimits(
        rapid=(x.feed_limit, y.feed_limit, z.feed_limit),
        acceleration=(0.85 * x.acceleration, 0.85 * y.acceleration, 0.85 * z.acceleration),
        spindle_speed=spindle.speed_limit,
        spindle_acceleration=slowest / RAD_PER_RPM,
    )


def play(
    job: Job, material: Material, time_step: float, override: float | Floats = 1.0, steps: int | None = None
) -> Playback:
    """Run a job from its start for `steps` inner steps, or for its planned time.

    After its end the machine stands at the last position.
    """
    steps = round(job.seconds / time_step) if steps is None else steps
    percent = np.broadcast_to(np.asarray(override, dtype=np.float64), job.cutting.shape)
    # Seconds on the wall at the start and the end of each sample; the override acts on cutting feeds only.
    wall = np.concatenate(([0.0], np.cumsum(1 / (RATE * np.where(job.cutting, percent, 1.0)))))
    now = (1 + np.arange(steps)) * time_step
    place = np.interp(now, wall, np.arange(len(wall))) - 1  # in samples; each holds its values at its end
    sample = np.clip(np.ceil(place - 1e-9).astype(int), 0, len(job.cutting) - 1)
    over = now > wall[-1] + 1e-9
    pace = np.where(job.cutting, percent, 1.0)[sample] * ~over
    diameters = np.array([tool.diameter for tool in job.tools])
    teeth = np.array([float(tool.teeth) for tool in job.tools])
    tool = job.tool[sample]
    inputs = DriveInputs(
        spindle_speed=job.spindle_speed[sample] * ~over,
        feed=_between(job.feed, place, first=0.0) * pace[:, None],
        depth=job.engagement.depth[sample] * ~over,
        width=job.engagement.width[sample] * ~over,
        diameter=diameters[tool],
        teeth=teeth[tool],
        specific_force=np.full(steps, material.specific_force),
        exponent=np.full(steps, material.exponent),
    )
    position = _between(job.position, place, first=0.0)
    return Playback(inputs, position, job.line[sample], tool, percent[sample].copy(), job.motion[sample])


def play_for(job: Job, material: Material, seconds: float, time_step: float, draw: np.random.Generator) -> Playback:
    """Fill `seconds` with passes of a job at overrides an operator would choose.

    The last pass ends with the program wherever an override from 30 to 120 % allows it, and is cut short otherwise.
    """
    passes = max(1, round(seconds / job.seconds))
    steps = np.diff(np.round(np.linspace(0, seconds / time_step, passes + 1)).astype(int))
    played = []
    for count in steps.tolist():
        chosen = _draw_override(job, draw)
        cutting = float((job.cutting / (RATE * chosen)).sum())
        other = float((~job.cutting).sum() / RATE)
        room = count * time_step - other
        scale = cutting / room if room > 0.5 * cutting else 1.0
        override = np.clip(np.ceil(chosen * scale * 100) / 100, 0.3, 1.2)
        played.append(play(job, material, time_step, override, count))
    return joined(played)


def _draw_override(job: Job, draw: np.random.Generator) -> Floats:
    """The feed override along a job: the operator turns the knob once or twice, mostly near 100 %."""
    count = len(job.cutting)
    override = np.full(count, 1.0)
    for place in sorted(draw.integers(0, count, int(draw.integers(0, 3))).tolist()):
        override[place:] = draw.choice((0.6, 0.75, 0.9, 1.0, 1.0, 1.1))
    return override


def joined(parts: Sequence[Playback]) -> Playback:
    """One playback after the other."""
    beside = [field.name for field in fields(Playback) if field.name != "inputs"]
    return Playback(
        inputs=DriveInputs.joined([part.inputs for part in parts]),
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in beside},
    )


@dataclass(frozen=True, slots=True)
class OverrideSchedule:
    """Factors on feeds, spindle speed and rapids, row by row; the last row holds for good."""

    feed: Floats  # (T,) 1 = 100 %; 0 is a feed hold, which stops rapids too
    spindle: Floats  # (T,) feeds per revolution follow it
    rapid: Floats  # (T,)
    period: float  # s that each row lasts

    @classmethod
    def of(
        cls, feed: ArrayLike = 1.0, spindle: ArrayLike = 1.0, rapid: ArrayLike = 1.0, period: float = 1.0
    ) -> "OverrideSchedule":
        """One factor for the whole job or one for every `period` seconds of it."""
        given = [np.atleast_1d(np.array(factor, dtype=np.float64)) for factor in (feed, spindle, rapid)]
        count = max(map(len, given))
        feeds, speeds, rapids = (np.repeat(row, count) if row.shape == (1,) else row for row in given)
        return cls(feeds, speeds, rapids, period)

    def __post_init__(self) -> None:
        for field in fields(self)[:3]:
            values = getattr(self, field.name)
            if values.ndim != 1 or not len(values) or values.shape != self.feed.shape:
                raise MachineError(
                    f"The {field.name} override has the shape {values.shape}.",
                    expected=f"one factor, or as many rows as the others ({self.feed.shape} for the feed)",
                )
            if not ((values >= 0) & (values <= _HIGHEST)).all():
                raise MachineError(
                    f"The {field.name} override goes from {values.min():g} to {values.max():g}.",
                    expected=f"factors from 0 to {_HIGHEST:g}, where 1 is 100 %",
                    remedy="Divide percentages by 100.",
                )
        if not (math.isfinite(self.period) and self.period > 0):
            raise MachineError(f"Overrides that hold for {self.period:g} s.", expected="a period above 0 s")

    def __len__(self) -> int:
        return len(self.feed)

    @property
    def paces(self) -> Floats:
        """How fast planned time goes by, (T, 4): a column for each Motion."""
        rapid = np.where(self.feed > 0, self.rapid, 0.0)
        return np.column_stack((np.ones(len(self)), rapid, self.feed, self.feed * self.spindle))


def play_under(
    job: Job, schedule: OverrideSchedule, material: Material, time_step: float, steps: int | None = None
) -> Playback:
    """Run a job from its start under a schedule of overrides, to its end or for `steps` inner steps.

    Before the first row that differs from 100 % every bit is that of `play(job, ...)`. After the end the machine
    stands at the last position.
    """
    whole = math.ceil(job.seconds / time_step - _ROUNDING) + 1  # and one step in which it stands
    return overridden(play(job, material, time_step, steps=whole), schedule, time_step, steps)


def overridden(planned: Playback, schedule: OverrideSchedule, time_step: float, steps: int | None = None) -> Playback:
    """A playback, from any moment of a job on, as it runs under a schedule: slower is longer, faster is earlier."""
    if not len(planned):
        raise MachineError("There is nothing to override: the playback has no steps.", expected="at least one step")
    held = round(schedule.period / time_step)
    if held < 1 or abs(held * time_step - schedule.period) > 1e-9:
        raise MachineError(
            f"Overrides of {schedule.period:g} s do not fit steps of {time_step:g} s.",
            expected=f"a whole multiple of {time_step:g} s",
        )
    wall, done, pace = _stretches(planned.motion, schedule.paces, held, math.inf if steps is None else steps)
    if steps is None and done[-1] < len(planned):
        raise MachineError(
            f"The job never ends: it is held at line {planned.line[int(done[-1])]} for good.",
            expected="a last row above 0 for every motion that is left",
            remedy="Let the hold end with another row, or say how many steps to run.",
        )
    now = np.arange(1.0, (math.ceil(wall[-1] - _ROUNDING) if steps is None else steps) + 1.0)
    stretch = np.searchsorted(wall, now - _ROUNDING) - 1
    done_steps = done[stretch] + (now - wall[stretch]) * pace[stretch]  # planned steps done at the end of each step
    step = np.clip(np.ceil(done_steps - _ROUNDING).astype(np.intp) - 1, 0, len(planned) - 1)
    row = np.minimum((now.astype(np.intp) - 1) // held, len(schedule) - 1)
    met = planned[step]
    begins = met.motion != planned.motion[np.maximum(step - 1, 0)]  # a rapid before it says nothing about a cut
    feed = np.where(begins[:, None], met.inputs.feed, _between(planned.inputs.feed, done_steps))
    inputs = replace(
        met.inputs,
        spindle_speed=met.inputs.spindle_speed * schedule.spindle[row],
        feed=feed * pace[stretch][:, None],
    )
    override = met.override * schedule.feed[row]
    return replace(met, inputs=inputs, position=_between(planned.position, done_steps), override=override)


def _stretches(motion: NDArray[np.intp], paces: Floats, held: int, until: float) -> tuple[Floats, Floats, Floats]:
    """Stretches of one pace: steps on the wall and planned steps done at the start of each, and planned per wall step.

    The last one stands: at the end of the plan, or where a hold lasts for good.
    """
    ends = np.append(np.flatnonzero(np.diff(motion)) + 1, len(motion)).tolist()
    wall, done, row, run = 0.0, 0.0, 0, 0
    stretches = []
    while run < len(ends) and wall < until:
        pace = float(paces[row, motion[ends[run] - 1]])
        change = (row + 1.0) * held if row + 1 < len(paces) else math.inf
        left = (ends[run] - done) / pace if pace else math.inf
        if min(wall + left, change) == math.inf:
            break
        stretches.append((wall, done, pace))
        if wall + left <= change:
            wall, done, run = wall + left, float(ends[run]), run + 1
        else:
            wall, done, row = change, done + (change - wall) * pace, row + 1
    walls, places, rates = np.array([*stretches, (wall, done, 0.0)]).T
    return walls, places, rates


def _between(values: Floats, places: Floats, first: float = 1.0) -> Floats:
    """Values (N, 3) of the places first, first + 1, ... at any places between them."""
    knots = np.arange(first, len(values) + first)
    return np.column_stack([np.interp(places, knots, column) for column in values.T])
