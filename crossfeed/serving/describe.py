"""Sampled futures described: a distribution for every row and sensor, energy, peaks, what a change of plan makes."""

import math
from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np

from crossfeed.schema import Channel
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
from crossfeed.serving.result import (
    ForecastChannel,
    PlanComparison,
    PlanEnergy,
    PlanForecast,
    RowsBefore,
    SensorForecast,
    Values,
)
from crossfeed.show.tables import significant

FAINTEST = 0.001  # of what the first plan itself is unsure by: a difference that nobody could measure
_SHOWN_ROWS = 60


def rows_before(history: History, present: np.ndarray) -> RowsBefore:
    """Where the forecast starts, with the last rows before it."""
    group, rows, names = history.group, min(_SHOWN_ROWS, len(history.sensors)), history.schema.sensor_names
    return RowsBefore(
        file=history.file,
        fingerprint=history.fingerprint,
        machine=group.machine,
        run=group.run,
        session=group.session,
        program=group.program,
        at=history.at,
        period=history.period,
        time=(np.arange(1 - rows, 1) * history.period).tolist(),
        sensors=_columns(tuple(compress(names, present)), history.sensors[-rows:, present]),
        commands=_columns(history.schema.command_names, history.commands[-rows:]),
    )


def plan_forecast(
    plan: PlannedCommands,
    paths_NTC: np.ndarray,
    history: History,
    present: np.ndarray,
    limits: Mapping[str, float],
    warnings: list[str],
) -> PlanForecast:
    """One plan: its commands, a distribution for every row and sensor, energy and peaks."""
    schema = history.schema
    shown = tuple(compress(schema.sensor_names, present))
    levels_QTC = sample_quantiles(paths_NTC[..., present], LEVELS)
    mean_TC = paths_NTC[..., present].mean(axis=0)
    return PlanForecast(
        kind=plan.origin,
        file=plan.file,
        duration=len(plan) * history.period,
        time=(np.arange(1, len(plan) + 1) * history.period).tolist(),
        commands=_columns(schema.command_names, plan.commands),
        sensors={
            name: SensorForecast(
                mean_TC[:, column].tolist(),
                {str(level): levels_QTC[row, :, column].tolist() for row, level in enumerate(LEVELS)},
            )
            for column, name in enumerate(shown)
        },
        truth=None if plan.truth is None else _columns(shown, plan.truth[:, present]),
        energy=_energy(plan, paths_NTC, history, present),
        peaks=peaks(paths_NTC, schema, shown, limits),
        warnings=warnings,
    )


def compared(
    first: tuple[str, np.ndarray], second: tuple[str, np.ndarray], history: History, present: np.ndarray
) -> PlanComparison | None:
    """The energy of the second plan minus that of the first, sample by sample; None where no power is measured."""
    names = power_sensors(history.schema, present)
    if not names:
        return None
    before, after = (energies(paths, history.schema, names, history.period) for _, paths in (first, second))
    found, less, own = Estimate.of(after - before), float((after < before).mean()), Estimate.of(before)
    told = reading(first[0], second[0], found, less, FAINTEST * (own.high - own.low))
    return PlanComparison(first[0], second[0], found.mean, found.low, found.high, found.level, ENERGY_UNIT, less, told)


def reading(first: str, second: str, estimate: Estimate, less: float, faintest: float = 0.0) -> str:
    """The difference of two plans in a sentence that says no more than the samples do; below `faintest` it is none."""
    span = f"{significant(estimate.low, '+')} to {significant(estimate.high, '+')} {ENERGY_UNIT}"
    if estimate.low == estimate.high == 0.0:
        return f"{second} and {first} command the same"
    if estimate.low <= faintest and estimate.high >= -faintest:
        return f"cannot tell whether {second} needs more or less energy than {first}: {span}"
    sure = less if estimate.mean < 0.0 else 1.0 - less
    more = "less" if estimate.mean < 0.0 else "more"
    return f"{second} needs {more} energy than {first} in {sure:.0%} of the sampled futures: {span}"


def described(channels: Sequence[Channel]) -> dict[str, ForecastChannel]:
    """What channels measure, by name."""
    return {channel.name: ForecastChannel(channel.quantity, channel.unit) for channel in channels}


def _energy(plan: PlannedCommands, paths_NTC: np.ndarray, history: History, present: np.ndarray) -> PlanEnergy | None:
    names = power_sensors(history.schema, present)
    if not names:
        return None
    found, truth = Estimate.of(energies(paths_NTC, history.schema, names, history.period)), None
    if plan.truth is not None:
        # A row without a reading leaves the sum undefined; it becomes null, not a smaller energy.
        truth = float(energies(plan.truth, history.schema, names, history.period))
        truth = truth if np.isfinite(truth) else None
    return PlanEnergy(found.mean, found.low, found.high, found.level, ENERGY_UNIT, names, truth)


def _columns(names: Sequence[str], rows: np.ndarray) -> dict[str, Values]:
    """Columns by name; null where nothing was measured."""
    values = [[value if math.isfinite(value) else None for value in column] for column in rows.T.tolist()]
    return dict(zip(names, values, strict=True))
