"""What a model file says about itself: sizes, channels, normaliser, provenance, hashes."""

from collections import Counter
from pathlib import Path
from typing import Any

from crossfeed.atomic import file_hash
from crossfeed.configuration import leaves
from crossfeed.model.locate import locate_model
from crossfeed.model.model_file import ModelFile, read_model_file


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
