"""One NC line takes effect: codes change the modal state, words move the axes, calls are counted."""

from collections.abc import Iterable
from typing import NamedTuple

from crossfeed.programs import gcodes
from crossfeed.programs.blocks import Dwell, ToolChange, Vector
from crossfeed.programs.expressions import Unclear, evaluate, variable_key
from crossfeed.programs.geometry import Frame, vector
from crossfeed.programs.motion import LINEAR_AXES, ROTARY_AXES, is_motion, move
from crossfeed.programs.state import Log, State
from crossfeed.programs.words import Assignment, Call, Item, Line, Word

# Words that shape a corner or a speed in ways the planner does not follow.
_NOT_APPLIED_WORDS = {
    "RND": "corner rounding",
    "RNDM": "corner rounding",
    "CHF": "a chamfer",
    "CHR": "a chamfer",
    "FRC": "the feed of a chamfer",
    "FRCM": "the feed of a chamfer",
    "FB": "a feed for one block",
    "OVR": "a programmed override",
}
_QUIET_WORDS = frozenset(["D", "H", "O", "L", "P", "E"]) | {"ADIS", "ADISPOS", "LIMS", "SCC", "SPOS", "SPOSA", "RPL"}
_POLAR_WORDS = frozenset(("AP", "RP", "AR", "ANG"))


class Parts(NamedTuple):
    """The sorted content of a line."""

    codes: list[str]
    values: dict[str, tuple[float, str]]
    calls: list[Call]
    texts: dict[str, str]


def execute(line: Line, items: Iterable[Item], state: State, log: Log, tool_needs_code: bool) -> bool:
    """Let one line act; True when it ends the program."""
    parts = _sort(line, items, state)
    stops = _calls(line, parts, state, log)
    machine = bool(stops & gcodes.MACHINE_COORDINATES)
    frames = stops & gcodes.FRAME_KEYWORDS
    if frames:
        _change_frame(line, frames.pop(), parts, state, log)
        return False
    for code in parts.codes:
        if code[0] == "G":
            _apply_code(line, code, parts, state, log)
    machine = machine or any(code in gcodes.MACHINE_COORDINATES for code in parts.codes)
    _technology(line, parts, state, log)
    if "G4" in parts.codes:
        _dwell(line, parts, state, log)
        return False
    _tool(line, parts, state, log, tool_needs_code)
    if is_motion(parts.values):
        _motion(line, parts, state, log, machine)
    if "M5" in parts.codes or "M1=5" in parts.codes:
        state.direction = 0.0
    ends = any(code in gcodes.PROGRAM_ENDS for code in parts.codes) or "RET" in stops
    if ends:
        state.direction = 0.0
    return ends


def _sort(line: Line, items: Iterable[Item], state: State) -> Parts:
    parts = Parts([], {}, [], {})
    for item in items:
        if isinstance(item, Assignment):
            index = item.variable.index
            key = variable_key(item.variable.name, None if index is None else evaluate(index, state.variables))
            state.variables[key] = evaluate(item.value, state.variables)
        elif isinstance(item, Call):
            parts.calls.append(item)
        elif isinstance(item, Word):
            value = evaluate(item.value, state.variables)
            if isinstance(value, str):
                parts.texts[item.address] = value
            elif item.address in ("G", "M"):
                parts.codes.append(gcodes.code_name(item.address, value))
            elif item.address == "M1":
                parts.codes.append(gcodes.code_name("M", value))
            elif item.address in parts.values:
                raise Unclear(f"the address {item.address} stands twice in the line")
            else:
                parts.values["S" if item.address == "S1" else item.address] = (value, item.mode)
    return parts


def _calls(line: Line, parts: Parts, state: State, log: Log) -> set[str]:
    """Count the calls, follow the few keywords that matter, and return the names of the others."""
    keywords: set[str] = set()
    for call in parts.calls:
        name = call.name
        if name in ("TRAORI", "TRAFOOF"):
            state.tool_center_control = name == "TRAORI"
        elif name in gcodes.STRAIGHTENED:
            state.motion = name
        elif name in gcodes.QUIET_KEYWORDS or name in gcodes.KEYWORDS:
            keywords |= {name}
        elif name:
            log.calls[name] += 1
            if name == "CYCLE832":
                state.smoothing = bool(call.arguments)
    return keywords


def _apply_code(line: Line, code: str, parts: Parts, state: State, log: Log) -> None:
    if code in gcodes.MODAL:
        name, value = gcodes.MODAL[code]
        setattr(state, name, value)
    elif code in gcodes.UNITS:
        state.length_unit, feed_unit = gcodes.UNITS[code]
        state.feed_unit = state.feed_unit if feed_unit is None else feed_unit
    elif code in gcodes.WORK_OFFSETS:
        if state.work_offset_code not in ("", code):
            reason = f"{code} is taken to have the same work offset as {state.work_offset_code}"
            log.find(line.number, line.text, reason, "note", once=code)
        state.work_offset_code = state.work_offset_code or code
    elif code in gcodes.STRAIGHTENED:
        state.motion = code
    elif code in gcodes.NOT_APPLIED:
        log.find(line.number, line.text, gcodes.NOT_APPLIED[code])
    elif code not in gcodes.QUIET_CODES | gcodes.MACHINE_COORDINATES | {"G4", "G9", "G28", "G30"}:
        log.find(line.number, line.text, f"{code} is not known here and has no effect")


def _technology(line: Line, parts: Parts, state: State, log: Log) -> None:
    """Feed, spindle speed and direction."""
    if "G4" not in parts.codes:
        if "F" in parts.values:
            state.feed = parts.values["F"][0] * state.feed_unit
        if "S" in parts.values:
            state.speed = abs(parts.values["S"][0])
    for code in parts.codes:
        state.direction = gcodes.SPINDLE_CODES.get(code, state.direction)
    if "M5" in parts.codes and not is_motion(parts.values):
        state.direction = 0.0
    for address in parts.values:
        if address in _NOT_APPLIED_WORDS:
            log.find(line.number, line.text, f"{_NOT_APPLIED_WORDS[address]} ({address}) is not applied")
        elif address not in _QUIET_WORDS | _POLAR_WORDS | set("XYZABCIJKRFST") | {"CR", "TURN"}:
            log.find(line.number, line.text, f"the address {address} is not known here and has no effect")


def _dwell(line: Line, parts: Parts, state: State, log: Log) -> None:
    """G4: F seconds or S revolutions (Siemens), X or U seconds, P milliseconds when whole (ISO)."""
    values = {address: value for address, (value, _) in parts.values.items()}
    seconds = next((values[address] for address in "FXU" if address in values), None)
    if seconds is None and "S" in values:
        if not state.spindle:
            log.find(line.number, line.text, "a dwell in revolutions with the spindle stopped; left out", "error")
            return
        seconds = values["S"] / abs(state.spindle) * 60.0
    if seconds is None and "P" in values:
        written = line.text.upper().split("P", 1)[1]
        seconds = values["P"] if "." in written.split(";")[0] else values["P"] / 1000.0
        log.find(line.number, line.text, f"the dwell P is read as {seconds:g} s", "note", once="dwell P")
    if seconds is None or seconds < 0 or seconds > 86_400:
        log.find(line.number, line.text, "a dwell needs a time from 0 s to a day; left out", "error")
        return
    log.blocks.append(Dwell(line.number, seconds, state.position, state.spindle, state.tool))


def _tool(line: Line, parts: Parts, state: State, log: Log, tool_needs_code: bool) -> None:
    if "T" in parts.texts:
        state.next_tool = parts.texts["T"].strip()
    elif "T" in parts.values:
        number = parts.values["T"][0]
        state.next_tool = f"T{number:g}" if number else ""
    due = gcodes.TOOL_CHANGE in parts.codes or ("T" in {*parts.values, *parts.texts} and not tool_needs_code)
    if not due:
        return
    if state.next_tool is None:
        log.find(line.number, line.text, "a tool change without a tool T; the tool stays", "warning")
    elif state.next_tool != state.tool:
        state.tool, state.direction = state.next_tool, 0.0
        log.blocks.append(ToolChange(line.number, state.tool, state.position))


def _motion(line: Line, parts: Parts, state: State, log: Log, machine: bool) -> None:
    log.motion.add(line.number)
    values = parts.values
    if any(address in values for address in _POLAR_WORDS):
        raise Unclear("polar coordinates and contour angles are not supported; the axes stay where they are")
    if "G28" in parts.codes or "G30" in parts.codes:
        _reference(line, parts, state, log)
        return
    if not state.motion:
        state.motion = "linear"
        log.find(line.number, line.text, "axes move before any G0 to G3; taken as G1", "note")
    if state.motion in gcodes.STRAIGHTENED:
        log.unclear_motion.add(line.number)
        meaning = gcodes.STRAIGHTENED[state.motion]
        log.find(line.number, line.text, f"{state.motion} ({meaning}) is taken as a straight line to its end")
    move(line, values, state, log, machine, stop="G9" in parts.codes)


def _reference(line: Line, parts: Parts, state: State, log: Log) -> None:
    """G28: over the programmed point to the home position, at rapid speed, with the named axes only."""
    before, state.motion = state.motion, "rapid"
    move(line, parts.values, state, log, machine_coordinates=False, stop=True)
    home = {
        address: (log.setup.home[axis] / state.length_unit, "")
        for axis, address in enumerate(LINEAR_AXES)
        if address in parts.values
    }
    home |= {address: (0.0, "AC") for address in ROTARY_AXES if address in parts.values}
    move(line, home, state, log, machine_coordinates=True, stop=True)
    state.motion = before


def _change_frame(line: Line, keyword: str, parts: Parts, state: State, log: Log) -> None:
    """TRANS and ROT set the frame anew, ATRANS and AROT add to it."""
    given: Vector = vector([parts.values.get(address, (0.0, ""))[0] for address in LINEAR_AXES])
    before = state.frame if keyword.startswith("A") else Frame()
    if keyword in ("TRANS", "ATRANS"):
        state.frame = before.shifted(vector([value * state.length_unit for value in given]))
    elif keyword in ("ROT", "AROT"):
        angles = list(given)
        if "RPL" in parts.values:
            angles[int(state.plane[2])] = parts.values["RPL"][0]
        state.frame = before.rotated(vector(angles))
    elif any(address in parts.values for address in LINEAR_AXES):
        log.find(line.number, line.text, f"{keyword} is not applied; the coordinates are taken as programmed", "error")
    else:
        state.frame = before
