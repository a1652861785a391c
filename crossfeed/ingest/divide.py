"""Divide the runs of one table in two: some to learn from, others to stand for a machine with fewer sensors."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from crossfeed.errors import ConfigError, TableError
from crossfeed.ingest.table import Table


def choose_runs(table: Table, names: Iterable[str] = (), last: int | None = None, every: int | None = None) -> set[str]:
    """Runs by name, the last so many, or every n-th of them; exactly one of the three ways."""
    runs, named = sorted({group.run for group in table.groups}), set(names)
    if sum(way is not None for way in (named or None, last, every)) != 1:
        raise ConfigError(
            "It is not clear which runs go into the second table.",
            expected="exactly one of: names of runs, the last so many, every n-th",
        )
    if unknown := sorted(named - set(runs)):
        raise TableError(f"The table has no run {', '.join(unknown)}.", expected=f"some of {', '.join(runs)}")
    if any(number is not None and number < 1 for number in (last, every)):
        raise ConfigError("The number of runs is below 1.", expected="a whole number from 1 up")
    return named or set(runs[-last:] if last is not None else runs[every - 1 :: every] if every is not None else ())


def divide(table: Table, second: Collection[str], hide: Iterable[str] = (), machine: str = "") -> tuple[Table, Table]:
    """The table without and with these runs; the second lacks the hidden sensors and may get another machine name."""
    apart = [[group for group in table.groups if (group.run in second) is chosen] for chosen in (False, True)]
    if not all(apart):
        side = "first" if not apart[0] else "second"
        raise TableError(f"No run is left for the {side} table.", expected="at least one run on each side")
    first, other = (table.select(groups) for groups in apart)
    if machine:
        other = replace(other, groups=tuple(replace(group, machine=machine) for group in other.groups))
    return first, other.without(hide)
