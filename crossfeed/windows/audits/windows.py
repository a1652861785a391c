"""Windows that cross a group or that two sides share, and normalisers that saw other rows than those that train.

Which rows fitted a normaliser is told by the hash it carries, and by its numbers when the hash is of no help.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np

from crossfeed.logs.table import Group, Table, row_numbers
from crossfeed.windows.audits.split import names_of, side_lists
from crossfeed.windows.audits.subject import Case, Finding, WindowRows, finding
from crossfeed.windows.listing import list_windows, pair_up
from crossfeed.windows.normalise import Normaliser, channel_statistics
from crossfeed.windows.split import rows_hash

# Statistics of the same rows agree far better than this; those of other rows do not.
TOLERANCE = 1e-9


def check_windows(case: Case) -> Iterator[Finding]:
    """Check the given list of windows; without one, the windows crossfeed makes of each table and split."""
    if case.windows is not None:
        if len(case.subjects) != 1:
            yield finding(
                "several machines", "window list", f"{len(case.subjects)} machines were given with one window list"
            )
            return
        yield from audit_windows(case.windows, case.subjects[0].groups)
        return
    sides = side_lists(case.split) if case.split is not None else {}
    for table in case.tables:
        units_of = {side: set(units) for side, units in sides.items()}
        chosen = {side: [g for g in table.groups if names_of(g) & units] for side, units in units_of.items()}
        parts = [(side, groups) for side, groups in chosen.items() if groups] or [("all", list(table.groups))]
        rows = [_rows_of(table, groups, side) for side, groups in parts]
        joined = [np.concatenate([getattr(part, name) for part in rows]) for name in ("first", "last", "part")]
        yield from audit_windows(WindowRows(*joined), table.groups)


def _rows_of(table: Table, groups: Sequence[Group], side: str) -> WindowRows:
    listing = list_windows(pair_up(table, groups))
    start = np.array([group.start for group in groups])[listing.group_W] + listing.relative_W
    first, last = start - listing.context + 1, start + listing.horizons[-1]
    return WindowRows(first, last, np.full(len(first), side))


def audit_windows(windows: WindowRows, groups: Sequence[Group]) -> Iterator[Finding]:
    """Findings about a list of windows over rows that lie in these groups."""
    rows = groups[-1].stop
    wrong = (windows.first < 0) | (windows.last >= rows) | (windows.last < windows.first)
    if wrong.any():
        yield finding(
            "windows outside",
            "window list",
            f"{int(wrong.sum())} of {len(wrong)} windows leave the {rows} rows or end before they begin",
            {"windows": int(wrong.sum())},
        )
    first, last, part = windows.first[~wrong], windows.last[~wrong], windows.part[~wrong]
    of_row = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    crossing = of_row[first] != of_row[last]
    if crossing.any():
        number = int(np.argmax(crossing))
        one, two = groups[of_row[first[number]]].key, groups[of_row[last[number]]].key
        yield finding(
            "windows across groups",
            "window list",
            f"{int(crossing.sum())} of {len(crossing)} windows cross a group, such as rows {first[number]} to "
            f"{last[number]} ({one} to {two})",
            {"windows": int(crossing.sum())},
        )
    yield from _shared_rows(first, last, part, rows)


def _shared_rows(first: np.ndarray, last: np.ndarray, part: np.ndarray, rows: int) -> Iterator[Finding]:
    covered = {}
    for side in dict.fromkeys(part.tolist()):
        edges = np.zeros(rows + 1)
        np.add.at(edges, first[part == side], 1)
        np.add.at(edges, last[part == side] + 1, -1)
        covered[side] = np.cumsum(edges)[:rows] > 0
    names = list(covered)
    for position, one in enumerate(names):
        for two in names[position + 1 :]:
            shared = covered[one] & covered[two]
            if shared.any():
                yield finding(
                    "rows shared",
                    f"{one} and {two}",
                    f"{int(shared.sum())} rows lie in windows of both, first row {int(np.argmax(shared))}",
                    {"rows": int(shared.sum())},
                )


def check_normaliser(case: Case) -> Iterator[Finding]:
    """Report a normaliser that saw anything but the train side."""
    if case.normaliser is None or case.split is None or not case.tables:
        return
    sides = side_lists(case.split)
    train = next((name for name in sides if name.lower().startswith("train")), next(iter(sides)))
    sets = _row_sets(case.tables, sides, train)
    by_hash = [name for name, groups in sets.items() if _hash(case.tables, groups) == case.normaliser.fitted_on]
    by_numbers = [name for name, groups in sets.items() if _agrees(case.normaliser, case.tables, groups)]
    if train in by_hash and train in by_numbers:
        return
    culprits = [name for name in (by_numbers or by_hash) if name != train]
    if culprits and train not in by_numbers:
        yield finding(
            "normaliser of another side",
            "normaliser",
            f"its statistics are those of {culprits[0]}, not of {train}",
            {"rows": culprits[0]},
        )
    elif train in by_numbers:
        yield finding(
            "normaliser unproven",
            "normaliser",
            f"its numbers are those of {train}, its hash {case.normaliser.fitted_on[:12]} is not",
        )
    else:
        yield finding(
            "normaliser unknown",
            "normaliser",
            "its statistics fit neither the train side nor any other side of these tables",
        )


def _row_sets(tables: tuple[Table, ...], sides: dict[str, list[str]], train: str) -> dict[str, list[list[Group]]]:
    """The row sets a normaliser may have seen: each side, train with each other side, and all rows."""

    def chosen(*names: str) -> list[list[Group]]:
        units = {unit for name in names for unit in sides[name]}
        return [[group for group in table.groups if names_of(group) & units] for table in tables]

    others = [name for name in sides if name != train]
    sets = {train: chosen(train)}
    sets |= {f"{train} and {other}": chosen(train, other) for other in others}
    sets |= {other: chosen(other) for other in others}
    sets["all sides"] = chosen(*sides)
    sets["all rows"] = [list(table.groups) for table in tables]
    return sets


def _hash(tables: tuple[Table, ...], groups: list[list[Group]]) -> str:
    parts = [rows_hash(table, chosen) for table, chosen in zip(tables, groups, strict=True) if chosen]
    return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()


def _agrees(normaliser: Normaliser, tables: tuple[Table, ...], groups: list[list[Group]]) -> bool:
    """Whether refitting on these rows gives the normaliser's numbers."""
    seen = [(table, row_numbers(chosen)) for table, chosen in zip(tables, groups, strict=True) if chosen]
    if not seen or seen[0][0].schema.sensor_names != normaliser.sensor_names:
        return False
    sensors = np.concatenate([table.sensors[rows] for table, rows in seen])
    commands = np.concatenate([table.commands[rows] for table, rows in seen])
    location, scale, _ = channel_statistics(sensors, normaliser.sensor_names, normaliser.method, normaliser.floor)
    command_location, command_scale, _ = channel_statistics(commands, normaliser.command_names, "zscore", 0.0)
    compared = (
        (location, normaliser.sensor_location, scale),
        (scale, normaliser.sensor_scale, scale),
        (command_location, normaliser.command_location, command_scale),
        (command_scale, normaliser.command_scale, command_scale),
    )
    return all(
        (np.abs(found - carried) <= TOLERANCE * (yardstick + np.abs(found))).all()
        for found, carried, yardstick in compared
    )
