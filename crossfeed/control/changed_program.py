"""A copy of an NC program with the feeds of a plan: changed F words, each marked by a comment.

It is read back and every feed of it compared with what was wanted before it is kept. The original is only read.
"""

import re
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.score import Decision
from crossfeed.control.timeline import Timeline
from crossfeed.errors import ProgramError
from crossfeed.files import atomic_file
from crossfeed.programs.blocks import Move, Program
from crossfeed.programs.parse import parse_program, read_program

_F_WORD = re.compile(r"(?<![A-Z0-9_])F\s*(?:=\s*[A-Z_][A-Z0-9_]*|=?\s*(?:\d+\.?\d*|\.\d+))", re.IGNORECASE)
# Lines whose feeds are arguments or belong to cycles; those stay as they are.
_OTHER = re.compile(r"CYCLE|MCALL|POCKET|HOLES|SLOT|REPEAT|\bG0*(?:73|74|76|8[1-9])\b|\bG0*4\b", re.IGNORECASE)
_SAME = 5e-3  # a feed nearer to the old one than this share is not worth a changed word


def changed_program(original: Path, copy: Path, timeline: Timeline, decision: Decision) -> dict[str, Any]:
    """Write the copy and say how many lines were changed and which had to stay."""
    if copy.resolve() == original.resolve():
        raise ProgramError(f"The copy would replace {original.name}.", expected="another file name")
    program, text = read_program(original), original.read_text(encoding="utf-8", errors="replace")
    factor = _factors(program, timeline, decision)
    lines, changed, left = _rewritten(text.splitlines(), program, factor, original.suffix.lower())
    result = "\n".join(lines) + "\n"
    _check(parse_program(result, program.name), program, factor, set(left))
    with atomic_file(copy) as temporary:
        temporary.write_text(result, encoding="utf-8")
    return {"file": copy.name, "changed_lines": changed, "left_lines": left}


def _factors(program: Program, timeline: Timeline, decision: Decision) -> dict[int, float]:
    """The factor of every line with feed moves: that of its places, the lowest where it is passed more than once."""
    lines = [move.line for move in program.moves if move.feed is not None]
    met: dict[int, list[float]] = {}
    for line, feed in zip(timeline.line_T.tolist(), decision.feed_T.tolist()):
        met.setdefault(line, []).append(feed)
    factors, before = {}, 1.0
    for line in dict.fromkeys(lines):
        # A line too short to have a place of its own goes on as the one before it.
        before = float(np.min(met[line])) if line in met else before
        factors[line] = before
    return factors


def _rewritten(
    lines: list[str], program: Program, factor: dict[int, float], kind: str
) -> tuple[list[str], int, list[int]]:
    """The text with the feed said on every line where it is not the one in force."""
    feeds = {move.line: move for move in program.moves if move.feed is not None}
    executed = [block.line for block in program.blocks]
    loops = any(later < earlier for earlier, later in pairwise(executed))
    changed, left, in_force = 0, [], None
    out = list(lines)
    for number in sorted(factor):
        move, text = feeds[number], lines[number - 1]
        code, comment = _split(text)
        assert move.feed is not None
        if _OTHER.search(code) or move.per_revolution:
            if abs(factor[number] - 1.0) > _SAME:
                left.append(number)
            in_force = None
            continue
        wanted = move.feed * (factor[number] if abs(factor[number] - 1.0) > _SAME else 1.0)
        f_word = _F_WORD.search(code)
        if not f_word and not loops and in_force is not None and abs(wanted / in_force - 1.0) < 1e-6:
            continue
        if f_word and abs(wanted / move.feed - 1.0) < 1e-9:
            in_force = wanted
            continue
        if not f_word and in_force is None and abs(wanted / move.feed - 1.0) < 1e-9 and not changed:
            continue
        word = f"F{round(wanted, 1):g}" if wanted < 1e5 else f"F{wanted:.0f}"
        code = f"{code[: f_word.start()]}{word}{code[f_word.end() :]}" if f_word else f"{code.rstrip()} {word}"
        old = f_word[0] if f_word else f"F{move.feed:g} in force"
        note = f"crossfeed: {old} -> {word}"
        note = f"({note.replace('(', '').replace(')', '')})" if kind in (".nc", ".iso", ".ngc") else f"; {note}"
        out[number - 1] = f"{code.rstrip()} {comment + ' ' if comment else ''}{note}"
        in_force, changed = wanted, changed + 1
    return out, changed, left


def _split(text: str) -> tuple[str, str]:
    """Code and comment of a line."""
    at = text.find(";")
    bracket = re.search(r"\([^=]*\)\s*$", text)
    if (
        bracket
        and "MSG" not in text.upper()
        and (at < 0 or bracket.start() < at)
        and not re.search(r"\w\($", text[: bracket.start() + 1])
    ):
        at = bracket.start()
    return (text, "") if at < 0 else (text[:at].rstrip(), text[at:].strip())


def _check(copy: Program, program: Program, factor: dict[int, float], left: set[int]) -> None:
    """Refuse a copy that moves otherwise than the original or feeds otherwise than wanted."""
    old, new = program.moves, copy.moves
    path = attrgetter("line", "kind", "start", "end", "spindle", "tool")
    same = [path(move) for move in old] == [path(move) for move in new]
    wrong = [a.line for a, b in zip(old, new) if same and not _fed(a, b, factor, left)]
    if not same or wrong:
        where = f"line {wrong[0]} would be fed otherwise than planned" if wrong else "its path would be another one"
        raise ProgramError(
            f"{program.name} cannot be copied with changed feeds: {where}.",
            expected="a program whose F words can be replaced one by one",
            remedy="Use the schedule of overrides instead; nothing was written.",
        )


def _fed(old: Move, new: Move, factor: dict[int, float], left: set[int]) -> bool:
    if old.feed is None or new.feed is None:
        return old.feed == new.feed
    wanted = old.feed * (1.0 if old.line in left else factor[old.line])
    return abs(new.feed - wanted) <= max(0.11, 2.0 * _SAME * wanted)
