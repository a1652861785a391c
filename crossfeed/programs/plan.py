"""The motion planner: blocks and limits become a trajectory in time.

Rapid and feed moves follow the path with trapezoidal speed profiles; corners are passed as fast as the axes allow
(look-ahead over the whole program); arcs are followed as arcs. Spindle set-points are steps, and the first cut after
a change waits until a spindle that speeds up at `spindle_acceleration` has got there, as controllers do.
"""

import math

import numpy as np

from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import Program, ProgramFinding
from crossfeed.programs.legs import Legs, build_legs
from crossfeed.programs.motion import MotionLimits as MotionLimits
from crossfeed.programs.trajectory import Trajectory, corner_speeds, leg_limits, look_ahead, trapezoids


def plan(
    program: Program,
    limits: MotionLimits | None = None,
    feed_override: float = 1.0,
    rapid_override: float = 1.0,
    spindle_override: float = 1.0,
) -> Trajectory:
    """Plan a program under limits and overrides, factors such as 0.8 that hold for the whole program."""
    limits = limits or MotionLimits()
    for name, factor in (("feed", feed_override), ("rapid", rapid_override), ("spindle", spindle_override)):
        if not (math.isfinite(factor) and 0.0 < factor <= 10.0):
            raise ProgramError(
                f"The {name} override is {factor:g}.", expected="a factor above 0 and up to 10, where 1 is 100 %"
            )
    if not program.blocks:
        raise ProgramError(
            f"{program.name} moves nothing: no motion, dwell or tool change was found in its {program.lines} lines.",
            expected="at least one block such as G1 X10 F500",
            remedy="Check that it is NC code in Siemens or ISO form; `crossfeed program FILE` lists its findings.",
        )
    legs = build_legs(program.blocks, limits.tool_change, limits.spindle_acceleration is not None)
    feed_factor = feed_override * np.where(legs.per_revolution, spindle_override, 1.0)
    speed, acceleration = leg_limits(legs, limits, rapid_override, feed_factor)
    corners = look_ahead(corner_speeds(legs, speed, limits), legs.length, acceleration)
    waits = np.nan_to_num(legs.seconds)
    set_point = np.clip(legs.spindle * spindle_override, -limits.spindle_speed, limits.spindle_speed)
    if limits.spindle_acceleration is not None:
        undelayed = trapezoids(legs, speed, acceleration, corners, waits)
        taken = np.bincount(undelayed.leg, weights=undelayed.seconds, minlength=len(legs))
        waits = _spindle_waits(legs.seconds, taken, set_point, limits.spindle_acceleration)
    segments = trapezoids(legs, speed, acceleration, corners, waits)
    return Trajectory(program.name, legs, segments, set_point[segments.leg], _remarks(legs, limits))


def _spindle_waits(seconds: np.ndarray, taken: np.ndarray, set_point: np.ndarray, acceleration: float) -> np.ndarray:
    """Fill the open standing times: how long the spindle still needs when the first cut would begin."""
    waits = seconds.copy()
    actual = 0.0
    for leg, target in enumerate(set_point.tolist()):
        missing = target - actual
        if np.isnan(waits[leg]):
            waits[leg] = abs(missing) / acceleration
            actual = target
        else:
            reach = taken[leg] * acceleration
            actual += max(-reach, min(reach, missing))
    return waits


def _remarks(legs: Legs, limits: MotionLimits) -> tuple[ProgramFinding, ...]:
    """Spindle speeds beyond the machine's own, once per speed."""
    beyond = np.where(np.abs(legs.spindle) > limits.spindle_speed, legs.spindle, 0.0)
    excess, first = np.unique(beyond, return_index=True)
    return tuple(
        ProgramFinding(
            int(legs.line[leg]),
            f"S{abs(speed):g}",
            f"{abs(speed):g} rpm is above the spindle's {limits.spindle_speed:g} rpm, which is used instead",
            "warning",
        )
        for speed, leg in zip(excess, first)
        if speed
    )
