"""What several measurements share: rows that cost what real ones cost, where they ran, and how results are kept."""

import argparse
import json
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.logs.table import Group, Table
from crossfeed.processes import begin_own_command
from crossfeed.schema import canonical
from crossfeed.windows.normalise import Normaliser

begin_own_command()  # what is measured is what our commands do


def parser(description: str | None) -> argparse.ArgumentParser:
    """One that prints a script's docstring as it stands."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def identity_normaliser() -> Normaliser:
    """For rows of the canonical schema that are already in z-space."""
    schema = canonical()
    sensors, commands = len(schema.sensors), len(schema.commands)
    return Normaliser(
        "zscore", 0.05, schema.sensor_names, schema.command_names, np.zeros(sensors), np.ones(sensors),
        np.zeros(commands), np.ones(commands), (), "0" * 64,
    )  # fmt: skip


def sessions(count: int, rows: int, shown: int) -> Table:
    """Levels in z-space that change every 40 rows, with a little noise; all sensors but the first `shown` absent."""
    schema, random, total = canonical(), np.random.default_rng(0), count * rows
    levels = np.repeat(random.normal(size=(total // 40 + 1, len(schema.sensors))), 40, axis=0)[:total]
    sensors = levels + 0.02 * random.normal(size=levels.shape)
    sensors[:, shown:] = np.nan
    commands = np.repeat(random.normal(size=(total // 40 + 1, len(schema.commands))), 40, axis=0)[:total]
    groups = tuple(Group("b", f"s{n}", f"r{n // 2}", "p", n * rows, (n + 1) * rows) for n in range(count))
    return Table(schema, groups, np.tile(np.arange(float(rows)), count), sensors, commands, 1.0, {})


def processor() -> str:
    """The processor by name."""
    facts = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", facts.read_text(encoding="utf-8")) if facts.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def keep(facts: dict[str, Any], out: Path | None) -> None:
    """Print a result as a line of JSON and add it to a file."""
    line = json.dumps(facts)
    print(line, flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
