"""Whole windows through the model, batch by batch; on a GPU one batch is captured and replayed.

W windows of the set, B windows of a batch, H horizons, C sensors, D latent width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from crossfeed.model.interface import Latents, Plan, Prediction
from crossfeed.model.world_model import WorldModel
from crossfeed.training.devices.acceleration import CapturedStep, autocast
from crossfeed.windows.windows import WindowBatch, WindowSet


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model makes of a batch without masks, and what really followed; the next batch may overwrite it."""

    prediction: Prediction
    future_x_BHC: Tensor
    future_m_BHC: Tensor
    latents: Latents | None
    """Where they were asked for, of a network that compares them."""

    def first(self, count: int) -> "Reading":
        """The first windows of the batch."""
        latents = self.latents
        if latents is not None:
            latents = Latents(**{field.name: getattr(latents, field.name)[:count] for field in fields(latents)})
        return Reading(self.prediction[:count], self.future_x_BHC[:count], self.future_m_BHC[:count], latents)


class WindowReader:
    """Reads windows of one set in evaluation mode, `size` at a time.

    `latents` asks for those that the network compares as well; `change` shows the windows otherwise than they are.
    """

    def __init__(
        self,
        model: WorldModel,
        windows: WindowSet,
        precision: str,
        size: int,
        captured: bool,
        latents: bool,
        change: Callable[[WindowBatch], WindowBatch] = lambda batch: batch,
    ) -> None:
        self.model, self.windows, self.precision, self.size, self.latents = model, windows, precision, size, latents
        self._change = change
        self._fixed = windows.last_W.device.type == "cuda"  # one shape for all batches, which is captured once
        self._index_B, self._planned_B = torch.zeros(2, size, dtype=torch.long, device=windows.last_W.device)
        self._reading: Reading | None = None
        self._batch: Callable[[], None] = CapturedStep(self._read, ()) if captured else self._read

    @torch.no_grad()
    def __call__(self, index_W: Tensor, planned_W: Tensor | None = None) -> Iterator[Reading]:
        """One reading for each batch; `planned_W` names the windows whose commands are planned, if not their own."""
        self.model.eval()
        planned_W = index_W if planned_W is None else planned_W
        for index_B, planned_B in zip(torch.split(index_W, self.size), torch.split(planned_W, self.size), strict=True):
            count = len(index_B)
            if self._fixed:
                self._index_B[:count], self._planned_B[:count] = index_B, planned_B
            else:
                self._index_B, self._planned_B = index_B, planned_B
            self._batch()
            assert self._reading is not None
            yield self._reading if count == len(self._index_B) else self._reading.first(count)

    def _read(self) -> None:
        batch, planned = self._change(self.windows.batch(self._index_B)), self.windows.batch(self._planned_B)
        model = self.model
        with autocast(self.precision, self._index_B.device):
            context = model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA, pooled=True)
            prediction = model.decode(context, Plan.of(planned, model.horizons))
            latents = model.latents(batch, prediction) if self.latents else None
        self._reading = Reading(prediction, batch.future_x_BHC, batch.future_m_BHC, latents)
