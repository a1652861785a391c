"""The same recording under two names: between machines it fakes transfer, between sessions it fakes validation."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from crossfeed.audits.finding import Finding
from crossfeed.audits.subject import Case, Subject
from crossfeed.ingest.table import Group, hashed_bytes

# Shorter sessions can agree by chance on a machine at rest.
SHORTEST = 16

Place = tuple[Subject, Group]


def twin_groups(subjects: tuple[Subject, ...]) -> dict[tuple[Place, Place], int]:
    """Pairs of groups that share sensor columns value for value, with the number of such columns.

    Commands may well be equal, when both ran the same NC program; measured values never are.
    """
    places: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for subject in subjects:
        for signal in subject.measured:
            for group in subject.groups if signal.role == "sensor" else ():
                values = signal.values[group.start : group.stop]
                if len(values) >= SHORTEST and len(np.unique(values[np.isfinite(values)])) > 4:
                    digest = hashlib.sha256(hashed_bytes(values)).hexdigest()
                    places[signal.name, digest].append((subject, group))
    pairs: Counter[tuple[Place, Place]] = Counter()
    for found in places.values():
        pairs.update(combinations(found, 2))
    return dict(pairs)


def check_twins(case: Case) -> Iterator[Finding]:
    """Report recordings that occur twice."""
    between: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for (one, two), _ in twin_groups(case.subjects).items():
        between[one[0].label, two[0].label].append((one[1].key, two[1].key))
    for (one_label, two_label), pairs in between.items():
        same = one_label == two_label
        example = f"{pairs[0][0]} and {pairs[0][1]}"
        yield Finding(
            severity="violation",
            subject=one_label if same else f"{one_label} and {two_label}",
            measured=f"identical measurements in {len(pairs)} pairs of sessions, such as {example}",
            meaning="a model is tested on rows it was trained on"
            if same
            else "the two machines are one: transfer is faked",
            cause="the file was read twice, or exports overlap"
            if same
            else "the same logs were ingested under two names",
            remedy="Remove the copies before splitting." if same else "Ingest the logs of the other machine.",
            numbers={"pairs": len(pairs)},
        )
