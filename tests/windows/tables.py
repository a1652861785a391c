"""Small tables for the tests of windows and audits."""

import numpy as np

from crossfeed.logs.table import Group, Table
from crossfeed.schema import Channel, Schema, canonical


def tiny_schema(sensors: int = 3, commands: int = 2) -> Schema:
    return Schema(
        name="tiny",
        sensors=tuple(Channel(name=f"s{i}", quantity="current", unit="A") for i in range(sensors)),
        commands=tuple(Channel(name=f"c{i}", quantity="feed", unit="mm/min") for i in range(commands)),
    )


def random_table(
    lengths: list[int],
    seed: int = 0,
    *,
    schema: Schema | None = None,
    machine: str = "mill",
    absent: float = 0.0,
    programs: list[str] | None = None,
    period: float = 1.0,
) -> Table:
    """One group for each length; values are noise around a level of their own for each channel."""
    schema = schema or tiny_schema()
    rng = np.random.default_rng(seed)
    rows, groups, start = sum(lengths), [], 0
    for number, length in enumerate(lengths):
        program = programs[number] if programs else f"program{number % 3}"
        groups.append(Group(machine, f"session{number:03d}", "run0", program, start, start + length))
        start += length
    sensors = rng.normal(size=(rows, len(schema.sensors))) + 10.0 * np.arange(len(schema.sensors))
    sensors[rng.random(sensors.shape) < absent] = np.nan
    commands = np.repeat(rng.normal(size=(rows // 5 + 1, len(schema.commands))), 5, axis=0)[:rows] * 100.0
    time = np.concatenate([period * np.arange(1, length + 1) for length in lengths])
    return Table(schema, tuple(groups), time, sensors, commands, period, {})


def study_table(seed: int = 0) -> Table:
    """62 sessions in the canonical schema, as the source machine of the study has them."""
    lengths = [int(n) for n in np.random.default_rng(seed).integers(64, 200, size=62)]
    return random_table(lengths, seed, schema=canonical(), programs=[f"part{i % 9}" for i in range(62)])
