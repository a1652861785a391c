"""What a model file says about itself: sizes, channels, normaliser, provenance, hashes."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from crossfeed.configuration import leaves
from crossfeed.model.locate import locate_model
from crossfeed.model.model_file import read_model_file


def describe(path: Path | str) -> dict[str, Any]:
    """The verified contents of a model file as plain data."""
    path = locate_model(path)
    file = read_model_file(path)
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
        parameters[parts[2] if parts[0] == "members" else parts[0]] += tensor.numel()
    return {
        "path": str(path),
        "schema": file.schema.name,
        "channels": channels,
        "normaliser": {"method": normaliser.method, "unseen": normaliser.unseen, "fitted_on": normaliser.fitted_on},
        "config": leaves(file.config),
        "parameters": dict(parameters),
        "provenance": file.provenance,
        "hashes": {
            "content": file.sha256,
            "file": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
            "schema": file.schema.fingerprint,
            "normaliser": normaliser.hash(),
        },
    }


def print_description(description: dict[str, Any], as_json: bool = False) -> None:
    """Print a description as tables, or whole as JSON."""
    from rich.table import Table

    from crossfeed.progress import output

    if as_json:
        print(json.dumps(description, indent=2, ensure_ascii=False))
        return
    console = output()
    channels = Table(title=f"{description['path']}: channels of the schema '{description['schema']}'")
    for title in ("channel", "kind", "quantity", "unit"):
        channels.add_column(title)
    for title in ("train mean", "scale"):
        channels.add_column(title, justify="right")
    for channel in description["channels"]:
        texts = [channel[name] for name in ("name", "kind", "quantity", "unit")]
        channels.add_row(*texts, *(f"{channel[name]:.4g}" for name in ("location", "scale")))
    console.print(channels)
    provenance = dict(description["provenance"])
    run = leaves(provenance.pop("config", {}))
    parameters = description["parameters"]
    facts = {
        "parameters": {"all": f"{sum(parameters.values()):,}", **{name: f"{n:,}" for name, n in parameters.items()}},
        "model": description["config"],
        "training and data": {name: value for name, value in run.items() if name.startswith(("training.", "data."))},
        "normaliser": description["normaliser"],
        "provenance": leaves(provenance),
        "hashes": description["hashes"],
    }
    for title, values in facts.items():
        table = Table(title=title, show_header=False, title_justify="left", min_width=60)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for name, value in values.items():
            table.add_row(name, _text(value))
        console.print(table)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
