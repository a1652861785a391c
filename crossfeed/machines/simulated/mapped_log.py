"""Logs in a format of one's own with the YAML mapping that explains it: for fleets and for single programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from crossfeed.atomic import atomic_file
from crossfeed.machines.simulated.log_files import LogSummary, Ranges, rounded, write_csv
from crossfeed.machines.simulated.parameters import MachineParameters
from crossfeed.machines.simulated.rollout import Trace
from crossfeed.schema import canonical, conversion

LOG, MAPPING = "log.csv", "mapping.yaml"
GAP = 60.0  # s between the runs of a log


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run of a machine: what it made, and the trace at the inner rate."""

    program: str
    trace: Trace


@dataclass(frozen=True, slots=True)
class ControllerDialect:
    """How a control names its columns and in which units it writes them."""

    prefix: str = ""
    units: Mapping[str, str] | None = None  # canonical unit -> unit of the log


def write_mapped(
    out: Path,
    machine: MachineParameters,
    runs: Sequence[LoggedRun],
    dialect: ControllerDialect | None = None,
    min_rows: int = 48,
) -> LogSummary:
    """Write OUT/log.csv, one row every logging period, and OUT/mapping.yaml for `crossfeed ingest table`."""
    dialect = dialect or ControllerDialect()
    schema = canonical()
    units = dialect.units or {}
    names = (*machine.logging.sensors, *schema.command_names)
    described = [
        {
            "native": dialect.prefix + name,
            "channel": name,
            "unit": units.get(schema.channel(name).unit, schema.channel(name).unit),
        }
        for name in names
    ]
    parts: dict[str, list[Any]] = {"time": [], "session": [], "run": [], "program": []}
    parts |= {column["native"]: [] for column in described}
    ranges, clock = Ranges(), 0.0
    for number, run in enumerate(runs, start=1):
        stride = max(1, round(machine.logging.period / run.trace.time_step))
        rows = slice(stride - 1, None, stride)
        time = clock + run.trace.time[rows] - run.trace.time[0] + run.trace.time_step
        parts["time"].append(np.round(time, 3))
        clock = float(time[-1]) + GAP
        for label, value in (("session", f"session_{number}"), ("run", f"run_{number}"), ("program", run.program)):
            parts[label].append(np.full(len(time), value))
        for column in described:
            values = run.trace[column["channel"]][rows]
            ranges.update(column["channel"], values)
            scale = conversion(schema.channel(column["channel"]).unit, column["unit"]).scale
            parts[column["native"]].append(rounded(values * scale, column["unit"]))
    log = out / LOG
    count = write_csv(log, {name: np.concatenate(values) for name, values in parts.items()})
    mapping = yaml.safe_dump(_mapping(machine.name, described, min_rows), sort_keys=False)
    with atomic_file(out / MAPPING) as temporary:
        temporary.write_text(mapping, encoding="utf-8")
    seconds = sum(len(run.trace) * run.trace.time_step for run in runs)
    return LogSummary(machine.name, (log, out / MAPPING), count, count, len(runs), seconds, ranges)


def _mapping(machine: str, columns: list[dict[str, str]], min_rows: int) -> dict[str, Any]:
    return {
        "machine": machine,
        "schema": "canonical",
        "time": {"column": "time", "unit": "s"},
        "columns": columns,
        "session": {"column": "session"},
        "run": {"column": "run"},
        "program": {"column": "program"},
        "segmentation": {"gap_s": 5.0, "min_rows": min_rows},
    }
