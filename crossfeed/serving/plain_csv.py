"""The commonest small table, read without a library: one header line, commas, a number in every cell."""

import re
from pathlib import Path

import numpy as np

_LARGEST = 1 << 20  # bytes; beyond it a library is quicker, its start included
_NAMES = re.compile(rb"[A-Za-z_][\w \[\]/%^*.-]*(,[A-Za-z_][\w \[\]/%^*.-]*)*")
_NUMBER = rb"-?\d+(\.\d+)?([eE][+-]?\d+)?"
_LINE = re.compile(_NUMBER + rb"(," + _NUMBER + rb")*")


def plain_columns(path: Path) -> dict[str, np.ndarray] | None:
    """The columns of a file of that kind; None for any other, which `machines.delimited` reads or refuses."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        header, *lines = path.read_bytes().replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n")
    except OSError:
        return None
    names = header.decode("ascii", "replace").split(",")
    if not lines or not _NAMES.fullmatch(header) or len(set(names)) < len(names) or names != [n.strip() for n in names]:
        return None
    rows = [line.split(b",") for line in lines if _LINE.fullmatch(line)]
    if len(rows) < len(lines) or any(len(row) != len(names) for row in rows):
        return None
    return dict(zip(names, np.array(rows, dtype=object).astype(np.float64).T.copy(), strict=True))
