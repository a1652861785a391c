"""Ready studies as the ledger holds them, and the machines that one of them leaves out in turn."""

from collections.abc import Iterable

from crossfeed.study.record.store import Store

LEAVE_ONE_OUT, ALL_MACHINES = "leave-one-out", "all_machines"


def machines_of(store: Store) -> list[str]:
    """The machines of a study's source tables."""
    return list(dict.fromkeys(name for source in store.protocol()["sources"] for name in source["machines"]))


def planned_ready(store: Store) -> Iterable[tuple[str, list[str]]]:
    """Every ready study of the folder: its name and its arms, the reference first."""
    found: dict[str, list[str]] = {}
    for entry in store.entries("ready"):
        known = found.setdefault(entry.content["kind"], [])
        known += [arm for arm in entry.content["arms"] if arm not in known]
    return found.items()
