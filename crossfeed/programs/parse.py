"""NC text becomes a Program: every line is read once, executed in order, with jumps and loops followed."""

import re
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from crossfeed.errors import ProgramError
from crossfeed.files import storage_error
from crossfeed.programs import gcodes
from crossfeed.programs.blocks import Dwell, Program, Setup, ToolChange
from crossfeed.programs.expressions import UnclearError, evaluate, variable_name
from crossfeed.programs.flow import Flow, InterpreterState, Log
from crossfeed.programs.legs import Frame, vector
from crossfeed.programs.motion import LINEAR_AXES, Values, go_home, is_motion, move
from crossfeed.programs.read_line import Assignment, Call, Item, ProgramLine, Word, read_line
from crossfeed.progress import ProgressTask, progress

PREFIX = "bundled:"  # of the programs that come with crossfeed
_HEADER = re.compile(r"\s*(%|;?\$PATH|O\d+\s*(\(|$))", re.IGNORECASE)
_LOOKS_LIKE_MOTION = re.compile(r"(?<![A-Z_$])(?:[XYZABC]|AP|RP)(?![A-Z_$])", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f]")
_LONG_PROGRAM = 20_000  # lines; shorter ones are read in less than two seconds
_ANGLES = frozenset(("AR", "AP", "RP", "ANG"))
_KNOWN_WORDS = frozenset("XYZABCIJKRFSTDHOLPQ") | {"CR", "TURN", "SPOS", "SPOSA", "ADIS", "ADISPOS", "LIMS", "SCC"}
_LONGEST_DWELL = 86_400.0
_TOOL_CHANGE = re.compile(r"(?<![A-Z_$])M0*6(?!\d)", re.IGNORECASE)


def read_program(path: Path | str, setup: Setup | None = None) -> Program:
    """Read an NC file."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise storage_error("Reading", path, error) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return parse_program(text, path.stem, setup)


def parse_program(text: str, name: str = "program", setup: Setup | None = None) -> Program:
    """Parse NC text and run it once in the mind."""
    setup = setup or Setup()
    unprintable = len(_UNPRINTABLE.findall(text))
    if "\0" in text or unprintable > max(8, len(text) // 50):
        raise ProgramError(
            f"{name} is a binary file: {unprintable} of its {len(text)} characters cannot be printed.",
            expected="NC code as plain text",
            remedy="Export the program as text (.mpf, .nc, .txt) from the controller or the CAM system.",
        )
    lines = [
        read_line("" if _HEADER.match(line) else line, number, gcodes.KEYWORDS)
        for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1)
    ]
    while lines and not lines[-1].text.strip():
        lines.pop()
    start = vector([home - offset for home, offset in zip(setup.home, setup.work_offset)])
    state, log = InterpreterState(position=start), Log(setup)
    tool_needs_code = bool(_TOOL_CHANGE.search(text))
    flow = Flow(lines, name, setup.repeated_lines_limit)
    long = len(lines) > _LONG_PROGRAM
    with progress(f"Following {name}", total=len(lines)) if long else nullcontext(ProgressTask()) as task:
        while (line := flow.next_line()) is not None:
            if _follow(line, flow, state, log, tool_needs_code):
                _report_rest(lines, flow, log)
                break
            task.advance()
    return Program(
        name=name,
        blocks=tuple(log.blocks),
        findings=tuple(sorted(log.findings.values(), key=lambda finding: finding.line)),
        lines=len(lines),
        motion_lines=len(log.motion),
        understood_motion_lines=len(log.motion - log.unclear_motion),
        skipped_calls=dict(sorted(log.calls.items())),
    )


def _follow(line: ProgramLine, flow: Flow, state: InterpreterState, log: Log, tool_needs_code: bool) -> bool:
    """Let one line act, or list why it cannot; True at the end of the program."""
    if line.skippable and log.setup.block_skip:
        return False
    if line.problem:
        _unread(line, line.problem, log)
        return False
    try:
        return _execute(line, flow.follow(line, state), state, log, tool_needs_code)
    except UnclearError as unclear:
        _unread(line, str(unclear), log)
        return False


def _unread(line: ProgramLine, reason: str, log: Log) -> None:
    """List a line that is not understood, and count it against the understood share if it would have moved an axis."""
    if line.number in log.motion or _LOOKS_LIKE_MOTION.search(line.text.split(";")[0]):
        log.motion.add(line.number)
        log.unclear_motion.add(line.number)
    log.report(line, f"{reason}; nothing moves in this line", "error")


def _report_rest(lines: list[ProgramLine], flow: Flow, log: Log) -> None:
    rest = [line for line in lines[flow.line_index :] if line.items or line.problem]
    if rest:
        reason = f"what follows the end of the program was not read (lines with code: {len(rest)})"
        log.report(rest[0], reason, "note")


@dataclass
class _Parts:
    """The sorted content of a line."""

    codes: list[str] = field(default_factory=list)
    values: dict[str, tuple[float, str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    keywords: set[str] = field(default_factory=set)


def _execute(
    line: ProgramLine, items: Iterable[Item], state: InterpreterState, log: Log, tool_needs_code: bool
) -> bool:
    """Let one line act; True when it ends the program."""
    parts = _sort(items, state)
    _follow_calls(line, parts, state, log)
    if frames := parts.keywords & gcodes.FRAME_KEYWORDS:
        _change_frame(line, min(frames), parts.values, state, log)
        return False
    for code in parts.codes:
        if code[0] == "G":
            _apply_code(line, code, state, log)
    if "G4" in parts.codes:
        _dwell(line, parts.values, state, log)
        return False
    _technology(line, parts, state, log)
    _tool(line, parts, state, log, tool_needs_code)
    other = [code for code in parts.codes if code in gcodes.OTHER_MEANING]
    if is_motion(parts.values) and other:
        log.report(line, f"{other[0]} ({gcodes.OTHER_MEANING[other[0]]}) is not applied; nothing moves", "error")
    elif (is_motion(parts.values) or parts.values.keys() & _ANGLES) and "G65" not in parts.codes:
        _motion(line, parts, state, log)
    ends = "RET" in parts.keywords or any(code in gcodes.PROGRAM_ENDS for code in parts.codes)
    if ends or "M5" in parts.codes:
        state.direction = 0.0
    return ends


def _sort(items: Iterable[Item], state: InterpreterState) -> _Parts:
    parts = _Parts()
    for item in items:
        if isinstance(item, Assignment):
            state.variables[variable_name(item.variable, state.variables)] = evaluate(item.value, state.variables)
        elif isinstance(item, Call):
            if item.name in gcodes.KEYWORDS:
                parts.keywords.add(item.name)
            else:
                parts.calls.append(item)
        elif isinstance(item, Word):
            value = evaluate(item.value, state.variables)
            address = {"S1": "S", "M1": "M"}.get(item.address, item.address)
            if address in ("G", "M") and isinstance(value, float):
                parts.codes.append(f"{address}{value:g}")  # G01 is G1, G54.10 is G54.1
            elif address in parts.values or address in parts.texts:
                raise UnclearError(f"the address {address} stands twice in the line")
            elif isinstance(value, str):
                if address != "T":
                    raise UnclearError(f"the address {address} needs a number, found the text '{value}'")
                parts.texts[address] = value
            else:
                parts.values[address] = (value, item.mode)
    return parts


def _follow_calls(line: ProgramLine, parts: _Parts, state: InterpreterState, log: Log) -> None:
    """Count the calls, and follow the few keywords that change path or time."""
    for call in parts.calls:
        if call.name and call.arguments is None and not call.modal and (parts.codes or parts.values):
            log.report(line, f"the word {call.name} is not known here and has no effect")
            continue
        if call.name:
            log.calls[call.name] += 1
        if call.modal and call.name:
            log.report(
                line, f"{call.name} is skipped: what it would do at the positions that follow is not in the path"
            )
        if call.name == "CYCLE832":
            state.smoothing = bool(call.arguments)
    if "M98" in parts.codes or "G65" in parts.codes:
        log.calls[f"O{parts.values.get('P', (0.0, ''))[0]:g}"] += 1
    if "L" in parts.values and state.cycle is None:
        log.calls[f"L{parts.values['L'][0]:g}"] += 1
    if parts.keywords & {"TRAORI", "TRAFOOF"}:
        state.tool_center_control = "TRAORI" in parts.keywords
    for name in parts.keywords & gcodes.STRAIGHTENED.keys():
        state.motion = name


def _apply_code(line: ProgramLine, code: str, state: InterpreterState, log: Log) -> None:
    if code in gcodes.MODAL:
        name, value = gcodes.MODAL[code]
        setattr(state, name, value)
    elif code in gcodes.UNITS:
        state.length_unit, feed_unit = gcodes.UNITS[code]
        state.feed_unit = state.feed_unit if feed_unit is None else feed_unit
    elif code in gcodes.WORK_OFFSETS:
        if state.work_offset_code not in ("", code):
            reason = f"{code} is taken to have the same work offset as {state.work_offset_code}"
            log.report(line, reason, "note", once=code)
        state.work_offset_code = state.work_offset_code or code
    elif code in gcodes.STRAIGHTENED:
        state.motion = code
    elif code in gcodes.NOT_APPLIED:
        log.report(line, gcodes.NOT_APPLIED[code])
    elif code in gcodes.DRILLING_CYCLES | {"G80", "G98", "G99"}:
        gcodes.select_cycle(code, state)
    elif code not in gcodes.KNOWN:
        log.report(line, f"{code} is not known here and has no effect")
    if code in ("G0", "G1", "G2", "G3"):
        state.cycle = None


def _technology(line: ProgramLine, parts: _Parts, state: InterpreterState, log: Log) -> None:
    """Feed, spindle speed and direction, and words without a meaning here."""
    if "F" in parts.values:
        state.feed = parts.values["F"][0] * state.feed_unit
    if "S" in parts.values:
        if parts.values["S"][0] < 0:
            raise UnclearError("a spindle speed below zero")
        state.speed = parts.values["S"][0]
    for code in parts.codes:
        state.direction = gcodes.SPINDLE_CODES.get(code, state.direction)
    if parts.values.keys() & {"SPOS", "SPOSA"} or ("M5" in parts.codes and not is_motion(parts.values)):
        state.direction = 0.0
    if "M0" in parts.codes:
        log.report(line, "M0 waits for the operator; no time is planned for it", "note", once="M0")
    for address in parts.values:
        if address in gcodes.WORDS_NOT_APPLIED:
            log.report(line, f"{gcodes.WORDS_NOT_APPLIED[address]} ({address}) is not applied")
            if is_motion(parts.values):
                log.unclear_motion.add(line.number)
        elif address not in _KNOWN_WORDS | _ANGLES:
            log.report(line, f"the address {address} is not known here and has no effect")


def _dwell(line: ProgramLine, words: Values, state: InterpreterState, log: Log) -> None:
    """G4: F seconds or S revolutions (Siemens), X or U seconds, P milliseconds when whole (ISO)."""
    seconds = next((words[address][0] for address in "FXU" if address in words), -1.0)
    if "S" in words:
        if not state.spindle:
            log.report(line, "a dwell in revolutions with the spindle stopped; left out", "error")
            return
        seconds = words["S"][0] / abs(state.spindle) * 60.0
    elif "P" in words:
        whole = "." not in line.text.upper().partition("P")[2].partition(";")[0].partition("(")[0]
        seconds = words["P"][0] / (1000.0 if whole else 1.0)
        log.report(line, f"the dwell P is read as {seconds:g} s", "note", once="dwell P")
    if not 0.0 <= seconds <= _LONGEST_DWELL:
        log.report(line, "a dwell needs a time from 0 s to a day; left out", "error")
    elif seconds:
        log.blocks.append(Dwell(line.number, seconds, state.position, state.spindle, state.tool))


def _tool(line: ProgramLine, parts: _Parts, state: InterpreterState, log: Log, tool_needs_code: bool) -> None:
    if "T" in parts.texts:
        state.next_tool = parts.texts["T"].strip()
    elif "T" in parts.values:
        number = parts.values["T"][0]
        state.next_tool = f"T{number:g}" if number else ""
    named = "T" in parts.texts or "T" in parts.values
    if "M6" not in parts.codes and (tool_needs_code or not named):
        return
    if state.next_tool is None:
        log.report(line, "a tool change without a tool T; the tool stays")
    elif state.next_tool != state.tool:
        state.tool, state.direction = state.next_tool, 0.0
        log.blocks.append(ToolChange(line.number, state.tool, state.position))


def _motion(line: ProgramLine, parts: _Parts, state: InterpreterState, log: Log) -> None:
    log.motion.add(line.number)
    if parts.values.keys() & _ANGLES:
        raise UnclearError("an end point given by angles or polar coordinates is not supported")
    if "G28" in parts.codes or "G30" in parts.codes:
        go_home(line, parts.values, state, log)
        return
    if state.cycle is not None:
        gcodes.drill(line, parts.values, state, log)
        return
    if not state.motion:
        state.motion = "linear"
        log.report(line, "axes move before any G0 to G3; taken as G1", "note")
    if state.motion in gcodes.STRAIGHTENED:
        log.unclear_motion.add(line.number)
        named = f"{state.motion} ({gcodes.STRAIGHTENED[state.motion]})"
        log.report(line, f"{named} is taken as a straight line to its end")
    machine = not gcodes.MACHINE_COORDINATES.isdisjoint((*parts.codes, *parts.keywords))
    move(line, parts.values, state, log, machine, stop="G9" in parts.codes)


def _change_frame(line: ProgramLine, keyword: str, words: Values, state: InterpreterState, log: Log) -> None:
    """TRANS and ROT set the frame anew, ATRANS and AROT add to it."""
    given = vector([words.get(address, (0.0, ""))[0] for address in LINEAR_AXES])
    before = state.frame if keyword.startswith("A") else Frame()
    if keyword in ("TRANS", "ATRANS"):
        state.frame = before.shifted(vector([value * state.length_unit for value in given]))
    elif keyword in ("ROT", "AROT"):
        angles = list(given)
        if "RPL" in words:
            angles[state.plane[2]] = words["RPL"][0]
        state.frame = before.rotated(vector(angles))
    elif any(given):
        log.report(line, f"{keyword} is not applied; the coordinates are taken as programmed", "error")
    else:
        state.frame = before


def bundled_programs() -> dict[str, Path]:
    """Name and file of each bundled program, in alphabetical order."""
    folder = Path(__file__).parent / "bundled"
    return {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in (".mpf", ".nc")}


def program_path(name: str) -> Path:
    """The file behind a path or a name such as `bundled:bracket`."""
    if not name.startswith(PREFIX):
        return Path(name)
    programs, wanted = bundled_programs(), name.removeprefix(PREFIX)
    if wanted not in programs:
        raise ProgramError(
            f"There is no bundled program '{wanted}'.",
            expected=f"one of {', '.join(PREFIX + known for known in programs)}",
        )
    return programs[wanted]
