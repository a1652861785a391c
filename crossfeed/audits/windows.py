"""Windows that cross a group or that two sides share."""

from collections.abc import Iterator, Sequence

import numpy as np

from crossfeed.audits.finding import Finding
from crossfeed.audits.split import names_of, side_lists
from crossfeed.audits.subject import Case, WindowRows
from crossfeed.ingest.table import Group, Table
from crossfeed.windows.listing import list_windows, pair_up


def check_windows(case: Case) -> Iterator[Finding]:
    """Check the given list of windows; without one, the windows crossfeed makes of each table and split."""
    if case.windows is not None:
        if len(case.subjects) != 1:
            yield Finding(
                severity="note",
                subject="window list",
                measured=f"{len(case.subjects)} machines were given with one window list",
                meaning="its row numbers could mean any of them",
                cause="a list counts the rows of one table",
                remedy="Audit the list with its own table alone.",
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
        yield Finding(
            severity="violation",
            subject="window list",
            measured=f"{int(wrong.sum())} of {len(wrong)} windows leave the {rows} rows or end before they begin",
            meaning="the list was made for another table",
            cause="the table changed after the windows were listed",
            remedy="List the windows of this table anew.",
            numbers={"windows": int(wrong.sum())},
        )
    first, last, part = windows.first[~wrong], windows.last[~wrong], windows.part[~wrong]
    of_row = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    crossing = of_row[first] != of_row[last]
    if crossing.any():
        number = int(np.argmax(crossing))
        one, two = groups[of_row[first[number]]].key, groups[of_row[last[number]]].key
        yield Finding(
            severity="violation",
            subject="window list",
            measured=f"{int(crossing.sum())} of {len(crossing)} windows cross a group, such as rows {first[number]} to "
            f"{last[number]} ({one} to {two})",
            meaning="the window shows a jump between recordings as if the machine had made it",
            cause="windows were cut from the whole table instead of session by session",
            remedy="List windows inside each group of (machine, run, session).",
            numbers={"windows": int(crossing.sum())},
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
                yield Finding(
                    severity="violation",
                    subject=f"{one} and {two}",
                    measured=f"{int(shared.sum())} rows lie in windows of both, first row {int(np.argmax(shared))}",
                    meaning="the same measurements train and test",
                    cause="overlapping windows were split at random, or sides were cut inside a session",
                    remedy="Split whole sessions first and list windows afterwards.",
                    numbers={"rows": int(shared.sum())},
                )
