"""Is a split a split: no session, and if promised no program, on two sides, and no recording under two names?"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.logs.table import Group, hashed_bytes
from crossfeed.windows.audits.subject import Case, Finding, Subject, finding

# Shorter sessions can agree by chance on a machine at rest.
SHORTEST = 16

Recording = tuple[Subject, Group]


def side_lists(split: dict[str, Any]) -> dict[str, list[str]]:
    """The named sides of a split in JSON, whoever wrote it."""
    sides = {
        name: [str(unit) for unit in units]
        for name, units in split.items()
        if isinstance(units, list) and all(isinstance(unit, (str, int)) for unit in units)
    }
    if len(sides) < 2:
        raise TableError(
            f"The split names {len(sides)} side{'s' if len(sides) != 1 else ''}.",
            expected="JSON with lists of sessions such as 'train', 'validation' and 'test'",
        )
    return sides


def names_of(group: Group) -> set[str]:
    """Every name under which a split may mean this group."""
    return {f"{group.machine}/{group.session}", group.session, group.key, group.program} - {""}


def check_split(case: Case) -> Iterator[Finding]:
    """Report sessions, programs and identical recordings that sit on more than one side."""
    if case.split is None:
        return
    sides = side_lists(case.split)
    for side, units in sides.items():
        if not units:
            yield finding("empty side", side, "the side is empty")
    groups = [group for subject in case.subjects for group in subject.groups]
    units_of = {side: set(units) for side, units in sides.items()}
    home = {group.key: {side for side, units in units_of.items() if names_of(group) & units} for group in groups}
    yield from _both_sides(sides, home)
    yield from _programs(groups, home, str(case.split.get("by", "session")))
    yield from _missing(case, sides, home)
    for one, two in twin_groups(case.subjects):
        apart = home[one[1].key] | home[two[1].key]
        if one[1].key != two[1].key and len(apart) > 1:
            yield finding(
                "twin on two sides",
                f"{one[1].key} and {two[1].key}",
                f"identical measurements on {' and '.join(sorted(apart))}",
            )


def _both_sides(sides: dict[str, list[str]], home: dict[str, set[str]]) -> Iterator[Finding]:
    # The same session may be listed under its short and its long name.
    where: dict[str, set[str]] = defaultdict(set, {key: set(found) for key, found in home.items()})
    for side, units in sides.items():
        for unit in units:
            where[unit].add(side)
    for unit, found in sorted(where.items()):
        if len(found) > 1:
            yield finding("on two sides", unit, f"listed under {' and '.join(sorted(found))}")


def _programs(groups: list[Group], home: dict[str, set[str]], by: str) -> Iterator[Finding]:
    spread: dict[str, set[str]] = defaultdict(set)
    for group in groups:
        if group.program and home[group.key]:
            spread[group.program] |= home[group.key]
    shared = sorted(program for program, sides in spread.items() if len(sides) > 1)
    if shared:
        example = f"{shared[0]} on {' and '.join(sorted(spread[shared[0]]))}"
        yield finding(
            "shared programs" if by != "program" else "shared programs of a split by program",
            "NC programs",
            f"{len(shared)} of {len(spread)} programs have sessions on several sides, such as {example}",
            {"programs": len(shared)},
        )


def _missing(case: Case, sides: dict[str, list[str]], home: dict[str, set[str]]) -> Iterator[Finding]:
    for subject in case.subjects:
        outside = [group.key for group in subject.groups if not home[group.key]]
        if len(outside) == len(subject.groups):
            yield finding("machine outside", subject.label, "no session of this machine is in the split")
        elif outside:
            yield finding(
                "sessions outside",
                subject.label,
                f"{len(outside)} sessions are on no side, such as {outside[0]}",
                {"sessions": len(outside)},
            )
    names = {name for subject in case.subjects for group in subject.groups for name in names_of(group)}
    strangers = sorted({unit for units in sides.values() for unit in units} - names)
    if strangers:
        yield finding(
            "strangers",
            "split",
            f"{len(strangers)} entries name no session of these tables, such as {strangers[0]}",
            {"entries": len(strangers)},
        )


def twin_groups(subjects: tuple[Subject, ...]) -> list[tuple[Recording, Recording]]:
    """Pairs of groups that share a sensor column value for value.

    Commands may well be equal, when both ran the same NC program; measured values never are.
    """
    alike: dict[tuple[str, str], list[Recording]] = defaultdict(list)
    for subject in subjects:
        for signal in subject.measured:
            for group in subject.groups if signal.role == "sensor" else ():
                values = signal.values[group.start : group.stop]
                if len(values) >= SHORTEST and len(np.unique(values[np.isfinite(values)])) > 4:
                    digest = hashlib.sha256(hashed_bytes(values)).hexdigest()
                    alike[signal.name, digest].append((subject, group))
    return list(dict.fromkeys(pair for recordings in alike.values() for pair in combinations(recordings, 2)))


def check_twins(case: Case) -> Iterator[Finding]:
    """Report recordings that occur twice."""
    between: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for one, two in twin_groups(case.subjects):
        between[one[0].label, two[0].label].append((one[1].key, two[1].key))
    for (one_label, two_label), pairs in between.items():
        same = one_label == two_label
        yield finding(
            "twins in one machine" if same else "twins between machines",
            one_label if same else f"{one_label} and {two_label}",
            f"identical measurements in {len(pairs)} pairs of sessions, such as {' and '.join(pairs[0])}",
            {"pairs": len(pairs)},
        )
