"""The smaller neural baselines: MLP, GRU, LSTM, TCN, DLinear, a plain transformer, TSMixer, TiDE and RSSM.

B windows, K context rows, C sensors, A commands, F features, T longest horizon, H horizons, R compressed covariate,
D width or deterministic state, Z stochastic state, N = B * S samples of it. Sizes of the paper: MLP 256-256; GRU and
LSTM 2 x 256; TCN 5 layers, kernel 3, dilations 1..16; transformer 6 layers; TSMixer 4 blocks; RSSM GRU 256 + 64.
"""

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import avg_pool1d, elu, gelu, pad, relu, softplus

from crossfeed.evaluation.baselines.network import (
    DROPOUT,
    EncodingNetwork,
    Features,
    Network,
    estimate,
    forecast_loss,
    present_loss,
)
from crossfeed.model.distribution import Distribution, Gaussian
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


_SAMPLES = 8
_FREE_NATS = 1.0
# How much of the divergence trains the prior rather than the posterior.
_BALANCE = 0.8


class Rssm(Network):
    """A recurrent state-space model: a GRU state beside a stochastic one; both are needed to forecast.

    The posterior filters the context; the prior is rolled out under the planned commands (GRU 256 + 64 stochastic).
    """

    noise_TSZ: Tensor

    def __init__(self, features: Features, width: int, stochastic: int) -> None:
        super().__init__()
        shape = features.shape
        self.features, self.shape, self.width, self.stochastic = features, shape, width, stochastic
        observed = shape.sensors * (1 + features.inputs.presence)
        self.embed = nn.Sequential(nn.Linear(observed, width), nn.ELU(), nn.Linear(width, width))
        self.enter = nn.Linear(stochastic + shape.commands, width)
        self.cell = nn.GRUCell(width, width)
        self.prior = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, 2 * stochastic))
        self.posterior = nn.Sequential(nn.Linear(2 * width, width), nn.ELU(), nn.Linear(width, 2 * stochastic))
        self.decode = nn.Sequential(nn.Linear(width + stochastic, width), nn.ELU(), nn.Linear(width, 2 * shape.sensors))
        # The same noise for every window: a forecast depends on its window alone, and repeats bit by bit.
        noise_TSZ = torch.randn(shape.steps, _SAMPLES, stochastic, generator=torch.Generator().manual_seed(0))
        self.register_buffer("noise_TSZ", noise_TSZ, persistent=False)

    def forward(self, batch: WindowBatch) -> Distribution:
        """Rolled-out samples of the prior, summarised by the mean and variance of their mixture."""
        windows = len(batch.x_BKC)
        h_BD, s_BZ, *_ = self._filter(batch, None)
        h_ND, s_NZ = (state.repeat_interleave(_SAMPLES, 0) for state in (h_BD, s_BZ))
        noise_TNZ = self.noise_TSZ.repeat(1, windows, 1)
        plan_TNA = self._plan(batch).repeat_interleave(_SAMPLES, 1)
        rolled = self._roll(h_ND, s_NZ, plan_TNA, noise_TNZ)
        mean, deviation = (
            torch.unflatten(part, 0, (windows, _SAMPLES)) for part in (rolled.mean, rolled.standard_deviation)
        )
        variance_BHC = deviation.square().mean(1) + mean.var(1, unbiased=False)
        return Gaussian(mean.mean(1), variance_BHC.sqrt())

    def objective(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        """Reconstruction and divergence over the context, and the forecast loss of one rolled-out sample."""

        def noise(steps: int) -> Tensor:
            size = (steps, len(batch.x_BKC), self.stochastic)
            return torch.randn(size, generator=generator, device=generator.device)

        h_BD, s_BZ, seen, kl = self._filter(batch, noise(self.shape.context))
        forecast = self._roll(h_BD, s_BZ, self._plan(batch), noise(self.shape.steps))
        # Weighted like the forecast: a plain likelihood of the context drowns the forecast (RMSE 0.95 instead of 0.82).
        reconstruction = present_loss(seen, batch.x_BKC, batch.m_BKC)
        return forecast_loss(forecast, batch) + reconstruction + kl / self.shape.sensors

    def _filter(self, batch: WindowBatch, noise_KBZ: Tensor | None) -> tuple[Tensor, Tensor, Distribution, Tensor]:
        """Read the context row by row: last state, what the decoder makes of each state, mean divergence."""
        m_BKC = batch.m_BKC.to(batch.x_BKC.dtype)
        parts = [batch.x_BKC * m_BKC, m_BKC] if self.features.inputs.presence else [batch.x_BKC * m_BKC]
        embedded_BKD = self.embed(torch.cat(parts, dim=-1))
        h_BD = batch.x_BKC.new_zeros(len(m_BKC), self.width)
        s_BZ = batch.x_BKC.new_zeros(len(m_BKC), self.stochastic)
        states, divergences = [], []
        for step in range(m_BKC.shape[1]):
            h_BD = self._advance(h_BD, s_BZ, batch.a_BKA[:, step])
            posterior = _normal(self.posterior(torch.cat([h_BD, embedded_BKD[:, step]], dim=-1)))
            s_BZ = posterior.loc if noise_KBZ is None else _sample(posterior, noise_KBZ[step])
            states.append(torch.cat([h_BD, s_BZ], dim=-1))
            if noise_KBZ is not None:
                prior = _normal(self.prior(h_BD))
                to_prior = kl_divergence(_detached(posterior), prior).sum(-1).mean().clamp(min=_FREE_NATS)
                to_posterior = kl_divergence(posterior, _detached(prior)).sum(-1).mean().clamp(min=_FREE_NATS)
                divergences.append(_BALANCE * to_prior + (1.0 - _BALANCE) * to_posterior)
        mean, raw = self.decode(torch.stack(states, 1)).chunk(2, dim=-1)
        kl = torch.stack(divergences).mean() if divergences else mean.new_zeros(())
        return h_BD, s_BZ, estimate(mean, raw), kl

    def _roll(self, h_ND: Tensor, s_NZ: Tensor, plan_TNA: Tensor, noise_TNZ: Tensor) -> Distribution:
        """The prior under planned commands; what it says at the horizons."""
        states = []
        for step in range(self.shape.steps):
            h_ND = self._advance(h_ND, s_NZ, plan_TNA[step])
            s_NZ = _sample(_normal(self.prior(h_ND)), noise_TNZ[step])
            if step + 1 in self.shape.horizons:
                states.append(torch.cat([h_ND, s_NZ], dim=-1))
        mean, raw = self.decode(torch.stack(states, 1)).chunk(2, dim=-1)
        return estimate(mean, raw)

    def _advance(self, h_ND: Tensor, s_NZ: Tensor, a_NA: Tensor) -> Tensor:
        entered: Tensor = self.cell(elu(self.enter(torch.cat([s_NZ, a_NA], dim=-1))), h_ND)
        return entered

    def _plan(self, batch: WindowBatch) -> Tensor:
        """Commands step by step; a blind model carries the last known command forward."""
        if self.features.inputs.plan:
            return batch.future_a_BTA.transpose(0, 1)
        return batch.a_BKA[:, -1].expand(self.shape.steps, -1, -1)


def _normal(raw: Tensor) -> Normal:
    """A stochastic state."""
    mean, spread = raw.chunk(2, dim=-1)
    return Normal(mean, softplus(spread) + 0.1, validate_args=False)


def _sample(state: Normal, noise: Tensor) -> Tensor:
    sampled: Tensor = state.loc + state.scale * noise
    return sampled


def _detached(state: Normal) -> Normal:
    return Normal(state.loc.detach(), state.scale.detach(), validate_args=False)
