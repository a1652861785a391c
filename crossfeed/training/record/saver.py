"""Saving states of a run; on a GPU they are copied to the host and written while training goes on."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from crossfeed.training.record.checkpoint import TrainingState, save_state


class Saver:
    """Saves states, one after another; `behind` lets the caller go on before a state is on disk.

    A kill then costs the epoch under way and, if its state is still being written, the one before.
    """

    def __init__(self, folder: Path, behind: bool) -> None:
        self.folder, self._behind = folder, behind
        self._host = HostCopies()
        self._best_epoch: int | None = None
        self._writer = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None

    def save(self, state: TrainingState) -> None:
        """Save a state, after the one before is safe on disk."""
        self.wait()
        if not self._behind:
            save_state(self.folder, state)
            return
        best_is_new = state.best.epoch != self._best_epoch
        copied = replace(
            state,
            history=list(state.history),
            model=self._host.copy("model", state.model),
            optimiser=self._host.copy("optimiser", state.optimiser),
            average=self._host.copy("average", state.average),
            best_model=self._host.copy("best", state.best_model) if best_is_new else self._host.last("best"),
        )
        self._best_epoch = state.best.epoch
        self._writing = self._writer.submit(self._write, copied, self._host.arrival())

    def wait(self) -> None:
        """Return when the last state is on disk; what went wrong there is raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, state: TrainingState, arrived: torch.cuda.Event | None) -> None:
        if arrived is not None:
            arrived.synchronize()
        save_state(self.folder, state)


class HostCopies:
    """Copies of tensors in host memory that a GPU can write to by itself; each serves again at the next copy."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, Tensor]] = {}

    def copy(self, part: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Order the copies of a part; they are complete when `arrival` has happened."""
        kept = self._parts.setdefault(part, {})
        for name, tensor in tensors.items():
            if name not in kept:
                kept[name] = torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
            kept[name].copy_(tensor.detach(), non_blocking=True)
        return kept

    def last(self, part: str) -> dict[str, Tensor]:
        """The copies of a part as they were ordered last."""
        return self._parts.get(part, {})

    def arrival(self) -> torch.cuda.Event | None:
        """An event behind all copies ordered so far; None where copying is done at once."""
        if not any(tensor.is_pinned() for part in self._parts.values() for tensor in part.values()):
            return None
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return arrived
