"""Machines that differ in size, period and sensors."""

from dataclasses import replace

from crossfeed.logs.table import Table
from crossfeed.schema import Channel, Schema
from tests.training.conftest import toy_table

MANY = {"model.identity": "described", "data.normaliser": "frame", "machines.gain": 0.5, "machines.commands": 0.2}


def other_size(table: Table, size: float, period: float) -> Table:
    return replace(table, sensors=table.sensors * size, time=table.time * period, period=period)


def stranger() -> Table:
    """A machine with two sensors of other names, other units, and one command of another name."""
    table = toy_table("stranger", seed=5)
    schema = Schema(
        name="stranger",
        sensors=tuple(Channel(name=f"drive_{name}", quantity="current", unit="mA") for name in "uv"),
        commands=(Channel(name="feed_1", quantity="feed", unit="mm/min"),),
    )
    return replace(table, schema=schema, sensors=table.sensors[:, :2] * 5000.0, commands=table.commands[:, 1:])
