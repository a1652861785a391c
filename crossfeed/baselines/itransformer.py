"""iTransformer: a whole channel is one token, attention runs over channels.

With the paper's settings and no command plan it has the parameters and the outputs of the official code. The plan
enters as further tokens, one for each command, which the original foresees for covariates.
B windows, V channels (sensors, then past commands), C sensors, D width, T longest horizon, H horizons.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from crossfeed.baselines.network import Features, Network, estimate, joint_series, window_statistics
from crossfeed.distribution import Distribution
from crossfeed.windows.windows import WindowBatch


class ChannelBlock(nn.Module):
    """Attention over channel tokens and a feed-forward, each with a residual and a layer norm after it."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.attention_norm, self.forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

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

    def __init__(
        self, features: Features, width: int, heads: int, layers: int, dropout: float = 0.1,
        probabilistic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        shape = features.shape
        self.features = features
        self.token = nn.Linear(shape.context, width)
        self.plan = nn.Linear(shape.steps, width) if features.inputs.plan else None
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(ChannelBlock(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape.steps)
        self.spread = nn.Linear(width, shape.slots) if probabilistic else None

    def forward(self, batch: WindowBatch) -> Distribution:
        sensors = self.features.shape.sensors
        x_BKV, present_BKV = joint_series(batch)
        centre_B1V, scale_B1V = window_statistics(x_BKV, present_BKV)
        tokens_BVD = self.token(((x_BKV - centre_B1V) / scale_B1V * present_BKV).transpose(1, 2))
        if self.plan is not None:
            tokens_BVD = torch.cat([tokens_BVD, self.plan(batch.future_a_BTA.transpose(1, 2))], dim=1)
        state_BCD = self.norm(self.blocks(self.dropout(tokens_BVD)))[:, :sensors]
        mean_BHC = self.head(state_BCD)[:, :, self.features.horizon_H].transpose(1, 2)
        mean_BHC = mean_BHC * scale_B1V[:, :, :sensors] + centre_B1V[:, :, :sensors]
        return estimate(mean_BHC, None if self.spread is None else self.spread(state_BCD).transpose(1, 2))
