"""The same recording under two names: between machines it fakes transfer, between sessions it fakes validation."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from crossfeed.audits.finding import Finding
from crossfeed.audits.subject import Case, Subject
from crossfeed.ingest.table import Group, hashed_bytes

# Shorter sessions can agree by chance on a machine at rest.
SHORTEST = 16

Recording = tuple[Subject, Group]


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
    return list(dict.fromkeys(pair for found in alike.values() for pair in combinations(found, 2)))


def check_twins(case: Case) -> Iterator[Finding]:
    """Report recordings that occur twice."""
    between: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for one, two in twin_groups(case.subjects):
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
