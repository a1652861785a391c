"""A job under the override knobs: commands and engagement both follow the path, later blocks shift in time.

N planned steps, T rows of the schedule. The program runs through the same places in the same order; the knobs say how
fast. Dwells, tool changes and waits for the spindle take their planned time whatever the knobs say.
"""

import math
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfeed.errors import MachineError
from crossfeed.machines.simulated.jobs import Job, Playback, play
from crossfeed.machines.simulated.materials_and_tools import Material
from crossfeed.machines.simulated.noise import Floats

_HIGHEST = 2.0  # 200 %, the most that a control's knob offers
_ROUNDING = 1e-6  # of a step


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
    found = []
    while run < len(ends) and wall < until:
        pace = float(paces[row, motion[ends[run] - 1]])
        change = (row + 1.0) * held if row + 1 < len(paces) else math.inf
        left = (ends[run] - done) / pace if pace else math.inf
        if min(wall + left, change) == math.inf:
            break
        found.append((wall, done, pace))
        if wall + left <= change:
            wall, done, run = wall + left, float(ends[run]), run + 1
        else:
            wall, done, row = change, done + (change - wall) * pace, row + 1
    walls, places, rates = np.array([*found, (wall, done, 0.0)]).T
    return walls, places, rates


def _between(values: Floats, done_steps: Floats) -> Floats:
    """Values (N, 3) that hold at the end of each planned step, in between."""
    knots = np.arange(1.0, len(values) + 1.0)
    return np.column_stack([np.interp(done_steps, knots, column) for column in values.T])
