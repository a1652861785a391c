"""The loss terms of fixed validation batches, summed on the device; on a GPU one batch is captured and replayed.

B windows, H horizons, D latent width, T loss terms.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crossfeed.model.interface import Stage, Views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.devices.acceleration import CapturedStep, autocast
from crossfeed.training.measure import PROTOCOL_SEED
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.corrupt import schema_view, validation_masks
from crossfeed.windows.windows import WindowBatch, WindowSet


class LossPass:
    """Masks that depend on the window alone, both views, all terms of a stage, and the scale-free latent error."""

    def __init__(
        self, model: WorldModel, windows: WindowSet, config: RunConfig, stage: Stage, precision: str, captured: bool
    ) -> None:
        self.model, self.windows, self.config, self.stage, self.precision = model, windows, config, stage, precision
        self.names = tuple(config.objectives.active(stage))
        self.device = windows.last_W.device
        self._index_B = torch.zeros(0, dtype=torch.long, device=self.device)
        self._sum_T = torch.zeros(len(self.names), dtype=torch.float64, device=self.device)
        self._ratio = ErrorOverVariance()
        self._draws = torch.Generator(device=self.device)
        self._batch: Callable[[], None] = CapturedStep(self._add, (self._draws,)) if captured else self._add

    @torch.no_grad()
    def __call__(self, parts: Sequence[Tensor]) -> tuple[dict[str, float], float]:
        """Mean terms over batches of one size, and squared latent error over the variance of the target latents."""
        if not len(self._index_B):
            self._index_B = torch.zeros_like(parts[0])
        self._sum_T.zero_()
        self._ratio.clear()
        self._draws.manual_seed(PROTOCOL_SEED)
        for index_B in parts:
            self._index_B.copy_(index_B)
            self._batch()
        means = dict(zip(self.names, (self._sum_T / len(parts)).tolist(), strict=True))
        return means, self._ratio.value()

    def _views(self, batch: WindowBatch) -> Views:
        m_BKC = validation_masks(batch.x_BKC, batch.m_BKC, batch.last_index_B, self.config.masks, PROTOCOL_SEED)
        return Views(m_BKC, schema_view(m_BKC, self.config.latents.schema_keep, self._draws))

    def _add(self) -> None:
        batch = self.windows.batch(self._index_B)
        views = self._views(batch)
        with autocast(self.precision, self.device):
            terms, predicted_BHD, target_BHD = self.model.losses(batch, views, self.stage, self.config.latents)
        assert predicted_BHD is not None
        assert target_BHD is not None
        self._sum_T.add_(torch.stack([terms[name] for name in self.names]))
        self._ratio.add(predicted_BHD, target_BHD, batch.future_m_BHC.any(-1))


class ErrorOverVariance:
    """Squared latent error divided by the variance of the target latents: 1 is a constant guess, at any scale."""

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def clear(self) -> None:
        """Begin anew, in the same memory."""
        if self._sums:
            torch._foreach_zero_(self._sums)

    def add(self, predicted_BHD: Tensor, target_BHD: Tensor, measured_BH: Tensor) -> None:
        """Take one batch into account."""
        weight_BH1 = measured_BH.double().unsqueeze(-1)
        target_BHD = target_BHD.double()
        error = (weight_BH1 * (predicted_BHD.double() - target_BHD).square()).sum()
        parts = [weight_BH1.sum(0), (weight_BH1 * target_BHD).sum(0), (weight_BH1 * target_BHD.square()).sum(0), error]
        if not self._sums:
            self._sums = [torch.zeros_like(part) for part in parts]
        torch._foreach_add_(self._sums, parts)

    def value(self) -> float:
        """The ratio over all batches; this reads from the device."""
        count_H1, first_HD, second_HD, error = self._sums
        variance = (second_HD - first_HD.square() / count_H1.clamp(min=1.0)).sum()
        return float(error / variance.clamp(min=torch.finfo(torch.float64).tiny))
