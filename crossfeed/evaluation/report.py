"""Everything that is said about some forecasters on one set of windows, as plain data."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from crossfeed.errors import TableError
from crossfeed.evaluation.calibration import calibration
from crossfeed.evaluation.command_use import command_use
from crossfeed.evaluation.conformal import Recorder, adaptive_widths, coverage, split_widths
from crossfeed.evaluation.evaluate import EvaluationSet, evaluate_all
from crossfeed.evaluation.examples import example_forecasts
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.evaluation.metrics import LEVELS, Metrics, Scores, physical
from crossfeed.evaluation.robustness import Probe, channel_curve, robustness, slower_logging
from crossfeed.evaluation.statistics import bootstrap, compare, power_table

Suite = Literal["standard", "full"]
COMMAND_WINDOWS = 1024
CALIBRATION_RUNS = 2
# What decides, channel by channel, whether a forecast may be trusted.
JUDGED = ("skill_rmse", "coverage90")


def report(
    forecasters: Sequence[Forecaster], floors: Sequence[Forecaster], data: EvaluationSet, suite: Suite = "standard"
) -> dict[str, Any]:
    """Score forecasters and floors; the probes of commands and robustness are for the forecasters alone."""
    records = {forecaster.name: Recorder(data.windows) for forecaster in forecasters}
    results = evaluate_all([*forecasters, *floors], data, records)
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
        "calibration": {name: reliability(scores) for name, scores in results.scores.items() if scores.has_intervals},
        "comparisons": [
            compare({name: scores.run_rmse() for name, scores in results.scores.items()}, forecaster.name)
            for forecaster in judged
        ],
        "power": power_table(units=sorted({3, 5, 7, len(data.runs)})),
        "command_use": {
            forecaster.name: command_use(forecaster, data, data.sample(COMMAND_WINDOWS)) for forecaster in judged
        },
        "examples": {forecaster.name: example_forecasts(forecaster, data) for forecaster in judged},
    }
    if suite == "full":
        for forecaster in judged:
            name, probe = forecaster.name, Probe.of(forecaster, data)
            content.setdefault("robustness", {})[name] = robustness(probe)
            content.setdefault("slower_logging", {})[name] = slower_logging(probe)
            content.setdefault("channel_curve", {})[name] = channel_curve(probe)
            content.setdefault("conformal", {})[name] = conformal(records[name], results.scores[name], data)
    return content


def intervals(scores: Scores, **choice: Sequence[str | int]) -> dict[str, Any]:
    """Run-level bootstrap intervals of the headline metrics, over everything or over the chosen labels."""

    def root_mean(sums: np.ndarray) -> np.ndarray:
        return np.asarray(np.sqrt(sums[:, 0] / sums[:, 1]))

    def mean(sums: np.ndarray) -> np.ndarray:
        return np.asarray(sums[:, 0] / sums[:, 1])

    def skill(sums: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(1.0 - np.sqrt(sums[:, 0] / sums[:, 1]))

    found = {
        "rmse": bootstrap(scores.run_sums(("squared", "count"), **choice), root_mean),
        "mae": bootstrap(scores.run_sums(("absolute", "count"), **choice), mean),
        "crps": bootstrap(scores.run_sums(("crps", "count"), **choice), mean),
        "skill_rmse": bootstrap(scores.run_sums(("squared", "persistence_squared"), **choice), skill),
    }
    return found | (
        {"coverage90": bootstrap(scores.run_sums(("inside90", "count"), **choice), mean)}
        if scores.has_intervals
        else {}
    )


def by_channel(scores: Scores, data: EvaluationSet) -> dict[str, Any]:
    """Each channel in evaluation space and in its own unit; a channel that never moves is said to be constant."""
    table = {}
    for channel, metrics in scores.by("channel").items():
        scale = float(data.space.sensor_scale[data.schema.sensor_names.index(channel)])
        unit = data.schema.channel(channel).unit
        found = intervals(scores, channel=[channel])
        table[channel] = {
            **metrics,
            "physical": _physical(metrics, scale),
            "unit": unit,
            "constant": metrics["r2"] is None,
            "intervals": {name: found[name] for name in JUDGED if name in found},
        }
    return table


def reliability(scores: Scores) -> dict[str, Any]:
    """Calibration over everything and in each regime: intervals may be right on average and wrong in every start-up."""
    regimes = {label: calibration(scores, regime=[label]) for label in scores.by("regime")}
    return {**calibration(scores), "by_regime": regimes}


def _physical(metrics: Metrics, scale: float) -> Metrics:
    chosen = physical(metrics, scale)
    return {name: chosen[name] for name in ("rmse", "mae", "bias", "crps", "nll", "width90")}


def conformal(record: Recorder, scores: Scores, data: EvaluationSet) -> dict[str, Any]:
    """Coverage as it is, after calibrating on the first runs (judged on the others), and tracked while running."""
    index, stream = record.trace()
    tracked = coverage(stream, adaptive_widths(stream, data.windows.horizons))
    result: dict[str, Any] = {"adaptive": _by_level(tracked)}
    calibrating = (data.run_W[index] < CALIBRATION_RUNS).numpy()
    if calibrating.all() or not calibrating.any():
        return result | {"split": f"needs windows in the first {CALIBRATION_RUNS} runs and in others"}
    try:
        width_LHC, borrowed = split_widths(stream.scores[calibrating])
    except TableError as error:
        return result | {"split": error.found}
    others = stream.select(~calibrating)
    as_is = scores.metrics(run=data.runs[CALIBRATION_RUNS:])
    return result | {
        "as_is": {f"{level:g}": as_is[f"coverage{100 * level:.0f}"] for level in LEVELS},
        "split": {
            **_by_level(coverage(others, width_LHC[None])),
            "calibrated_on": list(data.runs[:CALIBRATION_RUNS]),
            "borrowed": int(borrowed.sum()),
        },
    }


def _by_level(shares: np.ndarray) -> dict[str, float]:
    return {f"{level:g}": float(share) for level, share in zip(LEVELS, shares, strict=True)}
