"""Laying out rows: which groups, which windows fit in them, and the arrays a window set puts on its device.

Shapes: N rows, W windows, C sensors, A commands, H horizons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from crossfeed.errors import ConfigError, TableError
from crossfeed.ingest.table import Group, Table
from crossfeed.windows.normalise import Normaliser

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


@dataclass(frozen=True, slots=True)
class Layout:
    """The arrays of a window set before they go to the device."""

    x_NC: np.ndarray
    m_NC: np.ndarray
    a_NA: np.ndarray
    origin_N2: np.ndarray
    mean_a_WHA: np.ndarray
    last_W: np.ndarray
    group_W: np.ndarray
    relative_W: np.ndarray


def lay_out(
    pairs: Sequence[tuple[int, Table, Group]], normaliser: Normaliser, shown_C: np.ndarray, context: int,
    horizons: tuple[int, ...], stride: int,
) -> tuple[Layout, list[GroupCount]]:  # fmt: skip
    parts: dict[str, list[np.ndarray]] = {name: [] for name in Layout.__dataclass_fields__}
    counts: list[GroupCount] = []
    position = 0
    for number, table, group in pairs:
        rows = slice(group.start, group.stop)
        last, lost_to_commands, lost_to_gaps = _usable(table, group, context, horizons[-1], stride)
        x = normaliser.transform_sensors(table.sensors[rows])
        a = np.nan_to_num(normaliser.transform_commands(table.commands[rows]))
        present = np.isfinite(x) & shown_C
        # Differences of one group's running sum: exact means, and no other group can reach them.
        running = np.concatenate([np.zeros((1, a.shape[1])), np.cumsum(a, axis=0)])
        means = [(running[last + 1 + horizon] - running[last + 1]) / horizon for horizon in horizons]
        arrays = {
            "x_NC": np.where(present, x, 0.0).astype(np.float32),
            "m_NC": present,
            "a_NA": a.astype(np.float32),
            "origin_N2": np.stack([np.full(len(group), number), np.arange(group.start, group.stop)], axis=1),
            "mean_a_WHA": np.stack(means, axis=1).astype(np.float32),
            "last_W": position + last,
            "group_W": np.full(len(last), len(counts)),
            "relative_W": last,
        }
        for name, array in arrays.items():
            parts[name].append(array)
        names = (group.machine, group.session, group.run, group.program)
        counts.append(GroupCount(*names, len(group), len(last), lost_to_commands, lost_to_gaps))
        position += len(group)
    _check_any(counts, context + horizons[-1])
    return Layout(**{name: np.concatenate(arrays) for name, arrays in parts.items()}), counts


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


def check_numbers(context: int, horizons: Sequence[int], stride: int) -> tuple[int, ...]:
    horizons = tuple(int(horizon) for horizon in horizons)
    if context < 1 or stride < 1 or not horizons or horizons[0] < 1 or list(horizons) != sorted(set(horizons)):
        raise ConfigError(
            f"Windows with context {context}, horizons {horizons} and stride {stride} cannot be made.",
            expected="a context and a stride of at least 1, and horizons of at least 1 in rising order, each once",
        )
    return horizons


def _check_any(counts: Sequence[GroupCount], needed: int) -> None:
    if any(count.windows for count in counts):
        return
    longest = max(counts, key=lambda count: count.rows)
    lost = sum(count.lost_to_commands for count in counts), sum(count.lost_to_gaps for count in counts)
    raise TableError(
        f"No window fits: the longest of {len(counts)} groups ({longest.machine}/{longest.session}) has {longest.rows} "
        f"rows; {lost[0]} windows touch a missing command and {lost[1]} a gap in the clock.",
        expected=f"a group of at least {needed} gapless rows (context + longest horizon) with all commands",
        remedy="Use a shorter context or shorter horizons, or ingest longer sessions.",
    )
