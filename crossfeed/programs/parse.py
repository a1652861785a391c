"""NC text becomes a Program: every line is read once, executed in order, with jumps and loops followed."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from crossfeed.errors import ProgramError
from crossfeed.files import storage_error
from crossfeed.programs.blocks import Program, Setup
from crossfeed.programs.execute import execute
from crossfeed.programs.expressions import UnclearError
from crossfeed.programs.flow import Flow, InterpreterState, Log
from crossfeed.programs.gcodes import KEYWORDS
from crossfeed.programs.legs import vector
from crossfeed.programs.read_line import ProgramLine, read_line
from crossfeed.programs.trajectory import Trajectory
from crossfeed.progress import ProgressTask, progress

PREFIX = "bundled:"  # of the programs that come with crossfeed
_HEADER = re.compile(r"\s*(%|;?\$PATH|O\d+\s*(\(|$))", re.IGNORECASE)
_LOOKS_LIKE_MOTION = re.compile(r"(?<![A-Z_$])(?:[XYZABC]|AP|RP)(?![A-Z_$])", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f]")
_LONG_PROGRAM = 20_000  # lines; shorter ones are read in less than two seconds
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
        read_line("" if _HEADER.match(line) else line, number, KEYWORDS)
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
        return execute(line, flow.follow(line, state), state, log, tool_needs_code)
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


def summarise(program: Program, trajectory: Trajectory) -> dict[str, Any]:
    """A program and its plan in numbers, for JSON: mm, s, rpm and mm/min."""
    moves = program.moves
    cutting = [move for move in moves if move.feed is not None and move.spindle]
    return {
        "name": program.name,
        "lines": program.lines,
        "blocks": len(program.blocks),
        "motion_lines": program.motion_lines,
        "understood_motion_lines": program.understood_motion_lines,
        "understood": program.understood,
        "path_length": sum(move.length for move in moves),
        "cutting_length": sum(move.length for move in cutting),
        "rapid_length": sum(move.length for move in moves if move.feed is None),
        "programmed_cutting_time": program.programmed_cutting_time,
        "cutting_time": trajectory.cutting_time,
        "rapid_time": trajectory.rapid_time,
        "total_time": trajectory.duration,
        "tools": tuple(tool for tool in trajectory.tools if tool),
        "spindle_speeds": tuple(sorted({abs(block.spindle) for block in cutting})),
        "feeds": tuple(sorted({round(move.feed, 3) for move in moves if move.feed is not None})),
        "skipped_calls": program.skipped_calls,
        "findings": tuple(sorted((*program.findings, *trajectory.remarks), key=lambda finding: finding.line)),
    }


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
