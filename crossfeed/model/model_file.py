"""One file holds a model: safetensors with configuration, schema, normaliser, provenance and hashes in its metadata.

Reading is strict. Nothing in the file is executed, every part is checked against its hash before it is used, and a
part that was changed is named.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from crossfeed.errors import CheckpointError, CrossfeedError
from crossfeed.files import __version__, atomic_file
from crossfeed.model.config import JepaConfig, SensorConfig, parse_model
from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser

FORMAT = "crossfeed-model/1"
MODEL, FLEET = "model.safetensors", "fleet"
# What training writes besides the model, and never what somebody means who names the folder.
_BESIDES = ("pretrained.safetensors",)
_TEXTS = ("config", "schema", "normaliser", "provenance")
_REMEDY = "Restore the file from where it was made, or train again."


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model file's verified contents."""

    path: Path
    config: SensorConfig | JepaConfig
    schema: Schema
    normaliser: Normaliser
    provenance: dict[str, Any]
    tensors: dict[str, Tensor]
    sha256: str


def write_model_file(
    path: Path | str,
    config: SensorConfig | JepaConfig,
    schema: Schema,
    normaliser: Normaliser,
    tensors: dict[str, Tensor],
    provenance: dict[str, Any],
) -> str:
    """Write a model file whole or not at all; returns its content hash."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    texts = {
        "config": config.model_dump_json(),
        "schema": schema.model_dump_json(),
        "normaliser": normaliser.to_json(),
        "provenance": json.dumps({"code_version": __version__, **provenance}, sort_keys=True, ensure_ascii=False),
    }
    digests = _digests(texts, stored)
    content_hash = _content_hash(digests)
    metadata = {"format": FORMAT, **texts, "digests": json.dumps(digests), "sha256": content_hash}
    with atomic_file(path) as temporary:
        temporary.write_bytes(safetensors.torch.save(stored, metadata))
    return content_hash


def read_model_file(path: Path | str, schema: Schema | None = None) -> ModelFile:
    """Read and verify a model file; with `schema`, also that the model speaks exactly about its channels in order."""
    path = Path(path)
    metadata, tensors = _open(path)
    if metadata.get("format") != FORMAT or not {*_TEXTS, "digests", "sha256"} <= metadata.keys():
        raise CheckpointError(
            f"{path} is not a crossfeed model file (its format is '{metadata.get('format', 'unknown')}').",
            expected=f"a file of the format '{FORMAT}' made by crossfeed {__version__}",
        )
    _verify(path, metadata, tensors)
    try:
        config = parse_model(json.loads(metadata["config"]), f"The configuration in {path}")
        stored_schema = Schema.from_mapping(json.loads(metadata["schema"]), f"The schema in {path}")
        normaliser = Normaliser.from_json(metadata["normaliser"])
    except CrossfeedError as error:
        raise CheckpointError(f"{path} cannot be understood: {error}", remedy=_REMEDY) from error
    names = (stored_schema.sensor_names, stored_schema.command_names)
    if (normaliser.sensor_names, normaliser.command_names) != names:
        raise CheckpointError(f"In {path} the normaliser and the schema name other channels.", remedy=_REMEDY)
    if schema is not None:
        _check_schema(path, stored_schema, schema)
    provenance = json.loads(metadata["provenance"])
    return ModelFile(path, config, stored_schema, normaliser, provenance, tensors, metadata["sha256"])


def check_tensors(path: Path | str, found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """Refuse a file that lacks a tensor, brings an unknown one, or holds one of another shape, type or no number."""
    missing, unexpected = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    wrong = [
        f"{name} is {tuple(found[name].shape)} {found[name].dtype}, not {tuple(tensor.shape)} {tensor.dtype}"
        for name, tensor in wanted.items()
        if name in found and (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype)
    ]
    broken = [
        f"{name} holds values that are no numbers"
        for name, tensor in found.items()
        if tensor.is_floating_point() and not bool(tensor.isfinite().all())
    ]
    problems = [f"{name} is missing" for name in missing] + [f"{name} is unexpected" for name in unexpected]
    if problems := problems + wrong + broken:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        raise CheckpointError(f"The tensors in {path} do not fit its configuration: {shown}.", remedy=_REMEDY)


def _open(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no model file {path}.", remedy="Check the path.") from error
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path} cannot be read as a model file: {error}", expected="an undamaged model.safetensors", remedy=_REMEDY
        ) from error


def _verify(path: Path, metadata: dict[str, str], tensors: dict[str, Tensor]) -> None:
    digests = _digests({name: metadata[name] for name in _TEXTS}, tensors)
    try:
        recorded = json.loads(metadata["digests"])
    except ValueError:
        recorded = None
    if not isinstance(recorded, dict) or _content_hash(recorded) != metadata["sha256"]:
        raise CheckpointError(f"The hashes in {path} were changed.", remedy=_REMEDY)
    changed = [name for name in digests if recorded.get(name) != digests[name]]
    if changed:
        raise CheckpointError(
            f"These parts of {path} were changed after it was written: {', '.join(changed)}.",
            expected=f"the content with SHA-256 {metadata['sha256']}",
            remedy=_REMEDY,
        )


def _check_schema(path: Path, stored: Schema, wanted: Schema) -> None:
    for kind, found, expected in (
        ("sensors", stored.sensor_names, wanted.sensor_names),
        ("commands", stored.command_names, wanted.command_names),
    ):
        if found != expected:
            order = " in another order" if sorted(found) == sorted(expected) else ""
            raise CheckpointError(
                f"The model in {path} has the {kind} {', '.join(found)}.",
                expected=f"{', '.join(expected)}: other {kind}"
                if not order
                else f"the same{order}: {', '.join(expected)}",
                remedy="Prepare the data with the model's own schema; its order of channels is fixed.",
            )
    if stored.fingerprint != wanted.fingerprint:
        raise CheckpointError(
            f"The model in {path} knows the same channels with other quantities or units.",
            remedy="Prepare the data with the model's own schema.",
        )


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of all tensors by name, type, shape and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _digests(texts: dict[str, str], tensors: dict[str, Tensor]) -> dict[str, str]:
    """SHA-256 of each text and of the tensors."""
    of_texts = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    return of_texts | {"tensors": tensors_digest(tensors)}


def _content_hash(digests: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def locate_model(path: Path | str) -> Path:
    """The model file itself, the only one in the folder of a run or an adaptation, or `fleet`, which we ship."""
    path = Path(path)
    if str(path) == FLEET and not path.exists():
        return Path(str(files("crossfeed") / "model" / "fleet.safetensors"))
    if not path.is_dir():
        return path
    if (path / MODEL).is_file():
        return path / MODEL
    found = sorted(file for file in path.glob("*.safetensors") if file.name not in _BESIDES)
    if len(found) == 1:
        return found[0]
    raise CheckpointError(
        f"{path} holds {len(found)} models: {', '.join(file.name for file in found)}."
        if found
        else f"There is no model in the folder {path}.",
        expected=f"a model file, or a folder with {MODEL} or one adapted model in it",
        remedy="Name one of the files."
        if found
        else "Check the path, or finish the run with crossfeed train --resume.",
    )
