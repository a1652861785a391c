"""The fleet beside real logs: facts of channels, and features of windows that have no unit."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.table import Table, row_numbers
from crossfeed.sim.factory.motors import fleet_schema
from crossfeed.sim.factory.shards import fleet_tables
from crossfeed.sim.physics.parameters import Floats


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """What one channel of one machine is like over its whole log."""

    low: float  # 1 % of its rows are lower
    high: float
    zero: float  # share of rows
    unchanged: float  # rows like the row before
    whole: float  # rows with a whole number
    noise: float  # median step from row to row, over the range from low to high
    memory: float  # correlation with the row before


FACTS = tuple(field.name for field in fields(ChannelFacts))


@dataclass(frozen=True, slots=True)
class Match:
    """One fact of a real channel among the machines of the fleet that have the channel."""

    channel: str
    fact: str
    real: float
    low: float  # a twentieth of the fleet's machines lie below
    middle: float
    high: float
    machines: int

    @property
    def inside(self) -> bool:
        return self.low <= self.real <= self.high


def facts_of(values: Floats) -> ChannelFacts | None:
    """The facts of a channel; None where it shows nothing."""
    values = values[np.isfinite(values)]
    if len(values) < 3:
        return None
    low, high = (float(bound) for bound in np.percentile(values, [1, 99]))
    steps = np.abs(np.diff(values))
    spread = float(values[1:].std() * values[:-1].std())
    covariance = float(np.mean((values[1:] - values[1:].mean()) * (values[:-1] - values[:-1].mean())))
    return ChannelFacts(
        low=low,
        high=high,
        zero=float((values == 0).mean()),
        unchanged=float((steps == 0).mean()),
        whole=float((values == np.rint(values)).mean()),
        noise=float(np.median(steps)) / (high - low) if high > low else 0.0,
        memory=covariance / spread if spread > 0 else 1.0,
    )


def describe(folder: Path | str, real: Table, renamed: dict[str, str] | None = None) -> list[Match]:
    """Every shared channel of a real table, commands included, against the machines of the fleet with its period."""
    schema = fleet_schema()
    genuine = {
        (renamed or {}).get(name, name): facts for name, facts in _machine_facts(real, real.machines()[0]).items()
    }
    shared = [name for name in (*schema.sensor_names, *schema.command_names) if name in genuine]
    if not shared:
        raise ConfigError(
            "The table and the fleet have no channel in common.", remedy="Rename channels with --rename OWN=FLEET."
        )
    fleet: dict[str, list[ChannelFacts]] = {name: [] for name in shared}
    for table in fleet_tables(folder, real.period):
        for machine in table.machines():
            for name, facts in _machine_facts(table, machine).items():
                if name in fleet:
                    fleet[name].append(facts)
    return [_match(name, fact, genuine[name], fleet[name]) for name in shared if fleet[name] for fact in FACTS]


def _machine_facts(table: Table, machine: str) -> dict[str, ChannelFacts]:
    """The facts of every channel that a machine shows."""
    rows = row_numbers([group for group in table.groups if group.machine == machine])
    columns = [
        *zip(table.schema.sensor_names, table.sensors[rows].T, strict=True),
        *zip(table.schema.command_names, table.commands[rows].T, strict=True),
    ]
    return {name: facts for name, values in columns if (facts := facts_of(values)) is not None}


def _match(channel: str, fact: str, genuine: ChannelFacts, fleet: Sequence[ChannelFacts]) -> Match:
    low, middle, high = np.percentile([getattr(facts, fact) for facts in fleet], [5, 50, 95]).tolist()
    return Match(channel, fact, getattr(genuine, fact), low, middle, high, len(fleet))


LENGTH = 64  # rows of a window
FEATURES = (
    "standing rows",  # all commands zero
    "unchanged command",  # rows whose commands are those of the row before
    "moving axes",  # mean number of axes with a feed
    "spindle on",
    "unchanged",  # rows whose value is that of the row before
    "zero",
    "distinct values",
    "memory",  # correlation with the row before
    "memory of three rows",
    "jump",  # usual step from row to row over the spread of the whole log
    "largest jump",
    "spread",  # of the window over the spread of the whole log
    "level",  # of the window over the spread of the whole log
    "negative",
    "told by speed",  # share of the window's variance that a line in each command explains
    "told by feeds",
    "unrest while standing",  # steps in rows with commands that do not change, over those of all rows
)


class WindowFeatures(NamedTuple):
    """One window of one sensor, with a number for each of FEATURES."""

    features: list[float]
    detail: str  # what is measured: current, load, ...
    machine: str
    run: str
    row: int  # of the table, where the window begins


def detail_of(channel: str) -> str:
    """The last word of a channel's name: `x_output_current` measures a current."""
    word = channel.rpartition("_")[2]
    return {"speed": "velocity", "depth": "voltage"}.get(word, word)


def window_features(table: Table, channels: tuple[str, ...], most: int = 40) -> list[WindowFeatures]:
    """Features of at most so many windows of each machine and channel, evenly spread over its log."""
    names = table.schema.sensor_names
    missing = [name for name in channels if name not in names]
    if missing or not channels:
        raise TableError(f"The table has no sensor {', '.join(missing) or 'to look at'}.", expected=", ".join(names))
    windows: list[WindowFeatures] = []
    for machine in table.machines():
        groups = [group for group in table.groups if group.machine == machine]
        rows = row_numbers(groups)
        starts = [
            (group.run, start) for group in groups for start in range(group.start, group.stop - LENGTH + 1, LENGTH)
        ]
        chosen = np.unique(np.linspace(0, len(starts) - 1, min(most, len(starts))).astype(int)).tolist()
        for name in channels:
            values = table.sensors[:, names.index(name)]
            whole = values[rows]
            if not np.isfinite(whole).any():
                continue
            scale = float(np.nanpercentile(whole, 99) - np.nanpercentile(whole, 1)) or 1.0
            for index in chosen:
                run, start = starts[index]
                window = slice(start, start + LENGTH)
                if np.isfinite(values[window]).all():
                    features = _features(values[window], table.commands[window, :], scale)
                    windows.append(WindowFeatures(features, detail_of(name), machine, f"{machine}/{run}", start))
    if not windows:
        raise TableError(f"No window of {LENGTH} rows without a gap was found.", expected="longer sessions")
    return windows


def _features(values: Floats, commands: Floats, scale: float) -> list[float]:
    """One number for each of FEATURES."""
    steps = np.abs(np.diff(values))
    same = (np.diff(commands, axis=0) == 0).all(axis=1)
    feeds = commands[:, 1:4]
    usual = float(steps.mean())
    return [
        float((commands == 0).all(axis=1).mean()),
        float(same.mean()),
        float((feeds != 0).sum(axis=1).mean()),
        float((commands[:, 0] != 0).mean()),
        float((steps == 0).mean()),
        float((values == 0).mean()),
        len(np.unique(values)) / len(values),
        _correlation(values[1:], values[:-1]),
        _correlation(values[3:], values[:-3]),
        usual / scale,
        float(steps.max()) / scale,
        float(values.std()) / scale,
        float(values.mean()) / scale,
        float((values < 0).mean()),
        _explained(values, commands[:, :1]),
        _explained(values, np.column_stack((feeds, np.abs(feeds)))),
        float(steps[same].mean()) / usual if same.any() and usual > 0 else 0.0,
    ]


def _correlation(one: Floats, other: Floats) -> float:
    """Zero where nothing varies."""
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / spread if spread > 1e-12 else 0.0


def _explained(values: Floats, commands: Floats) -> float:
    """Share of the variance that a plane in the commands explains."""
    centred = values - values.mean()
    total = float(centred @ centred)
    if total < 1e-20:
        return 0.0
    inputs = commands - commands.mean(axis=0)
    inputs = inputs / np.maximum(np.abs(inputs).max(axis=0), 1e-9)
    weights, *_ = np.linalg.lstsq(inputs, centred, rcond=None)
    left = centred - inputs @ weights
    return float(np.clip(1 - left @ left / total, 0.0, 1.0))
