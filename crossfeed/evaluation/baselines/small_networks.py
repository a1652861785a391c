"""The smaller neural baselines: MLP, GRU, LSTM, TCN, DLinear, a plain transformer, TSMixer and TiDE.

B windows, K context rows, C sensors, A commands, F features, T longest horizon, H horizons, R compressed covariate,
D width. Sizes of the paper: MLP 256-256; GRU and LSTM 2 x 256; TCN 5 layers, kernel 3, dilations 1..16; transformer 6
layers; TSMixer 4 blocks.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, gelu, pad, relu

from crossfeed.evaluation.baselines.network import (
    DROPOUT,
    EncodingNetwork,
    Features,
    Network,
    estimate,
)
from crossfeed.model.distribution import Distribution
from crossfeed.windows.windows import WindowBatch

_TCN_KERNEL, _TCN_LAYERS = 3, 5


def mlp(features: Features, width: int) -> EncodingNetwork:
    """Two hidden layers; the second mixes the state with the command plan of each horizon."""
    first = nn.Linear(features.shape.context * features.context_width, width)
    return EncodingNetwork(features, width, nn.Sequential(nn.Flatten(), first, nn.GELU()))


class LastRow(nn.Module):
    """What a reader of rows (B, K, F) says at the last of them."""

    def __init__(self, reader: nn.Module) -> None:
        super().__init__()
        self.reader = reader

    def forward(self, x_BKF: Tensor) -> Tensor:
        read = self.reader(x_BKF)
        steps_BKD: Tensor = read[0] if isinstance(read, tuple) else read
        return steps_BKD[:, -1]


def recurrent(features: Features, cell: type[nn.GRU] | type[nn.LSTM], width: int) -> EncodingNetwork:
    """A stacked recurrent reader of either cell."""
    reader = cell(features.context_width, width, num_layers=2, batch_first=True)
    return EncodingNetwork(features, width, LastRow(reader))


class CausalBlock(nn.Module):
    """A residual causal convolution: no output sees a later input."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.past = (_TCN_KERNEL - 1) * dilation
        self.norm = nn.GroupNorm(1, width)
        self.convolution = nn.Conv1d(width, width, _TCN_KERNEL, dilation=dilation)
        self.pointwise = nn.Conv1d(width, width, 1)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x_BDK: Tensor) -> Tensor:
        # The norm spans time as well; inside a finished context nothing later than t exists to leak.
        hidden_BDK = gelu(self.convolution(pad(self.norm(x_BDK), (self.past, 0))))
        residual_BDK: Tensor = x_BDK + self.dropout(self.pointwise(hidden_BDK))
        return residual_BDK


class CausalReader(nn.Module):
    """Dilations double from layer to layer, so five layers see 63 steps."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.enter = nn.Conv1d(features, width, 1)
        self.blocks = nn.Sequential(*(CausalBlock(width, 2**layer) for layer in range(_TCN_LAYERS)))

    def forward(self, x_BKF: Tensor) -> Tensor:
        steps_BDK: Tensor = self.blocks(self.enter(x_BKF.transpose(1, 2)))
        return steps_BDK.transpose(1, 2)


def tcn(features: Features, width: int) -> EncodingNetwork:
    """Causal convolutions."""
    return EncodingNetwork(features, width, LastRow(CausalReader(features.context_width, width)))


_TREND_KERNEL = 25


def moving_average(x_BCK: Tensor) -> Tensor:
    """The trend: a centred moving average whose ends repeat the first and last value."""
    reach = (_TREND_KERNEL - 1) // 2
    return avg_pool1d(pad(x_BCK, (reach, reach), mode="replicate"), _TREND_KERNEL, stride=1)


class DLinear(Network):
    """Everything is linear; the spread is one learned number per horizon and channel."""

    def __init__(self, features: Features) -> None:
        super().__init__()
        shape = features.shape
        self.features = features
        self.trend = nn.Linear(shape.context, shape.slots)
        self.remainder = nn.Linear(shape.context, shape.slots)
        self.past = nn.Linear(shape.context * shape.commands, shape.slots * shape.sensors)
        self.plan = nn.Linear(features.plan_width, shape.sensors) if features.plan_width else None
        self.log_variance_HC = nn.Parameter(torch.zeros(shape.slots, shape.sensors))

    def forward(self, batch: WindowBatch) -> Distribution:
        x_BCK = (batch.x_BKC * batch.m_BKC.to(batch.x_BKC.dtype)).transpose(1, 2)
        trend_BCK = moving_average(x_BCK)
        mean_BHC = (self.trend(trend_BCK) + self.remainder(x_BCK - trend_BCK)).transpose(1, 2)
        mean_BHC = mean_BHC + self.past(batch.a_BKA.flatten(1)).view_as(mean_BHC)
        if self.plan is not None:
            mean_BHC = mean_BHC + self.plan(self.features.plan(batch))
        return estimate(mean_BHC, self.log_variance_HC.expand_as(mean_BHC))


def encoder_blocks(width: int, layers: int, dropout: float = DROPOUT) -> nn.TransformerEncoder:
    """Pre-norm transformer blocks with GELU, heads of 32 (at least two) and a feed-forward four times as wide."""
    block = nn.TransformerEncoderLayer(
        width, max(2, width // 32), 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(block, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)


class StepEncoder(nn.Module):
    """One token per context row, learned positions, transformer blocks."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__()
        self.token = nn.Linear(features.context_width, width)
        self.position_KD = nn.Parameter(0.02 * torch.randn(features.shape.context, width))
        self.blocks = encoder_blocks(width, layers)

    def tokens(self, x_BKF: Tensor) -> Tensor:
        """Row tokens with their positions, before any attention."""
        tokens_BKD: Tensor = self.token(x_BKF) + self.position_KD
        return tokens_BKD

    def forward(self, x_BKF: Tensor) -> Tensor:
        steps_BKD: Tensor = self.blocks(self.tokens(x_BKF))
        return steps_BKD


def transformer(features: Features, width: int, layers: int) -> EncodingNetwork:
    """The row encoder with the shared forecasting decoder."""
    return EncodingNetwork(features, width, LastRow(StepEncoder(features, width, layers)))


class FeatureMixing(nn.Module):
    """A residual two-layer perceptron over the features of one row."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.enter, self.leave = nn.Linear(features, hidden), nn.Linear(hidden, features)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x_BKF: Tensor) -> Tensor:
        hidden = self.dropout(relu(self.enter(self.norm(x_BKF))))
        mixed_BKF: Tensor = x_BKF + self.dropout(self.leave(hidden))
        return mixed_BKF


class MixerBlock(nn.Module):
    """Time mixing shared by all features, then feature mixing shared by all rows."""

    def __init__(self, context: int, features: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.time = nn.Linear(context, context)
        self.dropout = nn.Dropout(DROPOUT)
        self.mix_features = FeatureMixing(features, hidden)

    def forward(self, x_BKF: Tensor) -> Tensor:
        mixed_BFK = self.dropout(relu(self.time(self.norm(x_BKF).transpose(1, 2))))
        out_BKF: Tensor = self.mix_features(x_BKF + mixed_BFK.transpose(1, 2))
        return out_BKF


class TsMixer(Network):
    """Mixer blocks over the context, a map from rows to horizons, and one mixing with the plan of each horizon."""

    def __init__(self, features: Features, width: int, blocks: int) -> None:
        super().__init__()
        shape = features.shape
        self.features = features
        self.enter = nn.Linear(features.context_width, width)
        self.blocks = nn.Sequential(*(MixerBlock(shape.context, width, 2 * width) for _ in range(blocks)))
        self.horizons = nn.Linear(shape.context, shape.slots)
        self.join = nn.Linear(width + features.plan_width, width)
        self.mix = FeatureMixing(width, 2 * width)
        self.mean, self.log_variance = nn.Linear(width, shape.sensors), nn.Linear(width, shape.sensors)

    def forward(self, batch: WindowBatch) -> Distribution:
        mixed_BKF = self.blocks(self.enter(self.features.context(batch)))
        slots_BHF = self.horizons(mixed_BKF.transpose(1, 2)).transpose(1, 2)
        slots_BHF = self.mix(self.join(torch.cat([slots_BHF, self.features.plan(batch)], dim=-1)))
        return estimate(self.mean(slots_BHF), self.log_variance(slots_BHF))


_COVARIATE, _STEP = 4, 16


class ResidualBlock(nn.Module):
    """A two-layer perceptron beside a linear skip, then a norm."""

    def __init__(self, enter: int, hidden: int, leave: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(enter, hidden), nn.Linear(hidden, leave)
        self.skip = nn.Linear(enter, leave)
        self.dropout, self.norm = nn.Dropout(DROPOUT), nn.LayerNorm(leave)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.skip(x) + self.dropout(self.second(relu(self.first(x)))))
        return out


class Tide(Network):
    """One network for all channels; a learned vector tells them apart."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        shape, inputs = features.shape, features.inputs
        self.features = features
        rows = shape.context + shape.steps * inputs.plan
        self.covariate = ResidualBlock(shape.commands, width, _COVARIATE)
        self.channel_CD = nn.Parameter(0.02 * torch.randn(shape.sensors, width))
        series = shape.context * (1 + inputs.presence)
        self.encoder = nn.Sequential(
            ResidualBlock(series + rows * _COVARIATE + width, width, width),
            ResidualBlock(width, width, width),
        )
        self.decoder = ResidualBlock(width, width, shape.slots * _STEP)
        highway = _STEP + _COVARIATE * inputs.plan
        self.step = ResidualBlock(highway, width, width)
        self.mean, self.log_variance = nn.Linear(width, 1), nn.Linear(width, 1)
        self.skip = nn.Linear(shape.context, shape.slots)

    def forward(self, batch: WindowBatch) -> Distribution:
        m_BCK = batch.m_BKC.to(batch.x_BKC.dtype).transpose(1, 2)
        x_BCK = batch.x_BKC.transpose(1, 2) * m_BCK
        windows, sensors = x_BCK.shape[:2]
        parts = [x_BCK, self.channel_CD.expand(windows, -1, -1)]
        if self.features.inputs.presence:
            parts.append(m_BCK)
        parts.append(self.covariate(batch.a_BKA).flatten(1)[:, None].expand(-1, sensors, -1))
        future_BTR = self.covariate(batch.future_a_BTA) if self.features.inputs.plan else None
        if future_BTR is not None:
            parts.append(future_BTR.flatten(1)[:, None].expand(-1, sensors, -1))
        steps_BCHS = self.decoder(self.encoder(torch.cat(parts, dim=-1))).unflatten(
            -1, (self.features.shape.slots, _STEP)
        )
        if future_BTR is not None:
            future_BHR = future_BTR[:, self.features.horizon_H]
            steps_BCHS = torch.cat([steps_BCHS, future_BHR[:, None].expand(-1, sensors, -1, -1)], dim=-1)
        hidden_BCHD = self.step(steps_BCHS)
        mean_BCH = self.mean(hidden_BCHD).squeeze(-1) + self.skip(x_BCK)
        log_variance_BCH = self.log_variance(hidden_BCHD).squeeze(-1)
        return estimate(mean_BCH.transpose(1, 2), log_variance_BCH.transpose(1, 2))
