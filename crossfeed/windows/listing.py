"""The list of windows of some groups: where each one ends, and why others are not offered.

W windows; a window that ends at row t covers rows t-K+1..t+T of one group (K context, T longest horizon).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np

from crossfeed.errors import ConfigError, TableError
from crossfeed.ingest.table import Group, Table

HORIZONS = (1, 2, 4, 8, 16)
# Rows count as neighbours while their distance in time is the table's period, give or take this share of it.
CLOCK_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many windows one group gave, and why others were not offered."""

    machine: str
    session: str
    run: str
    program: str
    rows: int
    windows: int
    lost_to_commands: int
    lost_to_gaps: int

    @property
    def too_short(self) -> bool:
        """Whether the group has fewer rows than one window needs."""
        return self.windows + self.lost_to_commands + self.lost_to_gaps == 0


@dataclass(frozen=True, slots=True, eq=False)
class WindowList:
    """Every window of a sequence of groups; `relative_W` counts rows from the start of the window's group."""

    context: int
    horizons: tuple[int, ...]
    stride: int
    counts: tuple[GroupCount, ...]
    group_W: np.ndarray
    relative_W: np.ndarray

    def __len__(self) -> int:
        return len(self.group_W)

    def hash(self) -> str:
        """SHA-256 over context, horizons, stride, and the rows of each group at which windows end."""
        keys = [[count.machine, count.session, count.run] for count in self.counts]
        digest = hashlib.sha256(json.dumps([self.context, self.horizons, self.stride, keys]).encode())
        digest.update(self.group_W.astype("<i8").tobytes())
        digest.update(self.relative_W.astype("<i8").tobytes())
        return digest.hexdigest()

    def summary(self) -> dict[str, int]:
        """Totals over the groups: rows, windows, and what was not offered."""
        totals = {"groups": len(self.counts), "groups_too_short": sum(count.too_short for count in self.counts)}
        for name in ("rows", "windows", "lost_to_commands", "lost_to_gaps"):
            totals[name] = sum(asdict(count)[name] for count in self.counts)
        return totals

    def only(self, index_W: np.ndarray) -> "WindowList":
        """The list of these windows alone; every group stays, with as many windows as it still has."""
        group_W, relative_W = self.group_W[index_W], self.relative_W[index_W]
        left = np.bincount(group_W, minlength=len(self.counts))
        counts = tuple(replace(count, windows=int(windows)) for count, windows in zip(self.counts, left, strict=True))
        return replace(self, counts=counts, group_W=group_W, relative_W=relative_W)

    def require_any(self) -> None:
        """Refuse a list without a single window."""
        if len(self):
            return
        longest, totals = max(self.counts, key=lambda count: count.rows), self.summary()
        raise TableError(
            f"No window fits: the longest of {len(self.counts)} groups ({longest.machine}/{longest.session}) has "
            f"{longest.rows} rows; {totals['lost_to_commands']} windows touch a missing command and "
            f"{totals['lost_to_gaps']} a gap in the clock.",
            expected=f"a group of at least {self.context + self.horizons[-1]} gapless rows (context + longest horizon) "
            "with all commands",
            remedy="Use a shorter context or shorter horizons, or ingest longer sessions.",
        )


def list_windows(
    pairs: Sequence[tuple[int, Table, Group]], context: int = 32, horizons: Sequence[int] = HORIZONS, stride: int = 1
) -> WindowList:
    """Find the windows of these groups; one that touches a NaN command or a gap in the clock is counted, not listed."""
    horizons = _checked(context, horizons, stride)
    counts, group_W, relative_W = [], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, (_, table, group) in enumerate(pairs):
        last, lost_to_commands, lost_to_gaps = _usable(table, group, context, horizons[-1], stride)
        names = (group.machine, group.session, group.run, group.program)
        counts.append(GroupCount(*names, len(group), len(last), lost_to_commands, lost_to_gaps))
        group_W.append(np.full(len(last), number))
        relative_W.append(last)
    return WindowList(context, horizons, stride, tuple(counts), np.concatenate(group_W), np.concatenate(relative_W))


def _usable(table: Table, group: Group, context: int, longest: int, stride: int) -> tuple[np.ndarray, int, int]:
    """Rows of the group (from 0) at which a window may end, and how many others a NaN command or a gap took away."""
    last = np.arange(context - 1, len(group) - longest, stride)
    commands, time = table.commands[group.start : group.stop], table.time[group.start : group.stop]
    bad = np.concatenate([[0], np.cumsum(~np.isfinite(commands).all(axis=1))])
    broken = np.abs(np.diff(time) - table.period) > CLOCK_TOLERANCE * table.period
    gaps = np.concatenate([[0], np.cumsum(broken)])
    first, stop = last - context + 1, last + longest + 1
    no_command = bad[stop] > bad[first]
    over_gap = (gaps[stop - 1] > gaps[first]) & ~no_command
    return last[~no_command & ~over_gap], int(no_command.sum()), int(over_gap.sum())


def pair_up(
    tables: Table | Sequence[Table], groups: Sequence[Group] | Sequence[Sequence[Group]] | None
) -> list[tuple[int, Table, Group]]:
    """Each group with its table and the table's number."""
    several = [tables] if isinstance(tables, Table) else list(tables)
    if groups is None:
        chosen = [table.groups for table in several]
    elif isinstance(tables, Table):
        chosen = [tuple(cast(Sequence[Group], groups))]
    else:
        chosen = [tuple(part) for part in cast(Sequence[Sequence[Group]], groups)]
    pairs = [
        (number, table, group)
        for number, (table, part) in enumerate(zip(several, chosen, strict=True))
        for group in part
    ]
    if not pairs:
        raise TableError("No group was given to make windows from.", expected="at least one group")
    for _, table, group in pairs:
        if group not in table.groups:
            raise TableError(f"The table has no group '{group.key}'.", expected="groups of the table itself")
    return pairs


def _checked(context: int, horizons: Sequence[int], stride: int) -> tuple[int, ...]:
    horizons = tuple(int(horizon) for horizon in horizons)
    if context < 1 or stride < 1 or not horizons or horizons[0] < 1 or list(horizons) != sorted(set(horizons)):
        raise ConfigError(
            f"Windows with context {context}, horizons {horizons} and stride {stride} cannot be made.",
            expected="a context and a stride of at least 1, and horizons of at least 1 in rising order, each once",
        )
    return horizons
