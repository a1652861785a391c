"""What the axes can do, and how axis words become moves: targets, machine coordinates, arcs, rotary axes, feeds."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import PositiveFloat, ValidationError

from crossfeed.configuration import CheckedForm, load_yaml, problems
from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import Arc, Move, Rotary, Vector
from crossfeed.programs.expressions import UnclearError
from crossfeed.programs.flow import InterpreterState, Log
from crossfeed.programs.legs import Frame, arc_about, center_from_radius, vector
from crossfeed.programs.read_line import ProgramLine

LINEAR_AXES, ROTARY_AXES = "XYZ", "ABC"
CENTERS = "IJK"
_NOTHING = 1e-9  # mm; what rotated frames leave behind by rounding is no motion
Values = Mapping[str, tuple[float, str]]  # address -> value, coordinate mode


Three = tuple[PositiveFloat, PositiveFloat, PositiveFloat]


class MotionLimits(CheckedForm):
    """Limits of the axes, as a YAML file may give them; the defaults suit a small five-axis machining center."""

    rapid: Three = (48_000.0, 48_000.0, 48_000.0)  # X, Y, Z in mm/min
    acceleration: Three = (5_000.0, 5_000.0, 5_000.0)  # X, Y, Z in mm/s^2
    corner_tolerance: PositiveFloat = 0.02  # mm
    rotary_speed: Three = (18_000.0, 18_000.0, 24_000.0)  # A, B, C in deg/min
    rotary_acceleration: Three = (600.0, 600.0, 900.0)  # A, B, C in deg/s^2
    tool_change: PositiveFloat = 6.0  # s
    spindle_speed: PositiveFloat = 20_000.0  # rpm
    spindle_acceleration: PositiveFloat | None = 8_000.0  # rpm/s; None lets cuts begin without waiting


def read_motion_limits(path: Path | str) -> MotionLimits:
    """Read limits from a YAML file; what it leaves out keeps its default."""
    try:
        return MotionLimits.model_validate(load_yaml(path, "The limits file", ProgramError) or {})
    except ValidationError as error:
        raise ProgramError(
            f"{path} holds no valid motion limits: {problems(error, 'file')}.",
            expected=f"some of {', '.join(MotionLimits.model_fields)}, all above zero",
        ) from error


def is_motion(values: Values) -> bool:
    """Whether these words move an axis."""
    return any(axis in values for axis in LINEAR_AXES + ROTARY_AXES + CENTERS)


def move(
    line: ProgramLine, values: Values, state: InterpreterState, log: Log, machine_coordinates: bool, stop: bool
) -> None:
    """Append the move of one line; what does not fit is listed, with what was assumed instead."""
    rotary = _rotary_target(values, state)
    frame = state.axes_frame() if rotary == state.rotary else replace(state, rotary=rotary).axes_frame()
    if machine_coordinates:
        start, target, arc = state.position, _machine_target(values, state, log), None
    else:
        start, programmed = state.position, _linear_target(values, state)
        if is_motion({axis: values[axis] for axis in values if axis not in ROTARY_AXES}) or state.tool_center_control:
            target = frame.to_axes(programmed)
        else:
            target = state.position
        arc = _arc(line, values, state, log, programmed, frame)
    turned = vector([new - old for new, old in zip(rotary, state.rotary)])
    if state.tool_center_control and any(turned):
        reason = "the axes are taken to go straight between the ends of moves that turn the workpiece under TRAORI"
        log.report(line, reason, "note", once="five axes")
    length = arc.length if arc else math.dist(start, target)
    if not all(math.isfinite(value) and abs(value) < 1e7 for value in (*target, *rotary, length)):
        raise UnclearError("the target lies beyond 10 km")
    feed = None if state.motion == "rapid" else _feed(line, length, max(map(abs, turned)), state, log)
    if length < _NOTHING and any(turned):
        log.blocks.append(Rotary(line.number, state.rotary, rotary, target, feed, state.spindle, state.tool))
    elif length >= _NOTHING:
        if feed is not None and not state.spindle:
            _report_stopped_spindle(line, state, log)
        log.blocks.append(
            Move(
                line=line.number,
                start=start,
                end=target,
                arc=arc,
                length=length,
                feed=feed,
                spindle=state.spindle,
                tool=state.tool,
                per_revolution=state.feed_mode == "per revolution" and feed is not None,
                exact_stop=stop or (state.exact_stop and not state.smoothing),
                rotary=turned,
                table=rotary if state.tool_center_control else (0.0, 0.0, 0.0),
            )
        )
    state.position, state.rotary = target, rotary


def go_home(line: ProgramLine, words: Values, state: InterpreterState, log: Log) -> None:
    """G28: over the programmed point to the home position, at rapid speed, with the named axes only."""
    before, state.motion = state.motion, "rapid"
    move(line, words, state, log, machine_coordinates=False, stop=True)
    home = {
        address: (log.setup.home[axis] / state.length_unit, "")
        for axis, address in enumerate(LINEAR_AXES)
        if address in words
    }
    home |= {address: (0.0, "AC") for address in ROTARY_AXES if address in words}
    move(line, home, state, log, machine_coordinates=True, stop=True)
    state.motion = before


def _linear_target(values: Values, state: InterpreterState) -> Vector:
    programmed = list(state.axes_frame().to_programmed(state.position))
    for axis, address in enumerate(LINEAR_AXES):
        if address not in values:
            continue
        value, mode = values[address]
        incremental = mode == "IC" or (state.incremental and mode != "AC")
        programmed[axis] = value * state.length_unit + (programmed[axis] if incremental else 0.0)
    return vector(programmed)


def _machine_target(values: Values, state: InterpreterState, log: Log) -> Vector:
    target = list(state.position)
    for axis, address in enumerate(LINEAR_AXES):
        if address in values:
            target[axis] = values[address][0] * state.length_unit - log.setup.work_offset[axis]
    return vector(target)


def _rotary_target(values: Values, state: InterpreterState) -> Vector:
    target = list(state.rotary)
    for axis, address in enumerate(ROTARY_AXES):
        if address not in values:
            continue
        value, mode = values[address]
        if mode == "IC" or (state.incremental and mode == ""):
            target[axis] += value
        elif mode in ("DC", "ACP", "ACN"):
            target[axis] += _turn_towards(value - target[axis], mode)
        else:
            target[axis] = value
    return vector(target)


def _turn_towards(difference: float, mode: str) -> float:
    """The way to an angle: shortest (DC), forwards (ACP) or backwards (ACN)."""
    forwards = difference % 360.0
    if mode == "ACP" or (mode == "DC" and forwards <= 180.0):
        return forwards
    return forwards - 360.0 if forwards else 0.0


def _arc(line: ProgramLine, values: Values, state: InterpreterState, log: Log, end: Vector, frame: Frame) -> Arc | None:
    if state.motion not in ("clockwise", "counterclockwise"):
        return None
    start, clockwise = state.axes_frame().to_programmed(state.position), state.motion == "clockwise"
    try:
        if state.tool_center_control and any(axis in values for axis in ROTARY_AXES):
            raise UnclearError("an arc while the workpiece turns")
        if "CR" in values or "R" in values:
            radius = (values.get("CR") or values["R"])[0] * state.length_unit
            center = center_from_radius(start, end, radius, state.plane, clockwise)
        elif any(address in values for address in CENTERS):
            unit = state.length_unit
            center = vector([_center(values.get(word), begin, unit) for word, begin in zip(CENTERS, start)])
        else:
            raise UnclearError("an arc needs I, J, K or a radius")
        turns = values.get("TURN", (0.0, ""))[0]
        if turns < 0 or turns > 999 or turns != int(turns):
            raise UnclearError("TURN must be a whole number from 0 to 999")
        return frame.arc_to_axes(arc_about(start, end, center, state.plane, clockwise, int(turns)))
    except UnclearError as unclear:
        log.unclear_motion.add(line.number)
        log.report(line, f"{unclear}; taken as a straight line to its end", "error")
        return None


def _center(word: tuple[float, str] | None, start: float, unit: float) -> float:
    if word is None:
        return start
    return word[0] * unit + (0.0 if word[1] == "AC" else start)


def _feed(line: ProgramLine, length: float, angle: float, state: InterpreterState, log: Log) -> float:
    """The path feed in mm/min (deg/min when only rotary axes move)."""
    feed = state.feed
    if feed is not None and state.feed_mode == "per revolution":
        if not state.spindle:
            reason = f"feed per revolution with a stopped spindle; {log.setup.assumed_feed:g} mm/min assumed"
            log.report(line, reason, "error")
            return log.setup.assumed_feed
        feed *= abs(state.spindle)
    elif feed is not None and state.feed_mode == "inverse time":
        feed *= max(length, angle) if length < _NOTHING else length
    if feed is None or feed <= 0:
        missing = "no feed F before this move" if feed is None else "a feed of zero"
        log.report(line, f"{missing}; {log.setup.assumed_feed:g} mm/min assumed", "error")
        return log.setup.assumed_feed
    return feed


def _report_stopped_spindle(line: ProgramLine, state: InterpreterState, log: Log) -> None:
    """Once per stretch without spindle: the moves after the first one are the same story."""
    reason = "a feed move with the spindle stopped; planned, but not counted as cutting"
    if state.direction and not state.speed:
        reason = "the spindle was started without a speed S; planned as stopped, not counted as cutting"
    stretch = f"stopped spindle {state.tool} {state.direction} {state.speed}"
    log.report(line, reason, "warning", once=stretch)
