"""Programs and tables that clients sent: kept in memory under names of our own; no path of a client is ever used."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.atomic import temporary_file
from crossfeed.errors import CrossfeedError, ProgramError
from crossfeed.programs.blocks import Program
from crossfeed.programs.bundled import PREFIX, bundled_programs
from crossfeed.programs.parse import parse_program
from crossfeed.serving.plan_table import columns_of_file
from crossfeed.studio.refusal import RefusalError

_LONGEST_NAME = 60


@dataclass(frozen=True)
class Upload:
    """One upload: an NC program, or the columns of a CSV with commands."""

    id: str
    name: str
    program: Program | None = None
    columns: dict[str, Any] | None = None

    def content(self) -> dict[str, Any]:
        """What the client is told."""
        if self.program is None:
            rows = len(next(iter(self.columns.values()))) if self.columns else 0
            return {"id": self.id, "name": self.name, "kind": "table", "rows": rows, "findings": []}
        findings = [
            {"line": finding.line, "severity": finding.severity, "reason": finding.reason}
            for finding in self.program.findings[:20]
        ]
        blocks = len(self.program.blocks)
        return {"id": self.id, "name": self.name, "kind": "program", "blocks": blocks, "findings": findings}


class Uploads:
    """The last uploads; the oldest makes room."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._uploads: OrderedDict[str, Upload] = OrderedDict()

    def read(self, name: str, content: bytes) -> Upload:
        """Read an upload; its name is shown and never opened."""
        shown = _shown(name)
        own = secrets.token_hex(8)
        if shown.lower().endswith((".parquet", ".pq")):
            raise RefusalError(415, f"{shown} is a Parquet file.", expected="an NC program, or a CSV with commands")
        if shown.lower().endswith(".csv"):
            return Upload(own, shown, columns=_table(content, shown))
        if b"\0" in content:
            raise ProgramError(f"{shown} is a binary file.", expected="NC code as plain text")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        program = parse_program(text, Path(shown).stem)
        if not program.blocks:
            raise ProgramError(f"{shown} moves nothing.", expected="NC code with at least one motion, or a .csv")
        return Upload(own, shown, program=program)

    def put(self, kept: Upload) -> None:
        """Keep an upload."""
        self._uploads[kept.id] = kept
        while len(self._uploads) > self.most:
            self._uploads.popitem(last=False)

    def take(self, id: str) -> Upload:
        """An upload by its id, or a program that comes with crossfeed."""
        if id.startswith(PREFIX):
            programs = bundled_programs()
            name = id.removeprefix(PREFIX)
            if name in programs:
                return Upload(id, name, program=parse_program(programs[name].read_text(encoding="utf-8"), name))
        elif id in self._uploads:
            self._uploads.move_to_end(id)
            return self._uploads[id]
        raise RefusalError(
            404,
            f"There is no program '{id}'.",
            expected="the id that an upload gave, or " + ", ".join(PREFIX + name for name in bundled_programs()),
            remedy="Upload it again: only the last uploads are kept.",
        )


def _table(content: bytes, shown: str) -> dict[str, Any]:
    """The columns of a CSV, read through a file of our own that is gone afterwards."""
    with temporary_file(content, "plan.csv") as path:
        try:
            return columns_of_file(path)
        except CrossfeedError as error:
            found = error.found.replace(str(path), shown)
            raise type(error)(found, expected=error.expected, remedy=error.remedy) from error


def _shown(name: str) -> str:
    """The last part of a client's name, in printable letters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    kept = "".join(letter for letter in last if letter.isprintable()).strip()
    return kept[-_LONGEST_NAME:] or "program"
