"""What stands in a table, on one page: how much of which channel, and in which range."""

from typing import TYPE_CHECKING

import numpy as np

from crossfeed.grid import Grid, plural

if TYPE_CHECKING:
    from crossfeed.ingest.table import Table


def overview(table: "Table") -> Grid:
    """One line for each channel that has a value; the others are named below."""
    rows, absent = [], []
    for role, channels, values_NC in (
        ("sensor", table.schema.sensors, table.sensors),
        ("command", table.schema.commands, table.commands),
    ):
        for channel, values_N in zip(channels, values_NC.T):
            known = values_N[np.isfinite(values_N)]
            if not len(known):
                absent.append(channel.name)
                continue
            numbers = (f"{value:,.4g}" for value in (known.min(), known.mean(), known.max()))
            share = len(known) / len(values_N)
            rows.append([channel.name, role, channel.unit, f"{share:.0%}", *numbers])
    machines = ", ".join(table.machines())
    sessions = plural(len(table.groups), "session")
    title = f"{machines}: {len(table):,} rows, one every {table.period:g} s, in {sessions}"
    remarks = [f"not measured: {', '.join(absent)}"] if absent else []
    return Grid(title, ("channel", "role", "unit", "known", "lowest", "mean", "highest"), rows, remarks, words=3)
