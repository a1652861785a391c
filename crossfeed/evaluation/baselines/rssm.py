"""A recurrent state-space model: a deterministic GRU state beside a stochastic one, learned by variational inference.

The posterior filters the context; the prior is rolled out under the planned commands (GRU 256 + 64 stochastic in the
paper). B windows, K context rows, T longest horizon, C sensors, A commands, H horizons, D deterministic, Z stochastic,
S samples.
"""

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import elu, softplus

from crossfeed.evaluation.baselines.network import Features, Network, estimate, forecast_loss, present_loss
from crossfeed.model.distribution import Distribution, Gaussian
from crossfeed.windows.windows import WindowBatch

_SAMPLES = 8
_FREE_NATS = 1.0
# How much of the divergence trains the prior rather than the posterior.
_BALANCE = 0.8


class Rssm(Network):
    """State (deterministic, stochastic); both are needed to forecast."""

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
