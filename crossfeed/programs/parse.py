"""NC text becomes a Program: every line is read once, executed in order, with jumps and loops followed."""

import re
from pathlib import Path

from crossfeed.atomic import storage_error
from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import Program, Setup
from crossfeed.programs.execute import execute
from crossfeed.programs.flow import Flow
from crossfeed.programs.gcodes import KEYWORDS
from crossfeed.programs.geometry import vector
from crossfeed.programs.state import Log, State
from crossfeed.programs.tokens import UnclearError
from crossfeed.programs.words import Line, read_line

_HEADER = re.compile(r"\s*(%|;?\$PATH|O\d+\s*(\(|$))", re.IGNORECASE)
_LOOKS_LIKE_MOTION = re.compile(r"(?<![A-Z_$])[XYZABC]\s*(=|[-+.\d]|[AI]C\s*\()", re.IGNORECASE)
_TOOL_CHANGE = re.compile(r"(?<![A-Z_$])M0*6(?!\d)", re.IGNORECASE)


def read_program(path: Path | str, setup: Setup | None = None) -> Program:
    """Read an NC file."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise storage_error("Reading", path, error) from error
    if b"\0" in content:
        raise ProgramError(
            f"{path} is a binary file: it holds zero bytes.",
            expected="NC code as plain text",
            remedy="Export the program as text (.mpf, .nc, .txt) from the controller or the CAM system.",
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return parse_program(text, path.stem, setup)


def parse_program(text: str, name: str = "program", setup: Setup | None = None) -> Program:
    """Parse NC text and run it once in the mind."""
    setup = setup or Setup()
    _refuse_binary(text, name)
    lines = [
        read_line("" if _HEADER.match(line) else line, number, KEYWORDS)
        for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1)
    ]
    while lines and not lines[-1].text.strip():
        lines.pop()
    start = vector([home - offset for home, offset in zip(setup.home, setup.work_offset)])
    state, log = State(position=start), Log(setup)
    tool_needs_code = bool(_TOOL_CHANGE.search(text))
    flow = Flow(lines, name, setup.repeated_lines_limit)
    ended = False
    while not ended and (line := flow.next_line()) is not None:
        if line.skippable and setup.block_skip:
            continue
        if line.problem:
            _unread(line, line.problem, log)
            continue
        try:
            items = flow.follow(line, state)
            ended = execute(line, items, state, log, tool_needs_code)
        except UnclearError as unclear:
            _unread(line, str(unclear), log)
    if ended:
        _report_rest(lines, flow, log)
    return Program(
        name=name,
        blocks=tuple(log.blocks),
        findings=tuple(sorted(log.findings.values(), key=lambda finding: finding.line)),
        lines=len(lines),
        motion_lines=len(log.motion),
        understood_motion_lines=len(log.motion - log.unclear_motion),
        skipped_calls=dict(sorted(log.calls.items())),
    )


def _refuse_binary(text: str, name: str) -> None:
    unprintable = sum(1 for character in text if ord(character) < 32 and character not in "\t\r\n\x1a\x0c")
    if "\0" in text or unprintable > max(8, len(text) // 50):
        raise ProgramError(
            f"{name} is a binary file: {unprintable} of its {len(text)} characters cannot be printed.",
            expected="NC code as plain text",
            remedy="Export the program as text (.mpf, .nc, .txt) from the controller or the CAM system.",
        )


def _unread(line: Line, reason: str, log: Log) -> None:
    """List a line that had no effect, and count it against the understood share if it would have moved an axis."""
    if line.number in log.motion or _LOOKS_LIKE_MOTION.search(line.text.split(";")[0]):
        log.motion.add(line.number)
        log.unclear_motion.add(line.number)
    log.find(line.number, line.text, f"{reason}; the line has no effect", "error")


def _report_rest(lines: list[Line], flow: Flow, log: Log) -> None:
    rest = [line for line in lines[flow.place :] if line.items or line.problem]
    if rest:
        reason = f"{len(rest)} lines after the end of the program were not read"
        log.find(rest[0].number, rest[0].text, reason, "note")
