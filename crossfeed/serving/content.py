"""What a forecast says, as plain data (forecast.json) and as a flat table (forecast.csv); see docs/forecast.md."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.atomic import atomic_file
from crossfeed.schema import Schema
from crossfeed.serving.history import History
from crossfeed.serving.measures import (
    ENERGY_UNIT,
    LEVELS,
    Estimate,
    energies,
    peaks,
    power_sensors,
    sample_quantiles,
)
from crossfeed.serving.plan import PlannedCommands

FAINTEST = 0.001  # of what the first plan itself is unsure by: a difference that nobody could measure
FORMAT = "crossfeed-forecast/1"
_SHOWN_ROWS = 60


def history_content(history: History, shown: tuple[str, ...]) -> dict[str, Any]:
    """Where the forecast starts, with the last rows before it."""
    group, rows = history.group, min(_SHOWN_ROWS, len(history.sensors))
    names = history.schema.sensor_names
    return {
        "file": history.file,
        "fingerprint": history.fingerprint,
        "machine": group.machine,
        "run": group.run,
        "session": group.session,
        "program": group.program,
        "at": history.at,
        "period": history.period,
        "time": (np.arange(1 - rows, 1) * history.period).tolist(),
        "sensors": {name: history.sensors[-rows:, names.index(name)] for name in shown},
        "commands": dict(zip(history.schema.command_names, history.commands[-rows:].T)),
    }


def plan_content(
    plan: PlannedCommands, paths_NTC: np.ndarray, history: History, present: np.ndarray, limits: Mapping[str, float]
) -> dict[str, Any]:
    """One plan: its commands, a distribution for every row and sensor, energy and peaks."""
    schema = history.schema
    shown = _shown(schema, present)
    levels_QTC = sample_quantiles(paths_NTC[..., present], LEVELS)
    mean_TC = paths_NTC[..., present].mean(axis=0)
    truth = None
    if plan.truth is not None:
        truth = {name: plan.truth[:, schema.sensor_names.index(name)] for name in shown}
    return {
        "kind": plan.origin,
        "file": plan.file,
        "duration": len(plan) * history.period,
        "time": np.arange(1, len(plan) + 1) * history.period,
        "commands": dict(zip(schema.command_names, plan.commands.T)),
        "sensors": {
            name: {
                "mean": mean_TC[:, column],
                "quantiles": {str(level): levels_QTC[row, :, column] for row, level in enumerate(LEVELS)},
            }
            for column, name in enumerate(shown)
        },
        "truth": truth,
        "energy": _energy(plan, paths_NTC, history, present),
        "peaks": {name: asdict(peak) for name, peak in peaks(paths_NTC, schema, shown, limits).items()},
    }


def comparison_content(
    first: tuple[str, np.ndarray], second: tuple[str, np.ndarray], history: History, present: np.ndarray
) -> dict[str, Any] | None:
    """The energy of the second plan minus that of the first, sample by sample: shared chance cancels."""
    names = power_sensors(history.schema, present)
    if not names:
        return None
    before, after = (energies(paths, history.schema, names, history.period) for _, paths in (first, second))
    difference = after - before
    estimate, less, own = Estimate.of(difference), float((difference < 0.0).mean()), Estimate.of(before)
    return {
        "first": first[0],
        "second": second[0],
        **asdict(estimate),
        "unit": ENERGY_UNIT,
        "probability_less": less,
        "reading": reading(first[0], second[0], estimate, less, FAINTEST * (own.high - own.low)),
    }


def reading(first: str, second: str, estimate: Estimate, less: float, faintest: float = 0.0) -> str:
    """The difference of two plans in a sentence that says no more than the samples do; below `faintest` it is none."""
    span = f"{estimate.low:+.3g} to {estimate.high:+.3g} {ENERGY_UNIT}"
    if estimate.low == estimate.high == 0.0:
        return f"{second} and {first} command the same"
    if estimate.low <= faintest and estimate.high >= -faintest:
        return f"cannot tell whether {second} needs more or less energy than {first}: {span}"
    sure = less if estimate.mean < 0.0 else 1.0 - less
    more = "less" if estimate.mean < 0.0 else "more"
    return f"{second} needs {more} energy than {first} in {sure:.0%} of the sampled futures: {span}"


def _energy(
    plan: PlannedCommands, paths_NTC: np.ndarray, history: History, present: np.ndarray
) -> dict[str, Any] | None:
    names = power_sensors(history.schema, present)
    if not names:
        return None
    estimate = Estimate.of(energies(paths_NTC, history.schema, names, history.period))
    truth = None
    if plan.truth is not None:
        # A row without a reading leaves the sum undefined; it becomes null, not a smaller energy.
        truth = float(energies(plan.truth, history.schema, names, history.period))
    return {**asdict(estimate), "unit": ENERGY_UNIT, "sensors": list(names), "truth": truth}


def _shown(schema: Schema, present: np.ndarray) -> tuple[str, ...]:
    return tuple(name for name, there in zip(schema.sensor_names, present) if there)


def write_csv(content: Mapping[str, Any], path: Path | str) -> None:
    """One row per plan, time and sensor."""
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(",".join(["plan", "time", "sensor", "unit", "mean", *(f"q{level:g}" for level in LEVELS)]) + "\n")
        for name, plan in content["plans"].items():
            quoted = '"' + name.replace('"', '""') + '"'
            for sensor, forecast in plan["sensors"].items():
                unit = content["sensors"][sensor]["unit"]
                columns = [forecast["mean"], *(forecast["quantiles"][str(level)] for level in LEVELS)]
                for time, *values in zip(plan["time"], *columns):
                    numbers = ",".join(f"{value:.6g}" for value in values)
                    file.write(f"{quoted},{time:g},{sensor},{unit},{numbers}\n")
