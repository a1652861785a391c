"""Predictions for many overlapping windows, encoding every row once where that gives the same answer.

N rows, B windows, K context rows, D latent width.
"""

import torch
from torch import Tensor

from crossfeed.model.prediction import Prediction
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.windows import WindowSet


class Sweep:
    """A model over one window set; windows that share rows share their vectors.

    A row's vector depends on the row alone, unless instance normalisation makes it depend on the window. Then every
    window is encoded by itself; channels that no row of the set shows are left out in both cases.
    """

    def __init__(self, model: WorldModel, windows: WindowSet, rows_at_once: int = 2048) -> None:
        self.model, self.windows = model, windows
        self._channels = model.worth_reading(windows.m_NC.any(0))
        self._row_ND = self._encode_rows(rows_at_once) if model.instance_norm.config.kind == "none" else None
        self._context_K = torch.arange(1 - windows.context, 1, device=windows.last_W.device)

    @property
    def rows_are_shared(self) -> bool:
        return self._row_ND is not None

    @torch.inference_mode()
    def predict(self, index_B: Tensor) -> Prediction:
        """What the model says about these windows, without dropout."""
        batch, model = self.windows.batch(index_B), self.model.eval()
        if self._row_ND is None:
            context = model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA, self._channels)
        else:
            row_BKD = self._row_ND[batch.last_index_B[:, None] + self._context_K]
            context = model.encode_sequence(row_BKD, batch.a_BKA, None)
        return model.decode(model.predict(context.z_BD, batch.mean_a_BHA, batch.future_a_BTA), context)

    @torch.inference_mode()
    def _encode_rows(self, rows_at_once: int) -> Tensor:
        self.model.eval()
        x_NC, m_NC = self.windows.x_NC, self.windows.m_NC
        parts = [
            self.model.encode_rows(
                x_NC[None, start : start + rows_at_once], m_NC[None, start : start + rows_at_once], None, self._channels
            )[0]
            for start in range(0, len(x_NC), rows_at_once)
        ]
        return torch.cat(parts)
