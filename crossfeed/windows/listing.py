"""The list of windows of some groups: where each one ends, and why others are not offered.

W windows; a window that ends at row t covers rows t-K+1..t+T of one group (K context, T longest horizon).
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import cast

import numpy as np

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.table import Group, Table, row_numbers

HORIZONS = (1, 2, 4, 8, 16)
# Rows count as neighbours while their distance in time is the table's period, give or take this share of it.
CLOCK_TOLERANCE = 0.1
ROWS_AT_ONCE = 8192


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
    longest = horizons[-1]
    rows_G = np.array([len(group) for _, _, group in pairs])
    start_G = np.cumsum(rows_G) - rows_G
    ends_G = np.maximum(-(-(rows_G - longest - context + 1) // stride), 0)
    group_W = np.repeat(np.arange(len(pairs)), ends_G)
    relative_W = context - 1 + stride * (np.arange(len(group_W)) - np.repeat(np.cumsum(ends_G) - ends_G, ends_G))
    # How many rows before each one lack a command or follow a gap; the counts differ where one lies between.
    no_command_N, gap_N = (np.concatenate([[0], np.cumsum(flags)]) for flags in _flags(pairs))
    first_W = start_G[group_W] + relative_W - context + 1
    stop_W = first_W + context + longest
    lost_W = no_command_N[stop_W] > no_command_N[first_W]
    over_gap_W = ~lost_W & (gap_N[stop_W] > gap_N[first_W + 1])
    kept_W = ~lost_W & ~over_gap_W
    per_group = (np.bincount(group_W[chosen], minlength=len(pairs)).tolist() for chosen in (kept_W, lost_W, over_gap_W))
    counts = tuple(
        GroupCount(group.machine, group.session, group.run, group.program, len(group), *numbers)
        for (_, _, group), *numbers in zip(pairs, *per_group, strict=True)
    )
    return WindowList(context, horizons, stride, counts, group_W[kept_W], relative_W[kept_W])


def blocks(rows: int) -> Iterator[slice]:
    """All rows in pieces whose intermediate results stay in the cache and whose memory is used again."""
    return (slice(begin, min(begin + ROWS_AT_ONCE, rows)) for begin in range(0, rows, ROWS_AT_ONCE))


def runs_of_tables(pairs: Sequence[tuple[int, Table, Group]]) -> Iterator[tuple[Table, np.ndarray]]:
    """The tables of these pairs in their order, each with the numbers of the rows that its groups cover."""
    for _, run in groupby(pairs, key=lambda pair: pair[0]):
        several = list(run)
        yield several[0][1], row_numbers([group for _, _, group in several])


def _flags(pairs: Sequence[tuple[int, Table, Group]]) -> tuple[np.ndarray, np.ndarray]:
    """For all rows, group after group: whether a command is missing, and whether time jumps from the row before."""
    missing, jumps = [], []
    for table, rows_N in runs_of_tables(pairs):
        missing.append(~np.isfinite(table.commands[rows_N]).all(axis=1))
        with np.errstate(invalid="ignore"):  # a clock may hold what is no number
            steps = np.diff(table.time[rows_N], prepend=np.nan) - table.period
        jumps.append(np.abs(steps) > CLOCK_TOLERANCE * table.period)
    return np.concatenate(missing), np.concatenate(jumps)


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
    for table, part in zip(several, chosen, strict=True):
        members = set(table.groups)
        for group in part:
            if group not in members:
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
