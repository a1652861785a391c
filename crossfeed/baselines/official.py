"""The official PatchTST and iTransformer modules, trained on our windows as in the paper (Appendix E).

All channels are forecast at all steps and trained with squared error; sensors are scored at the horizons.
B windows, K context rows, T longest horizon, V = sensors + commands, C sensors, H horizons.
"""

from argparse import Namespace
from typing import Any

import torch
from torch import Tensor

from crossfeed.baselines.budget import Budget
from crossfeed.baselines.clones import REPOSITORIES, Clone, official_class
from crossfeed.baselines.network import Network, Shape, joint_series
from crossfeed.baselines.neural import NeuralForecaster, Objective
from crossfeed.distribution import Distribution, Point
from crossfeed.windows.windows import WindowBatch, WindowSet, present_mean

_RATE = 1e-4
_SETTINGS: dict[str, Any] = {
    "d_model": 128, "n_heads": 8, "e_layers": 3, "d_ff": 256, "activation": "gelu", "output_attention": False,
}  # fmt: skip


class OfficialNetwork(Network):
    """The official module: 21 channels in and out, absent ones as zeros, no planned commands, no spread."""

    horizon_H: Tensor

    def __init__(self, clone: Clone, shape: Shape) -> None:
        super().__init__()
        self.sensors, self.steps = shape.sensors, shape.steps
        channels = shape.sensors + shape.commands
        sizes = {"enc_in": channels, "seq_len": shape.context, "pred_len": shape.steps}
        self.official = official_class(clone)(Namespace(**_SETTINGS, **REPOSITORIES[clone.name].settings, **sizes))
        self._takes_marks = clone.name == "official-itransformer"
        self.register_buffer("horizon_H", torch.tensor(shape.horizons) - 1, persistent=False)

    def all_steps(self, batch: WindowBatch) -> Tensor:
        """Every step up to the longest horizon of every channel, commands too: (B, T, V)."""
        x_BKV, _ = joint_series(batch)
        y_BTV: Tensor = self.official(x_BKV, None, None, None) if self._takes_marks else self.official(x_BKV)
        return y_BTV

    def forward(self, batch: WindowBatch) -> Distribution:
        return Point(self.all_steps(batch)[:, self.horizon_H, : self.sensors])


class OfficialForecaster(NeuralForecaster):
    """Trained at the paper's rate of 1e-4 without weight decay or clipping; the size is always the paper's."""

    def __init__(self, clone: Clone, budget: Budget) -> None:
        changes = {"weight_decay": 0.0, "clip_norm": float("inf"), "epochs": budget.official_epochs or budget.epochs}
        plain = budget.model_copy(update=changes)
        super().__init__(clone.name, lambda shape: OfficialNetwork(clone, shape), plain, _RATE, False)
        self._clone = clone

    @property
    def details(self) -> dict[str, Any]:
        """What each stage did, and whose code it was."""
        return {**super().details, "code": self._clone.sentence()}

    def _objective(self, network: Network, train: WindowSet) -> Objective:
        assert isinstance(network, OfficialNetwork)
        ahead_T = torch.arange(1, network.steps + 1, device=train.last_W.device)

        def objective(batch: WindowBatch, generator: torch.Generator) -> Tensor:  # noqa: ARG001
            row_BT = batch.last_index_B[:, None] + ahead_T
            future_BTV = torch.cat([train.x_NC[row_BT], batch.future_a_BTA], dim=-1)
            present_BTV = torch.cat([train.m_NC[row_BT], torch.ones_like(batch.future_a_BTA).bool()], dim=-1)
            return present_mean((network.all_steps(batch) - future_BTV).square(), present_BTV)

        return objective
