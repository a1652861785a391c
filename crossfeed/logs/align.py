"""Tables made of tables: in the order, names and units of another schema, or divided in two by their runs."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.table import Table
from crossfeed.schema import Schema, conversion


def as_table(source: Table | Path | str, schema: Schema, what: str = "table") -> Table:
    """A table, or the one in a file, read by its own schema where it has one; a frame is refused with what to do."""
    if isinstance(source, Table):
        return source
    if isinstance(source, Path | str):
        from crossfeed.logs.parquet import has_own_schema

        return Table.read(source, None if has_own_schema(Path(source)) else schema)
    raise _no_table(source, what)


def several(tables: Table | Path | str | Sequence[Table | Path | str]) -> list[Table | Path | str]:
    """One table or many, as a list; a frame in its place is refused."""
    if isinstance(tables, Table | Path | str):
        return [tables]
    if isinstance(tables, list | tuple):
        if not tables:
            raise TableError("No table was given.", expected="at least one")
        return list(tables)
    raise _no_table(tables, "table")


def _no_table(source: object, what: str) -> TableError:
    return TableError(
        f"An object of the type {type(source).__name__} is no {what}.",
        expected="a Table, or the path of one",
        remedy="Make a table of a frame with cf.Table.from_frame(frame).",
    )


def align(table: Table, schema: Schema) -> Table:
    """The table in another schema's order: names decide, units are converted, sensors it lacks are absent.

    A command that the machine does not have stands still; a table without any command of the model is refused.
    """
    idle = idle_commands(table, schema)
    if len(idle) == len(schema.commands):
        raise TableError(
            f"The table of {', '.join(table.machines())} has no command of the model, but "
            f"{', '.join(table.schema.command_names)}.",
            expected=f"at least one of {', '.join(schema.command_names)}",
            remedy="Name the commands of the mapping so where they mean the same; else let a model learn this machine: "
            "crossfeed train --pretrained none.",
        )
    if table.schema.fingerprint == schema.fingerprint and not idle:
        return table
    sensors = np.full((len(table), len(schema.sensors)), np.nan)
    for position, name in enumerate(schema.sensor_names):
        if name in table.schema.sensor_names:
            sensors[:, position] = _converted(table, schema, name)
    commands = np.stack(
        [
            np.full(len(table), idle[name]) if name in idle else _converted(table, schema, name)
            for name in schema.command_names
        ],
        axis=1,
    )
    return replace(table, schema=schema, sensors=sensors, commands=commands)


def check_row_period(period: float, expected: float, whose: str, of: str) -> None:
    """Refuse rows (of `whose`) that are longer or shorter than those `of` something else."""
    if math.isclose(period, expected, rel_tol=1e-6):
        return
    raise TableError(
        f"{whose} has a row every {period:g} s, {of} every {expected:g} s.",
        expected="rows of the same length, because a model counts in rows",
        remedy=f"Ingest the logs again with --period {expected:g}.",
    )


def idle_commands(table: Table, schema: Schema) -> dict[str, float]:
    """The commands that a table lacks altogether, with the value at which such a thing stands still."""
    idle = {}
    for channel in schema.commands:
        names = table.schema.command_names
        given = channel.name in names and np.isfinite(table.commands[:, names.index(channel.name)]).any()
        if not given:
            idle[channel.name] = channel.idle
    return idle


def missed_commands(idle: Mapping[str, float], learned: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Those of a table's idle commands that moved where the model learned: what always stood still is not missed."""
    return {name: value for name, value in idle.items() if tuple(learned.get(name, ())) != (value, value)}


def _converted(table: Table, schema: Schema, name: str) -> np.ndarray:
    found, wanted = table.schema.channel(name), schema.channel(name)
    names, values = (
        (table.schema.sensor_names, table.sensors)
        if name in table.schema.sensor_names
        else (table.schema.command_names, table.commands)
    )
    factor = conversion(found.unit, wanted.unit)
    return np.asarray(values[:, names.index(name)] * factor.scale + factor.offset)


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
