"""The state of a run after an epoch: enough to go on as if nothing had happened. Safetensors and JSON, no pickle.

The weights of the best epoch lie in a file of their own that is written before the state that names it, and old ones
are removed after it: at every moment the newest complete state on disk finds all it refers to.
"""

import json
import math
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from crossfeed.errors import CheckpointError
from crossfeed.files import CHECKSUM, atomic_file, checksum, verify
from crossfeed.model.model_file import tensors_digest


@dataclass(frozen=True, slots=True)
class Best:
    """The best epoch so far by a score where lower is better; patience counts the epochs since."""

    patience: int
    epoch: int = -1
    score: float = math.inf
    waited: int = 0

    def update(self, epoch: int, score: float) -> Self:
        """Take a new epoch's score into account; ties keep the earlier epoch, a score that is no number never wins."""
        if score < self.score:
            return replace(self, epoch=epoch, score=score, waited=0)
        return replace(self, waited=self.waited + 1)

    @property
    def exhausted(self) -> bool:
        """Whether `patience` epochs have gone by without a better one."""
        return self.waited >= self.patience


STATE = "state.safetensors"
_PARTS = ("model", "optimiser", "average")  # of a state, beside the best weights in their own file
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
    tensors = {f"{part}/{name}": tensor for part in _PARTS for name, tensor in getattr(state, part).items()}
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
        parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
        for name, tensor in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = tensor
        return TrainingState(
            stage=facts["stage"],
            epoch=facts["epoch"],
            best=Best(**facts["best"]),
            history=facts["history"],
            best_model=best_model,
            **parts,
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


class Saver:
    """Saves states of a run, one after another; `behind` lets the caller go on before a state is on disk.

    A kill then costs the epoch under way and, if its state is still being written, the one before.
    """

    def __init__(self, folder: Path, behind: bool) -> None:
        self.folder, self._behind = folder, behind
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def save(self, state: TrainingState) -> None:
        """Save a state, after the one before is safe on disk."""
        self.wait()
        if not self._behind:
            save_state(self.folder, state)
            return
        parts: dict[str, Any] = {part: _on_host(getattr(state, part)) for part in (*_PARTS, "best_model")}
        copied = replace(state, history=list(state.history), **parts)
        arrived = None
        if any(tensor.is_cuda for tensor in state.model.values()):
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
        self._writing = self._writer.submit(self._write, copied, arrived)

    def wait(self) -> None:
        """Return when the last state is on disk; what went wrong there is raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, state: TrainingState, arrived: torch.cuda.Event | None) -> None:
        if arrived is not None:
            arrived.synchronize()
        save_state(self.folder, state)


def _on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies in host memory; a GPU writes them by itself, and they are complete when it has come so far."""
    return {name: tensor.detach().to("cpu", non_blocking=True, copy=True) for name, tensor in tensors.items()}
