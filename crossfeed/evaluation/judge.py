"""The one place where an evaluation is made: models beside naive baselines on the same windows, then the probes.

`judge` serves both: `evaluate`, one model on any table, and `evaluate_target`, the models of a study. A few forecasts
are kept beside what happened, in physical units, for people to look at.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.evaluation.channels import calibration_by_regime, channel_scores, headline_intervals
from crossfeed.evaluation.command_use import KeptForecasts, command_use
from crossfeed.evaluation.conformal import ForecastRecorder, conformal_coverage
from crossfeed.evaluation.forecaster import BATCH, Forecaster, NaiveForecaster
from crossfeed.evaluation.metrics import REGIMES, EvaluationSet, Scores, regimes, score_windows
from crossfeed.evaluation.opened_model import AnyModel, WorldModelForecaster, as_opened
from crossfeed.evaluation.result import Evaluation, ModelFacts, TableFacts
from crossfeed.evaluation.robustness import Probe, channel_curve, robustness, slower_logging
from crossfeed.evaluation.setup import Side, SourceData, foreign_set, sensors_not_read, set_up
from crossfeed.evaluation.statistics import paired_tests, power_table
from crossfeed.evaluation.verdict import Unit
from crossfeed.files import plain
from crossfeed.logs.align import as_table, several
from crossfeed.logs.table import Table
from crossfeed.model.distribution import Distribution
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import console
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.normalise import Normaliser

EXAMPLES = 4
QUANTILES = (0.05, 0.25, 0.75, 0.95)
# What a reader wants to see first.
ORDER = ("start-up", "steady", "stop", "idle")
_DIGITS = 6


def example_forecasts(forecaster: Forecaster, data: EvaluationSet, count: int = EXAMPLES) -> list[dict[str, Any]]:
    """One window for each regime in turn, each from another run where possible, with history, truth and forecast."""
    chosen = choose_windows(data, count)
    if not chosen:
        return []
    batch = data.windows.batch(torch.tensor([number for number, _ in chosen]).to(data.windows.last_W.device))
    with torch.no_grad():
        forecast = forecaster.predict(batch)
    location, scale = (
        torch.from_numpy(np.array(values)) for values in (data.normaliser.sensor_location, data.normaliser.sensor_scale)
    )
    physical = forecast.rescaled(location, scale)
    return [_example(data, physical[row], number, regime) for row, (number, regime) in enumerate(chosen)]


def choose_windows(data: EvaluationSet, count: int) -> list[tuple[int, str]]:
    """Window numbers with their regimes: changes a third into the plan, elsewhere a plan of ordinary liveliness."""
    regime_W, merit_W = _merits(data)
    run_W = data.run_W.numpy()
    uses = np.zeros(len(data.runs), dtype=int)
    free_W = np.ones(len(regime_W), dtype=bool)
    chosen: list[tuple[int, str]] = []
    while len(chosen) < min(count, len(regime_W)):
        for regime in ORDER:
            mine = np.flatnonzero(free_W & (regime_W == REGIMES.index(regime)))
            if not len(mine) or len(chosen) == count:
                continue
            # Runs shown least come first, then the merit, then the earlier window.
            best = int(mine[np.lexsort((mine, -merit_W[mine], uses[run_W[mine]]))[0]])
            chosen.append((best, regime))
            uses[run_W[best]] += 1
            free_W[best] = False
    return chosen


def _merits(data: EvaluationSet) -> tuple[np.ndarray, np.ndarray]:
    """The regime of each window at its longest horizon, and how well its plan shows that regime."""
    windows, steps = data.windows, data.windows.horizons[-1]
    every = tuple(range(1, steps + 1))
    found, merits = [], []
    for part in torch.split(torch.arange(len(windows)), BATCH):
        batch = windows.batch(part.to(windows.last_W.device))
        plan_BSA = torch.cat([batch.a_BKA[:, -1:], batch.future_a_BTA], 1)
        regime_BT = regimes(batch.a_BKA[:, -1], batch.future_a_BTA, every, data.schema, data.normaliser).cpu()
        last_B = regime_BT[:, -1]
        change_B = (regime_BT == last_B[:, None]).double().argmax(1)
        moving = (last_B == REGIMES.index("start-up")) | (last_B == REGIMES.index("stop"))
        liveliness_B = plan_BSA.diff(dim=1).abs().sum((1, 2)).double().cpu()
        found.append(last_B)
        merits.append(torch.where(moving, -(change_B - steps / 3.0).abs(), liveliness_B))
    regime_W, merit_W = torch.cat(found).numpy(), torch.cat(merits).numpy()
    for regime in ("steady", "idle"):
        mine = regime_W == REGIMES.index(regime)
        if mine.any():
            merit_W[mine] = -np.abs(merit_W[mine] - np.median(merit_W[mine]))
    return regime_W, merit_W


def _example(data: EvaluationSet, forecast: Distribution, number: int, regime: str) -> dict[str, Any]:
    """One window (H, C) with its history and what really followed."""
    windows, schema = data.windows, data.schema
    last, steps = int(windows.last_W[number]), windows.horizons[-1]
    rows = slice(last - windows.context + 1, last + steps + 1)
    location, scale = data.normaliser.sensor_location, data.normaliser.sensor_scale
    present_NC = windows.m_NC[rows].cpu().numpy()
    values_NC = windows.x_NC[rows].cpu().double().numpy() * scale + location
    values_NC = np.where(present_NC, values_NC, np.nan)
    commands_NA = data.normaliser.inverse_commands(windows.a_NA[rows].cpu().double().numpy())
    levels = QUANTILES if forecast.has_intervals else ()
    median_HC, *edges = forecast.quantiles((0.5, *levels))
    context, mean_HC = windows.context, forecast.mean
    channels = {}
    for position, channel in enumerate(schema.sensors):
        if not present_NC[:, position].any():
            continue
        channels[channel.name] = {
            "unit": channel.unit,
            "history": _rounded(values_NC[:context, position]),
            "truth": _rounded(values_NC[context:, position]),
            "mean": _rounded(mean_HC[:, position]),
            "median": _rounded(median_HC[:, position]),
            "quantiles": {
                f"{level:g}": _rounded(edge_HC[:, position]) for level, edge_HC in zip(levels, edges, strict=True)
            },
        }
    return {
        "regime": regime,
        "run": data.runs[int(data.run_W[number])],
        "window": number,
        "steps": {
            "history": list(range(1 - context, 1)),
            "truth": list(range(1, steps + 1)),
            "forecast": list(windows.horizons),
        },
        "channels": channels,
        "commands": {
            command.name: {
                "unit": command.unit,
                "before": _rounded(commands_NA[:context, position]),
                "after": _rounded(commands_NA[context:, position]),
            }
            for position, command in enumerate(schema.commands)
        },
    }


def _rounded(values: np.ndarray | Tensor) -> list[float | None]:
    """Six digits that matter; what is absent or infinite becomes null."""
    return [float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None for value in values.tolist()]


Suite = Literal["standard", "full"]
COMMAND_WINDOWS = 512

# What a simulator says of forecasts under changed plans, from the forecaster and the space of the evaluation.
ChangedPlans = Callable[[WorldModelForecaster, Normaliser], dict[str, Any]]


@dataclass(frozen=True)
class JudgedModel:
    """A model to be judged, and the windows in its own z-space."""

    forecaster: Forecaster
    data: EvaluationSet

    @property
    def name(self) -> str:
        return self.forecaster.name


def judge(
    models: Sequence[JudgedModel], naive: Sequence[NaiveForecaster], period: float, suite: Suite = "standard"
) -> Evaluation:
    """Score models and naive baselines on the same windows; commands and robustness are probed for the models alone.

    A forecaster that returns NaN is left out with its reason and the others go on.
    """
    data = _common_windows(models)
    kept = {one.name: KeptForecasts(data.sample(COMMAND_WINDOWS)) for one in models}
    # Conformal layers alone need every forecast kept.
    records = {one.name: ForecastRecorder(one.data.windows) for one in models} if suite == "full" else {}
    scores: dict[str, Scores] = {}
    excluded: dict[str, str] = {}
    for one in [*models, *(JudgedModel(one, data) for one in naive)]:
        try:
            listening = [listener[one.name] for listener in (kept, records) if one.name in listener]
            scores[one.name] = score_windows(one.forecaster, one.data, on_forecast=listening)
        except ForecastError as error:
            excluded[one.name] = error.found
            console().print(f"[yellow]warning:[/] {error.found} It is left out.")
    judged = [one for one in models if one.name in scores]
    rmse_by_run = {name: found.run_rmse() for name, found in scores.items()}
    full = _full_suite(judged, scores, records) if suite == "full" else {}
    return Evaluation(
        windows=len(data.windows),
        runs=data.runs,
        scores={name: found.metrics() for name, found in scores.items()},
        intervals={name: headline_intervals(found) for name, found in scores.items()},
        by_horizon={name: found.by("horizon") for name, found in scores.items()},
        by_regime={name: found.by("regime") for name, found in scores.items()},
        by_run={name: found.by("run") for name, found in scores.items()},
        by_channel={name: channel_scores(found, data) for name, found in scores.items()},
        calibration={name: calibration_by_regime(found) for name, found in scores.items() if found.has_intervals},
        command_use={one.name: command_use(one.forecaster, one.data, kept=kept[one.name]) for one in judged},
        examples={one.name: example_forecasts(one.forecaster, one.data) for one in judged},
        comparisons=tuple(tuple(paired_tests(rmse_by_run, one.name)) for one in judged),
        power=tuple(power_table(units=sorted({3, 5, 7, len(data.runs)}))),
        excluded=excluded,
        unit=data.unit,
        period=period,
        space=data.space.hash(),
        window_hash=data.windows.hash(),
        naive_have_spread=any(one.fitted for one in naive),
        **full,
    )


def _common_windows(models: Sequence[JudgedModel]) -> EvaluationSet:
    """The windows of the first model, after making sure that everybody else reads the same rows."""
    if not models:
        raise ConfigError("No model was given to evaluate.", expected="at least one model")
    first, *others = models
    for other in others:
        if other.data.windows.hash() != first.data.windows.hash():
            raise ConfigError(
                f"Model '{other.name}' reads other windows than '{first.name}'.",
                expected="one context and one set of horizons for all models of an evaluation",
            )
    return first.data


def _full_suite(
    judged: Sequence[JudgedModel], scores: dict[str, Scores], records: dict[str, ForecastRecorder]
) -> dict[str, Any]:
    """Broken, missing and slower sensors, and what conformal layers would mend."""
    probes = {one.name: Probe.of(one.forecaster, one.data) for one in judged}
    return {
        "robustness": {name: plain(robustness(probe)) for name, probe in probes.items()},
        "slower_logging": {name: plain(slower_logging(probe)) for name, probe in probes.items()},
        "channel_curve": {name: plain(channel_curve(probe)) for name, probe in probes.items()},
        "conformal": {one.name: conformal_coverage(records[one.name], scores[one.name], one.data) for one in judged},
    }


def evaluate(
    model: AnyModel, table: Table | Path | str, source: Table | Path | str | Sequence[Table | Path | str] = (), *,
    part: Side = "auto", suite: Suite = "standard", unit: Unit | None = None, changed_plans: ChangedPlans | None = None,
    new_sensors: bool = False, out: Path | str | None = None, device: str = "auto",
) -> Evaluation:  # fmt: skip
    """Judge a model on a table beside its naive baselines; the result prints the verdict on every channel first.

    Of a table the model was trained on the test side counts (`part` names another), of any other all of it. `source`:
    tables it was trained on, which give the naive baselines their spread. `suite="full"` adds robustness.
    `new_sensors` judges sensors that the model never met as well, where it began with fleet. The result has
    `verdict()`, `to_pandas(by="channel")`, `plot()` and every number; with `out`, evaluation.json is written there.
    `changed_plans` compares the forecasts with what a machine does under other commands, where somebody knows that.

    Examples:
        >>> import crossfeed as cf
        >>> result = cf.evaluate("run", "b.parquet", source="a.parquet")
        >>> [one.channel for one in result.verdict().channels]
        ['spindle_current', 'spindle_torque', 'spindle_power', 'z_current']
        >>> "trust" in result.to_polars().columns
        True
    """
    opened, file = as_opened(model, device), Path(table).name if isinstance(table, Path | str) else ""
    schema = opened.model.schema
    sources = [as_table(one, schema, "source") for one in (several(source) if source not in ((), []) else [])]
    table = as_table(table, schema)
    opened = opened.fitted_to(table)
    if new_sensors:
        opened = opened.with_sensors_of(table)
        if left := sensors_not_read(opened.model, table):
            raise ConfigError(
                f"The model cannot read {', '.join(left)}: it knows its sensors by name, or the beginnings of the runs "
                "do not show them.",
                expected="a model that began with fleet, and sensors that show something in the first rows",
                remedy="Leave --new-sensors away, or train with --pretrained fleet.",
            )
    setup = set_up(opened, table, part, sources, unit)
    forecaster = opened.forecaster.reading(setup.data.windows)
    result = replace(
        judge([JudgedModel(forecaster, setup.data)], setup.naive, table.period, suite),
        model=ModelFacts(opened.path.name, forecaster.name, opened.sha256),
        table=TableFacts(file, table.fingerprint(), tuple(table.machines())),
        part=setup.part,
        trained_on_this_table=opened.trained_on(table),
        absent_commands=opened.misses(table),
        sensors_not_read=sensors_not_read(opened.model, table),
        counterfactual=None if changed_plans is None else changed_plans(forecaster, setup.data.space),
    )
    if out is not None:
        result.write(out)
    return result


def evaluate_target(
    models: Mapping[str, tuple[WorldModel, RunConfig]], sources: Sequence[Table], targets: Sequence[Table]
) -> Evaluation:
    """Score every model of a study once, on machines nobody trained on; naive baselines are fitted on the source."""
    if not models:
        raise ConfigError("No model was given to evaluate on the target.")
    first, config = next(iter(models.values()))
    source = SourceData.of(sources, config.data)
    judged = []
    for name, (model, _) in models.items():
        data = foreign_set(model, targets, source.space)
        judged.append(JudgedModel(WorldModelForecaster(model, name).reading(data.windows), data))
    return judge(judged, source.naive_baselines(first), targets[0].period)
