"""Short ways to write NC programs in tests."""

from crossfeed.programs.blocks import Move, Program, Setup
from crossfeed.programs.parse import parse_program

# Start at the work zero, so that positions in tests are the programmed ones.
AT_ZERO = Setup(work_offset=(0.0, 0.0, 0.0), home=(0.0, 0.0, 0.0))


def parse(*lines: str, setup: Setup = AT_ZERO) -> Program:
    """Parse lines with the machine standing at the work zero."""
    return parse_program("\n".join(lines), "test", setup)


def only_move(*lines: str) -> Move:
    """The single move of a program without findings."""
    program = parse(*lines)
    assert program.findings == ()
    (move,) = program.moves
    return move


def reasons(program: Program) -> list[str]:
    """What the findings say, each with its line number."""
    return [f"{finding.line}: {finding.reason}" for finding in program.findings]
