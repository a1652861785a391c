"""PatchTST, which reads each channel alone, cut into patches, and iTransformer, where a whole channel is one token.

With the paper's settings and no command plan both have the parameters and the outputs of the official code. The plan,
which the originals lack, corrects each channel's forecast in PatchTST and gives iTransformer further tokens.
B windows, V channels (sensors, then past commands), C sensors, P patches, D width, T longest horizon, H horizons."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention

from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.network import DROPOUT, Features, Network, estimate, instance_series
from crossfeed.model.distribution import Distribution
from crossfeed.windows.windows import WindowBatch

_PATCH, _STRIDE, _PATCH_DROPOUT = 8, 4, 0.2


class ScoredAttention(nn.Module):
    """Self-attention whose scores start from those of the layer below."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.leave, self.dropout = nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x_NPD: Tensor, below_NHPP: Tensor | None) -> tuple[Tensor, Tensor]:
        query, key, value = (
            part(x_NPD).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores_NHPP = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if below_NHPP is not None:
            scores_NHPP = scores_NHPP + below_NHPP
        mixed_NPD = (scores_NHPP.softmax(-1) @ value).transpose(1, 2).flatten(2)
        return self.dropout(self.leave(mixed_NPD)), scores_NHPP


class PatchBlock(nn.Module):
    """Attention and feed-forward, each with a residual and a batch norm after it."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float) -> None:
        super().__init__()
        self.attention = ScoredAttention(width, heads, dropout)
        self.attention_norm, self.forward_norm = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.enter, self.leave = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_NPD: Tensor, below_NHPP: Tensor | None) -> tuple[Tensor, Tensor]:
        attended_NPD, scores_NHPP = self.attention(x_NPD, below_NHPP)
        x_NPD = self.attention_norm((x_NPD + self.dropout(attended_NPD)).transpose(1, 2)).transpose(1, 2)
        hidden_NPD = self.leave(self.dropout(gelu(self.enter(x_NPD))))
        x_NPD = self.forward_norm((x_NPD + self.dropout(hidden_NPD)).transpose(1, 2)).transpose(1, 2)
        return x_NPD, scores_NHPP


class PlanCorrection(nn.Module):
    """What the planned commands change in each channel's forecast, given the channel's own state."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.state, self.plan = nn.Linear(width, width), nn.Linear(features.plan_width, width, bias=False)
        self.channel_CD = nn.Parameter(0.02 * torch.randn(features.shape.sensors, width))
        self.leave = nn.Linear(width, 1)

    def forward(self, state_BCD: Tensor, plan_BHG: Tensor) -> Tensor:
        hidden_BHCD = (self.state(state_BCD) + self.channel_CD)[:, None] + self.plan(plan_BHG)[:, :, None]
        change_BHC: Tensor = self.leave(gelu(hidden_BHCD)).squeeze(-1)
        return change_BHC


class PatchTst(Network):
    """The paper's settings at base size: patch 8, stride 4, width 128, 8 heads, 3 layers, feed-forward 256."""

    def __init__(self, features: Features, width: int, heads: int, layers: int, probabilistic: bool = False) -> None:
        super().__init__()
        shape = features.shape
        if shape.context < _PATCH:
            raise ConfigError(
                f"PatchTST cuts windows into patches of {_PATCH} rows, the context has {shape.context}.",
                remedy=f"Use a context of at least {_PATCH} rows, or leave patchtst out.",
            )
        self.features = features
        patches = (shape.context - _PATCH) // _STRIDE + 2
        self.token = nn.Linear(_PATCH, width)
        self.position_PD = nn.Parameter(torch.empty(patches, width).uniform_(-0.02, 0.02))
        self.dropout = nn.Dropout(_PATCH_DROPOUT)
        self.blocks = nn.ModuleList(PatchBlock(width, heads, 2 * width, _PATCH_DROPOUT) for _ in range(layers))
        self.head = nn.Linear(width * patches, shape.steps)
        self.spread = nn.Linear(width * patches, shape.slots) if probabilistic else None
        self.correction = PlanCorrection(features, width) if features.plan_width else None

    def encode(self, x_BVK: Tensor) -> Tensor:
        """Patch features (B, V, D, P) of series in instance space; the last value pads the end by one stride."""
        patches_BVPL = pad(x_BVK, (0, _STRIDE), mode="replicate").unfold(-1, _PATCH, _STRIDE)
        x_NPD = self.dropout(self.token(patches_BVPL).flatten(0, 1) + self.position_PD)
        scores_NHPP: Tensor | None = None
        for block in self.blocks:
            x_NPD, scores_NHPP = block(x_NPD, scores_NHPP)
        return torch.unflatten(x_NPD, 0, x_BVK.shape[:2]).transpose(2, 3)

    def forward(self, batch: WindowBatch) -> Distribution:
        sensors = self.features.shape.sensors
        x_BVK, centre_B1V, scale_B1V = instance_series(batch)
        state_BVDP = self.encode(x_BVK)
        flat_BCN = state_BVDP[:, :sensors].flatten(2)
        mean_BHC = self.head(flat_BCN)[:, :, self.features.horizon_H].transpose(1, 2)
        if self.correction is not None:
            mean_BHC = mean_BHC + self.correction(state_BVDP[:, :sensors].mean(-1), self.features.plan(batch))
        mean_BHC = mean_BHC * scale_B1V[:, :, :sensors] + centre_B1V[:, :, :sensors]
        return estimate(mean_BHC, None if self.spread is None else self.spread(flat_BCN).transpose(1, 2))


class ChannelBlock(nn.Module):
    """Attention over channel tokens and a feed-forward, each with a residual and a layer norm after it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.attention_norm, self.forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x_BVD: Tensor) -> Tensor:
        query, key, value = (
            part(x_BVD).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        rate = self.dropout.p if self.training else 0.0
        mixed_BVD = scaled_dot_product_attention(query, key, value, dropout_p=rate).transpose(1, 2).flatten(2)
        x_BVD = self.attention_norm(x_BVD + self.dropout(self.out(mixed_BVD)))
        hidden_BVD = self.dropout(self.leave(self.dropout(gelu(self.enter(x_BVD)))))
        out_BVD: Tensor = self.forward_norm(x_BVD + hidden_BVD)
        return out_BVD


class ITransformer(Network):
    """The paper's settings at base size: width 128, 8 heads, 3 layers, feed-forward 256."""

    def __init__(self, features: Features, width: int, heads: int, layers: int, probabilistic: bool = False) -> None:
        super().__init__()
        shape = features.shape
        self.features = features
        self.token = nn.Linear(shape.context, width)
        self.plan = nn.Linear(shape.steps, width) if features.inputs.plan else None
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(ChannelBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape.steps)
        self.spread = nn.Linear(width, shape.slots) if probabilistic else None

    def forward(self, batch: WindowBatch) -> Distribution:
        sensors = self.features.shape.sensors
        x_BVK, centre_B1V, scale_B1V = instance_series(batch)
        tokens_BVD = self.token(x_BVK)
        if self.plan is not None:
            tokens_BVD = torch.cat([tokens_BVD, self.plan(batch.future_a_BTA.transpose(1, 2))], dim=1)
        state_BCD = self.norm(self.blocks(self.dropout(tokens_BVD)))[:, :sensors]
        mean_BHC = self.head(state_BCD)[:, :, self.features.horizon_H].transpose(1, 2)
        mean_BHC = mean_BHC * scale_B1V[:, :, :sensors] + centre_B1V[:, :, :sensors]
        return estimate(mean_BHC, None if self.spread is None else self.spread(state_BCD).transpose(1, 2))
