"""What a run found, as plain data for summary.json and the model's provenance, and as a table for people."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from crossfeed.distribution import Point
from crossfeed.training.data import TrainingData
from crossfeed.training.measure.floors import FLOORS
from crossfeed.training.measure.metrics import WEAK_COMMAND_USE, ForecastSums
from crossfeed.training.measure.reading import batches
from crossfeed.training.measure.validate import Validator
from crossfeed.training.record.history import Row

if TYPE_CHECKING:
    from rich.table import Table as RichTable


def data_facts(data: TrainingData) -> dict[str, Any]:
    """Which rows and windows the run saw, by hash."""
    return {
        "split": [split.hash() for split in data.source.splits],
        "split_seed": [split.seed for split in data.source.splits],
        "normaliser": data.normaliser.hash(),
        "fitted_on": data.normaliser.fitted_on,
        "machines": list(data.train.machines),
        "row_period": data.period,
        "command_range": _command_range(data),
        "windows": {
            part: {"count": len(windows), "hash": windows.hash()}
            for part, windows in (("train", data.train), ("validation", data.validation))
        },
    }


def _command_range(data: TrainingData) -> dict[str, list[float]]:
    """Lowest and highest value of every command in the train rows: forecasts under other plans are guesses."""
    extremes = torch.stack([data.train.a_NA.amin(0), data.train.a_NA.amax(0)]).cpu().double().numpy()
    low_high = data.normaliser.inverse_commands(extremes).T.tolist()
    return dict(zip(data.schema.command_names, low_high, strict=True))


def stage_facts(history: Sequence[Row]) -> dict[str, Any]:
    """For each stage: epochs run, the epoch kept, its score, probe and health."""
    facts = {}
    for stage in dict.fromkeys(row["stage"] for row in history):
        rows = [row for row in history if row["stage"] == stage]
        kept = rows[rows[-1]["best_epoch"]]
        facts[stage] = {
            "epochs": len(rows),
            "best_epoch": kept["epoch"],
            "score": kept["score"],
            "probe_r2": kept.get("probe_r2"),
            **{f"{side}_rank": kept.get(f"{side}_rank") for side in ("context", "target", "predicted")},
            "collapse": kept["collapse"],
            "seconds": sum(row["train_seconds"] + row["validation_seconds"] for row in rows),
        }
    return facts


def validation_facts(validator: Validator) -> dict[str, Any]:
    """The model's errors beside those of the floors and of shuffled commands, all on the same windows."""
    model = validator.forecast()
    shuffled = validator.forecast(shuffle_commands=True)
    ratio = shuffled.rmse / model.rmse
    return {
        "windows": len(validator.windows_W),
        "model": asdict(model),
        **{name: asdict(_floor(validator, name)) for name in FLOORS},
        "shuffled commands": asdict(shuffled),
        "shuffled_command_ratio": ratio,
        "weak_command_use": ratio < WEAK_COMMAND_USE,
        "by_machine": _by_machine(validator),
    }


def _by_machine(validator: Validator) -> dict[str, Any]:
    """Errors of each machine on its own, where there are several: a mean can hide one that is not understood."""
    machines = validator.validation.machines
    if len(machines) < 2:
        return {}
    counts = {machine: len(validator.windows_of(machine)) for machine in machines}
    return {
        machine: {"windows": count, **asdict(validator.forecast(machine=machine))}
        for machine, count in counts.items()
        if count
    }


@torch.no_grad()
def _floor(validator: Validator, name: str) -> Any:
    model = validator.model
    sums = ForecastSums(model.horizons, model.schema.sensor_names, validator.device)
    for index_B in batches(validator.windows_W, validator.config.training.batch_size):
        batch = validator.validation.batch(index_B)
        said = Point(FLOORS[name](batch.x_BKC, batch.m_BKC, model.horizons))
        sums.add(batch.future_x_BHC, batch.future_m_BHC, said)
    return sums.scores()


def print_summary(summary: dict[str, Any], model: Path, as_json: bool = False) -> None:
    """Print the headline of a run and where its model lies, or the whole summary as JSON."""
    from crossfeed.progress import output

    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    console = output()
    console.print(summary_table(summary))
    for line in (*summary_lines(summary), f"model: {model}"):
        console.print(line, markup=False, soft_wrap=True)


def summary_table(summary: dict[str, Any]) -> "RichTable":
    """The headline of a run: the model and its floors on source validation."""
    from rich.table import Table as RichTable

    validation = summary["validation"]
    named = {"crossfeed": "model", **{name: name for name in (*FLOORS, "shuffled commands")}}
    table = RichTable(title=f"Source validation, {validation['windows']} windows, z-space")
    table.add_column("")
    for title in named:
        table.add_column(title, justify="right")
    for title, *path in _metrics(validation["model"]["rmse_by_horizon"]):
        values = [_look_up(validation[name], path) for name in named.values()]
        table.add_row(title, *("-" if value is None else f"{value:.3f}" for value in values))
    return table


def _metrics(horizons: dict[Any, Any]) -> list[tuple[Any, ...]]:
    """Titles of the rows and where their numbers lie."""
    by_horizon = [(f"RMSE, {horizon} ahead", "rmse_by_horizon", horizon) for horizon in horizons]
    soft = [("NLL", "nll"), ("CRPS", "crps"), ("coverage of 90 %", "coverage90")]
    return [("RMSE", "rmse"), ("MAE", "mae"), *by_horizon, *soft]


def _look_up(scores: dict[str, Any], path: Sequence[Any]) -> float | None:
    found: Any = scores
    for name in path:
        found = found[name]
    value: float | None = found
    return value


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """What else to know about the run, one remark a line."""
    lines = []
    for stage, facts in summary["stages"].items():
        line = f"{stage}: epoch {facts['best_epoch'] + 1} of {facts['epochs']} kept, score {facts['score']:.4g}, "
        if facts["target_rank"] is not None:
            line += f"rank of context {facts['context_rank']:.0%}, target {facts['target_rank']:.0%}, "
            line += f"predicted {facts['predicted_rank']:.0%}, ridge probe R2 {facts['probe_r2']:.3f}, "
        lines.append(f"{line}{facts['seconds']:.0f} s")
        if facts["collapse"]:
            lines.append(f"{stage}: latents collapsed ({facts['collapse']})")
    validation = summary["validation"]
    for machine, scores in validation["by_machine"].items():
        lines.append(f"{machine}: RMSE {scores['rmse']:.3f} on {scores['windows']} validation windows")
    weak = ", below 1.02: the model hardly uses the commands" if validation["weak_command_use"] else ""
    lines.append(f"shuffled commands cost a factor of {validation['shuffled_command_ratio']:.3f} in RMSE{weak}")
    return lines
