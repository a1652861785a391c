"""A table in the order, names and units of another schema, and with rows of the same length."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from crossfeed.errors import TableError
from crossfeed.ingest.parquet import has_own_schema
from crossfeed.ingest.table import Table
from crossfeed.schema import Schema, conversion


def as_table(source: Table | Path | str, schema: Schema, what: str = "table") -> Table:
    """A table, or the one in a file, read by its own schema where it has one; a frame is refused with what to do."""
    if isinstance(source, Table):
        return source
    if isinstance(source, Path | str):
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


def check_row_period(found: float, expected: float, whose: str, of: str) -> None:
    """Refuse rows (of `whose`) that are longer or shorter than those `of` something else."""
    if math.isclose(found, expected, rel_tol=1e-6):
        return
    raise TableError(
        f"{whose} has a row every {found:g} s, {of} every {expected:g} s.",
        expected="rows of the same length, because a model counts in rows",
        remedy=f"Ingest the logs again with --period {expected:g}.",
    )


def idle_commands(table: Table, schema: Schema) -> dict[str, float]:
    """The commands that a table lacks altogether, with the value at which such a thing stands still."""
    idle = {}
    for channel in schema.commands:
        names = table.schema.command_names
        known = channel.name in names and np.isfinite(table.commands[:, names.index(channel.name)]).any()
        if not known:
            # An override that nobody can turn stands at 100 %.
            idle[channel.name] = conversion("%", channel.unit).scale * 100.0 if channel.quantity == "override" else 0.0
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
