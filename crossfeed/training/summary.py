"""What a run found, and what a model file says about itself, as plain data for summary.json and provenance."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from crossfeed.configuration import leaves
from crossfeed.files import __version__, file_hash
from crossfeed.model.distribution import Point
from crossfeed.model.model_file import ModelFile, locate_model, read_model_file
from crossfeed.processes import gains, in_own_command
from crossfeed.training.config import WEAK_COMMAND_USE
from crossfeed.training.data import TrainingData
from crossfeed.training.health import FLOORS
from crossfeed.training.history import Row
from crossfeed.training.reading import ForecastSums
from crossfeed.training.validate import Validator
from crossfeed.windows.frame import usual_scales


def data_facts(data: TrainingData) -> dict[str, Any]:
    """Which rows and windows the run saw, by hash."""
    frames = data.source.frames
    return {
        "split": [split.hash() for split in data.source.splits],
        "split_seed": [split.seed for split in data.source.splits],
        "normaliser": data.normaliser.hash(),
        "fitted_on": data.normaliser.fitted_on,
        "machines": list(data.train.machines),
        **({"row_period": data.period, "command_range": _command_range(data)} if data.period is not None else {}),
        **(
            {"usual_scales": usual_scales(data.schema, [frames[name] for name in data.train.machines])}
            if frames
            else {}
        ),
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
    for index_B in torch.split(validator.windows_W, validator.config.training.batch_size):
        batch = validator.validation.batch(index_B)
        forecast = Point(FLOORS[name](batch.x_BKC, batch.m_BKC, model.horizons))
        sums.add(batch.future_x_BHC, batch.future_m_BHC, forecast)
    return sums.scores()


def environment() -> dict[str, Any]:
    """What a run must find again to repeat its bits."""
    return {
        "crossfeed": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "wide_products": in_own_command() and gains(),
    }


def describe(path: Path | str) -> dict[str, Any]:
    """The verified contents of a model file as plain data."""
    path = locate_model(path)
    contents = describe_contents(read_model_file(path))
    digest = file_hash(Path(path))
    return {"path": str(path), **contents, "hashes": {**contents["hashes"], "file": digest}}


def describe_contents(file: ModelFile) -> dict[str, Any]:
    """What a model is, wherever it lies."""
    normaliser = file.normaliser
    statistics = {
        "sensor": zip(normaliser.sensor_location, normaliser.sensor_scale, strict=True),
        "command": zip(normaliser.command_location, normaliser.command_scale, strict=True),
    }
    channels = [
        {**channel.model_dump(), "kind": kind, "location": float(location), "scale": float(scale)}
        for kind, listed in (("sensor", file.schema.sensors), ("command", file.schema.commands))
        for channel, (location, scale) in zip(listed, statistics[kind], strict=True)
    ]
    parameters = Counter[str]()
    for name, tensor in file.tensors.items():
        parts = name.split(".")
        parameters[parts[1] if parts[0] == "network" else parts[0]] += tensor.numel()
    return {
        "schema": file.schema.name,
        "channels": channels,
        "normaliser": {"method": normaliser.method, "unseen": normaliser.unseen, "fitted_on": normaliser.fitted_on},
        "config": leaves(file.config),
        "parameters": dict(parameters),
        "provenance": file.provenance,
        "hashes": {
            "content": file.sha256,
            "schema": file.schema.fingerprint,
            "normaliser": normaliser.hash(),
        },
    }
