"""The fleet beside real logs, channel by channel: ranges, standing rows, resolution, noise and memory."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from crossfeed.errors import ConfigError
from crossfeed.fleet.schema import fleet_schema
from crossfeed.fleet.shards import fleet_tables
from crossfeed.ingest.table import Table, row_numbers
from crossfeed.machines.simulated.noise import Floats


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
    own = {(renamed or {}).get(name, name): facts for name, facts in _machine_facts(real, real.machines()[0]).items()}
    shared = [name for name in (*schema.sensor_names, *schema.command_names) if name in own]
    if not shared:
        raise ConfigError(
            "The table and the fleet have no channel in common.", remedy="Rename channels with --rename OWN=FLEET."
        )
    found: dict[str, list[ChannelFacts]] = {name: [] for name in shared}
    for table in fleet_tables(folder, real.period):
        for machine in table.machines():
            for name, facts in _machine_facts(table, machine).items():
                if name in found:
                    found[name].append(facts)
    return [_match(name, fact, own[name], found[name]) for name in shared if found[name] for fact in FACTS]


def _machine_facts(table: Table, machine: str) -> dict[str, ChannelFacts]:
    """The facts of every channel that a machine shows."""
    rows = row_numbers([group for group in table.groups if group.machine == machine])
    columns = [
        *zip(table.schema.sensor_names, table.sensors[rows].T, strict=True),
        *zip(table.schema.command_names, table.commands[rows].T, strict=True),
    ]
    return {name: facts for name, values in columns if (facts := facts_of(values)) is not None}


def _match(channel: str, fact: str, own: ChannelFacts, fleet: Sequence[ChannelFacts]) -> Match:
    low, middle, high = np.percentile([getattr(facts, fact) for facts in fleet], [5, 50, 95]).tolist()
    return Match(channel, fact, getattr(own, fact), low, middle, high, len(fleet))
