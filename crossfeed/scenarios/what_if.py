"""What will the machine do if it is commanded this? Model, history and plans in; distributions, energy, peaks out.

N samples, T rows, C sensors, Q quantile levels.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.evaluation.result import ModelFacts
from crossfeed.files import atomic_file, write_sealed
from crossfeed.programs.motion import MotionLimits
from crossfeed.scenarios.history import History
from crossfeed.scenarios.measures import (
    ENERGY_UNIT,
    LEVELS,
    Estimate,
    check_sensors,
    doubt_about,
    energies,
    peaks,
    power_sensors,
    sample_quantiles,
    warnings_about,
    warnings_of,
)
from crossfeed.scenarios.plan import Overrides, PlannedCommands, read_plans
from crossfeed.scenarios.result import (
    ForecastChannel,
    PlanComparison,
    PlanEnergy,
    PlanForecast,
    RowsBefore,
    SamplingSettings,
    SensorForecast,
    Values,
    WhatIf,
)
from crossfeed.scenarios.rollout import PERSISTENCE, Rollout, shared_chance, standard_noise
from crossfeed.schema import Channel
from crossfeed.show.figures import save_figure
from crossfeed.show.tables import significant

FAINTEST = 0.001  # of what the first plan itself is unsure by: a difference too small to be measured
_SHOWN_ROWS = 60


def what_if(
    opened: OpenedModel,
    history: History,
    plans: Sequence[Any] | Mapping[str, Any],
    *,
    seconds: float | None = None,
    samples: int = 64,
    seed: int = 0,
    limits: Mapping[str, float] | None = None,
    channels: Sequence[str] = (),
    overrides: Overrides | None = None,
    motion_limits: MotionLimits | None = None,
    out: Path | str | None = None,
    plot: Path | str | None = None,
    go_on: Callable[[], None] | None = None,
) -> WhatIf:
    """Forecast under each plan and compare them.

    `plans`: files (CSV, Parquet), NC programs (`part.mpf`, `part.mpf@feed=80`, `bundled:bracket`), "table" for the
    commands that really followed, frames, arrays or plans already read; in a mapping the keys name them. `limits` are
    highest allowed values by sensor. With `out`, forecast.json, forecast.csv and forecast.png are written there; `plot`
    names the figure, `channels` the sensors it shows. `go_on` is asked now and then and may raise to stop the work.
    """
    opened.check_rows(history.period, f"The table with {history.title}")
    read = read_plans(plans, history, overrides, motion_limits, seconds)
    rollout, limits = Rollout(opened.model, history), dict(limits or {})
    check_sensors(limits, history.schema, rollout.present, "The limited sensor")
    check_sensors(channels, history.schema, rollout.present, "The channel")
    scale, sensors = opened.model.normaliser.command_scale, len(history.schema.sensors)
    noises = [
        standard_noise(
            samples, len(plan), sensors, seed, PERSISTENCE, shared_chance(read[0].commands, plan.commands, scale)
        )
        for plan in read
    ]
    paths = dict(zip((plan.name for plan in read), rollout.sample_all(read, noises, go_on), strict=True))
    config, schema, present = opened.model.config, history.schema, rollout.present
    sensors_shown, forecasts = described(schema.sensors), {}
    for plan in read:
        warnings = [*warnings_of(plan, history, opened.provenance), *doubt_about(opened.model, history, plan)]
        forecasts[plan.name] = plan_forecast(plan, paths[plan.name], history, present, limits, warnings)
    first, *others = paths.items()
    comparisons = (compared(first, other, history, present) for other in others)
    answer = WhatIf(
        model=ModelFacts(opened.path.name, opened.forecaster.name, opened.sha256),
        history=rows_before(history, present),
        settings=SamplingSettings(samples, seed, PERSISTENCE, config.context, tuple(opened.model.horizons), LEVELS),
        sensors=dict(compress(sensors_shown.items(), present)),
        commands=described(schema.commands),
        absent=list(compress(schema.sensor_names, ~present)),
        plans=forecasts,
        comparisons=[comparison for comparison in comparisons if comparison is not None],
        warnings=list(warnings_about(history, opened.provenance)),
        paths=paths,
    )
    if out is not None:
        write_sealed(Path(out) / "forecast.json", answer.to_dict())
        with atomic_file(Path(out) / "forecast.csv") as temporary:
            answer.to_polars().write_csv(temporary, float_precision=6)
        plot = Path(out) / "forecast.png" if plot is None else plot
    if plot is not None:
        save_figure(answer.plot(channels), plot)
    return answer


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
    difference, less, first_energy = Estimate.of(after - before), float((after < before).mean()), Estimate.of(before)
    sentence = reading(first[0], second[0], difference, less, FAINTEST * (first_energy.high - first_energy.low))
    return PlanComparison(
        **asdict(difference), first=first[0], second=second[0], unit=ENERGY_UNIT, probability_less=less,
        reading=sentence,
    )  # fmt: skip


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
    estimate, truth = Estimate.of(energies(paths_NTC, history.schema, names, history.period)), None
    if plan.truth is not None:
        # A row without a reading leaves the sum undefined; it becomes null, not a smaller energy.
        truth = float(energies(plan.truth, history.schema, names, history.period))
        truth = truth if np.isfinite(truth) else None
    return PlanEnergy(**asdict(estimate), sensors=names, truth=truth)


def _columns(names: Sequence[str], rows: np.ndarray) -> dict[str, Values]:
    """Columns by name; null where nothing was measured."""
    values = [[value if math.isfinite(value) else None for value in column] for column in rows.T.tolist()]
    return dict(zip(names, values, strict=True))
