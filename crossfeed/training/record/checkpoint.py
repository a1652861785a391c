"""The state of a run after an epoch: enough to go on as if nothing had happened. Safetensors and JSON, no pickle.

The weights of the best epoch lie in a file of their own that is written before the state that names it, and old ones
are removed after it: at every moment the newest complete state on disk finds all it refers to.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from crossfeed.atomic import atomic_file
from crossfeed.errors import CheckpointError
from crossfeed.json_file import CHECKSUM, checksum, verify
from crossfeed.model.model_file import tensors_digest
from crossfeed.training.selection import Best

STATE = "state.safetensors"
_REMEDY = "Start the run again in another folder, or delete the state file to begin anew."


@dataclass(frozen=True)
class TrainingState:
    """Everything that changes during training, after `epoch` finished epochs of `stage`."""

    stage: str
    epoch: int
    best: Best
    history: list[dict[str, Any]]
    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    best_model: dict[str, Tensor]
    average: dict[str, Tensor] = field(default_factory=dict)


def save_state(folder: Path, state: TrainingState) -> None:
    """Write the state so that a kill at any moment leaves either the old or the new one complete."""
    best = folder / f"best-{state.stage}-{state.best.epoch:04d}.safetensors"
    if state.best_model and not best.exists():
        write_tensors(best, state.best_model, {})
    facts = {
        "stage": state.stage,
        "epoch": state.epoch,
        "best": asdict(state.best),
        "best_file": best.name if state.best_model else None,
        "history": state.history,
    }
    tensors = {f"model/{name}": tensor for name, tensor in state.model.items()}
    tensors |= {f"optimiser/{name}": tensor for name, tensor in state.optimiser.items()}
    tensors |= {f"average/{name}": tensor for name, tensor in state.average.items()}
    write_tensors(folder / STATE, tensors, {"crossfeed_state": json.dumps(facts)})
    _remove_best(folder, but=best.name if state.best_model else None)


def load_state(folder: Path, device: torch.device) -> TrainingState | None:
    """The newest complete state of a run folder, or nothing when no epoch was finished yet."""
    path = folder / STATE
    if not path.exists():
        return None
    tensors, metadata = read_tensors(path, device)
    try:
        facts = json.loads(metadata["crossfeed_state"])
        _remove_best(folder, but=facts["best_file"])
        best_model = read_tensors(folder / facts["best_file"], device)[0] if facts["best_file"] else {}
        return TrainingState(
            stage=facts["stage"],
            epoch=facts["epoch"],
            best=Best(**facts["best"]),
            history=facts["history"],
            model=_part(tensors, "model/"),
            optimiser=_part(tensors, "optimiser/"),
            best_model=best_model,
            average=_part(tensors, "average/"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"The training state {path} is not one of ours: {error!r}.", remedy=_REMEDY) from error


def remove_state(folder: Path) -> None:
    """Drop what only a resume would need, once the run has ended well."""
    (folder / STATE).unlink(missing_ok=True)
    _remove_best(folder, but=None)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file whole or not at all, with the hash of all it holds.

    The bytes go through Python so that a full disk is recognised.
    """
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = save(stored, {**metadata, CHECKSUM: _checksum(stored, metadata)})
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def read_tensors(path: Path, device: torch.device) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a safetensors file, on the device, and its metadata, found to be as they were written."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The file {path} cannot be read: {error}.", remedy=_REMEDY) from error
    verify(path, metadata.pop(CHECKSUM, None), _checksum(tensors, metadata), _REMEDY, CheckpointError)
    return {name: tensor.to(device) for name, tensor in tensors.items()}, metadata


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    return checksum(dict(sorted(metadata.items())), [tensors_digest(tensors).encode()])


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Moments and step counters under the names of the parameters they belong to."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{key}": value
        for parameter, entry in optimiser.state.items()
        for key, value in entry.items()
        if isinstance(value, Tensor)
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put moments and step counters back where `optimiser_tensors` found them."""
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        parameter, _, key = name.rpartition("/")
        if parameter not in parameters:
            raise CheckpointError(
                f"The training state holds moments of an unknown tensor '{parameter}'.", remedy=_REMEDY
            )
        state = optimiser.state[parameters[parameter]]
        if key in state:
            state[key].copy_(tensor)
        else:
            state[key] = tensor.clone()


def _remove_best(folder: Path, but: str | None) -> None:
    for best in folder.glob("best-*.safetensors"):
        if best.name != but:
            best.unlink(missing_ok=True)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
