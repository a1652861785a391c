"""A spindle whose needs are known: turning alone by its speed, cutting by the feed, and a load on an axis."""

import numpy as np

from crossfeed.logs.table import Group, Table
from crossfeed.schema import Channel, Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowSet

SCHEMA = Schema(
    name="spindle",
    sensors=(
        Channel(name="spindle_power", quantity="power", unit="kW"),
        Channel(name="x_load", quantity="load", unit="%"),
    ),
    commands=(
        Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_x", quantity="feed", unit="mm/min"),
    ),
)
SPEEDS = (1000.0, 4000.0)
HORIZONS = (1, 2, 4)


def turning(speed: np.ndarray) -> np.ndarray:
    """Kilowatts that the spindle needs without a cut."""
    return speed / 1000.0


def spindle_table(blocks: int = 40, rows: int = 25, seed: int = 0) -> Table:
    """Blocks of one speed and one feed; half of them cut, and what cutting needs is anybody's guess."""
    draw = np.random.default_rng(seed)
    speed = np.repeat(draw.choice(SPEEDS, blocks), rows)
    feed = np.repeat(draw.choice((0.0, 300.0, 900.0), blocks), rows)
    cut = np.repeat(draw.uniform(0.2, 3.0, blocks) * (draw.random(blocks) < 0.5), rows) * (feed > 0.0)
    power = turning(speed) + cut
    load = draw.uniform(5.0, 40.0, len(speed))
    group = Group("mill", "session", "run", "part", 0, len(speed))
    sensors, commands = np.stack([power, load], 1), np.stack([speed, feed], 1)
    return Table(SCHEMA, (group,), np.arange(1.0, len(speed) + 1.0), sensors, commands, 1.0, {})


def normaliser() -> Normaliser:
    return Normaliser(
        method="zscore",
        floor=0.0,
        sensor_names=SCHEMA.sensor_names,
        command_names=SCHEMA.command_names,
        sensor_location=[3.0, 20.0],
        sensor_scale=[2.0, 10.0],
        command_location=[2500.0, 400.0],
        command_scale=[1500.0, 350.0],
        unseen=(),
        fitted_on="0" * 64,
    )


def spindle_windows(table: Table | None = None) -> WindowSet:
    return WindowSet.build([table or spindle_table()], None, normaliser(), context=6, horizons=HORIZONS)
