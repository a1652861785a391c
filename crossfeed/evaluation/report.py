"""Everything that is said about some forecasters on one set of windows, as plain data."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from crossfeed.errors import TableError
from crossfeed.evaluation.calibration import calibration
from crossfeed.evaluation.command_use import command_use
from crossfeed.evaluation.conformal import SplitConformal, adaptive_widths, coverage, trace
from crossfeed.evaluation.evaluate import EvaluationSet, evaluate, evaluate_all
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.evaluation.metrics import LEVELS, Metrics, Scores, physical
from crossfeed.evaluation.robustness import channel_curve, robustness, slower_logging
from crossfeed.evaluation.statistics import bootstrap, compare, power_table

Suite = Literal["standard", "full"]
COMMAND_WINDOWS = 2048
CALIBRATION_RUNS = 2


def report(
    forecasters: Sequence[Forecaster], floors: Sequence[Forecaster], data: EvaluationSet, suite: Suite = "standard"
) -> dict[str, Any]:
    """Score forecasters and floors; the probes of commands and robustness are for the forecasters alone."""
    results = evaluate_all([*forecasters, *floors], data)
    judged = [forecaster for forecaster in forecasters if forecaster.name in results.scores]
    content: dict[str, Any] = {
        "windows": len(data.windows),
        "unit": data.unit,
        "runs": list(data.runs),
        "space": data.space.hash(),
        "window_hash": data.windows.hash(),
        "excluded": results.excluded,
        "scores": {name: scores.metrics() for name, scores in results.scores.items()},
        "intervals": {name: intervals(scores) for name, scores in results.scores.items()},
        **{
            f"by_{axis}": {name: scores.by(axis) for name, scores in results.scores.items()}
            for axis in ("horizon", "regime", "run")
        },
        "by_channel": {name: by_channel(scores, data) for name, scores in results.scores.items()},
        "calibration": {name: calibration(scores) for name, scores in results.scores.items() if scores.has_intervals},
        "comparisons": [
            compare({name: scores.run_rmse() for name, scores in results.scores.items()}, forecaster.name)
            for forecaster in judged
        ],
        "power": power_table(units=sorted({3, 5, 7, len(data.runs)})),
        "command_use": {
            forecaster.name: command_use(forecaster, data, data.sample(COMMAND_WINDOWS)) for forecaster in judged
        },
    }
    if suite == "full":
        content["robustness"] = {forecaster.name: robustness(forecaster, data) for forecaster in judged}
        content["slower_logging"] = {forecaster.name: slower_logging(forecaster, data) for forecaster in judged}
        content["channel_curve"] = {forecaster.name: channel_curve(forecaster, data) for forecaster in judged}
        content["conformal"] = {forecaster.name: conformal(forecaster, data) for forecaster in judged}
    return content


def intervals(scores: Scores) -> dict[str, Any]:
    """Run-level bootstrap intervals of the headline metrics."""

    def root_mean(sums: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(sums[:, 0] / sums[:, 1]))

    def mean(sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[:, 0] / sums[:, 1])

    def skill(sums: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(1.0 - np.sqrt(sums[:, 0] / sums[:, 1]))

    found = {
        "rmse": bootstrap(scores.run_sums(("squared", "count")), root_mean),
        "mae": bootstrap(scores.run_sums(("absolute", "count")), mean),
        "crps": bootstrap(scores.run_sums(("crps", "count")), mean),
        "skill_rmse": bootstrap(scores.run_sums(("squared", "persistence_squared")), skill),
    }
    return found | (
        {"coverage90": bootstrap(scores.run_sums(("inside90", "count")), mean)} if scores.has_intervals else {}
    )


def by_channel(scores: Scores, data: EvaluationSet) -> dict[str, Any]:
    """Each channel in evaluation space and in its own unit; a channel that never moves is said to be constant."""
    table = {}
    for channel, metrics in scores.by("channel").items():
        scale = float(data.space.sensor_scale[data.schema.sensor_names.index(channel)])
        unit = data.schema.channel(channel).unit
        table[channel] = {
            **metrics,
            "physical": _physical(metrics, scale),
            "unit": unit,
            "constant": metrics["r2"] is None,
        }
    return table


def _physical(metrics: Metrics, scale: float) -> Metrics:
    chosen = physical(metrics, scale)
    return {name: chosen[name] for name in ("rmse", "mae", "bias", "crps", "nll", "width90")}


def conformal(forecaster: Forecaster, data: EvaluationSet) -> dict[str, Any]:
    """Coverage as it is, after calibrating on the first runs (judged on the others), and tracked while running."""
    stream = trace(forecaster, data.windows, torch.arange(len(data.windows)))
    tracked = coverage(stream, adaptive_widths(stream, data.windows.horizons))
    result: dict[str, Any] = {"adaptive": dict(zip(map(str, LEVELS), tracked.tolist(), strict=True))}
    first = torch.tensor([run < CALIBRATION_RUNS for run in data.run_W.tolist()])
    if len(data.runs) <= CALIBRATION_RUNS or not first.any() or first.all():
        return result | {"split": f"needs more than {CALIBRATION_RUNS} runs"}
    wrapped = SplitConformal(forecaster)
    try:
        wrapped.calibrate(data.windows, first.nonzero()[:, 0])
    except TableError as error:
        return result | {"split": error.found}
    others = (~first).nonzero()[:, 0]
    for name, judged in (("as_is", forecaster), ("split", wrapped)):
        metrics = evaluate(judged, data, others, title=f"Conformal: {name}").metrics()
        result[name] = {
            "calibrated_on": list(data.runs[:CALIBRATION_RUNS]) if name == "split" else [],
            **{key: metrics[key] for key in metrics if key.startswith(("coverage", "width"))},
        }
    return result
