"""From a state to a forecast (Sections 4.2 and 4.3): latents of all horizons under a plan, their means and variances.

`Recovery` (Eq. 9) asks the way back: which command lies between a state and a later latent. The head runs in float32,
in the global z-space. B windows, H horizons, T future steps (T = longest horizon), A commands, C sensors, D latent
width.
"""

import math
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.configuration import CheckedForm
from crossfeed.errors import ConfigError
from crossfeed.model.delayed_plans import check_between
from crossfeed.model.distribution import Gaussian
from crossfeed.model.interface import Plan
from crossfeed.model.parts.blocks import Block, BlockConfig, embedding
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import mean_commands, present_mean

HorizonEmbeddingKind = Literal["value", "slot"]
SLOTS = 128  # rows of the paper's slot table; its locked model uses the first five


class HorizonEmbedding(nn.Module):
    """One vector per horizon. By value, the vectors of the trained horizons are joined linearly in log h."""

    def __init__(self, kind: HorizonEmbeddingKind, horizons: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.kind, self.horizons = kind, horizons
        self.table = embedding(len(horizons) if kind == "value" else SLOTS, width)

    def forward(self, horizons: tuple[int, ...]) -> Tensor:
        if horizons == self.horizons:
            return self.table[: len(horizons)]
        self.check(horizons)
        weights = [interpolation(horizon, self.horizons) for horizon in horizons]
        return (
            torch.tensor(weights, dtype=self.table.dtype, device=self.table.device) @ self.table[: len(self.horizons)]
        )

    def check(self, horizons: tuple[int, ...]) -> None:
        """Refuse horizons the model cannot be asked for."""
        strange = [horizon for horizon in horizons if horizon not in self.horizons]
        if self.kind == "slot" and strange:
            raise ConfigError(
                f"This model knows its horizons by slot index and was asked for {', '.join(map(str, strange))}.",
                expected=f"some of its own horizons {', '.join(map(str, self.horizons))}",
                remedy="Ask for those, or train with predictor.horizon_embedding = 'value'.",
            )
        check_between(horizons, self.horizons)


def interpolation(horizon: int, knots: tuple[int, ...]) -> list[float]:
    """Interpolation weights of the trained horizons for one horizon between them."""
    weights = [0.0] * len(knots)
    upper = next(index for index, knot in enumerate(knots) if knot >= horizon)
    if knots[upper] == horizon:
        weights[upper] = 1.0
        return weights
    low, high = knots[upper - 1], knots[upper]
    share = math.log(horizon / low) / math.log(high / low)
    weights[upper - 1], weights[upper] = 1.0 - share, share
    return weights


class PredictorConfig(CheckedForm):
    """Depth, how commands enter a slot, what of them enters, and how a slot knows its horizon.

    injection 'token': added to the slot; 'film': scales and shifts the state; 'cross_attention': read by the slots.
    conditioning 'mean': the mean command over (t, t+h]; 'sequence': every planned command up to t+h, which only
    cross-attention can read.
    """

    layers: int = Field(default=4, ge=1)
    injection: Literal["token", "film", "cross_attention"] = "cross_attention"
    conditioning: Literal["mean", "sequence"] = "sequence"
    horizon_embedding: HorizonEmbeddingKind = "value"

    @model_validator(mode="after")
    def _sequence_can_be_read(self) -> Self:
        if self.conditioning == "sequence" and self.injection != "cross_attention":
            raise ValueError(
                f"injection '{self.injection}' takes one command a horizon, not a sequence: "
                "set conditioning to 'mean', or injection to 'cross_attention'"
            )
        return self


class CommandTokens(nn.Module):
    """One token per planned command: a linear map plus a learned embedding of its place in the sequence."""

    def __init__(self, commands: int, places: int, width: int) -> None:
        super().__init__()
        self.command = nn.Linear(commands, width)
        self.place = embedding(places, width)

    def forward(self, a_BTA: Tensor) -> Tensor:
        token_BTD: Tensor = self.command(a_BTA) + self.place[: a_BTA.shape[1]]
        return token_BTD


class Predictor(nn.Module):
    """Slots, one per horizon, filled in a single pass; slot h knows the commands up to t+h and no later one."""

    slot_allowed_HH: Tensor
    step_allowed_HT: Tensor

    def __init__(self, config: PredictorConfig, blocks: BlockConfig, commands: int, horizons: tuple[int, ...]) -> None:
        super().__init__()
        self.config, self.horizons = config, horizons
        width, longest = blocks.width, horizons[-1]
        self.state = nn.Linear(width, width)
        self.horizon = HorizonEmbedding(config.horizon_embedding, horizons, width)
        by_step = config.conditioning == "sequence"
        if config.injection == "cross_attention":
            self.tokens = CommandTokens(commands, longest, width) if by_step else nn.Linear(commands, width)
        else:
            self.command = nn.Linear(commands, width if config.injection == "token" else 2 * width)
        self.layers = nn.ModuleList(
            Block(blocks, cross=config.injection == "cross_attention") for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.register_buffer("slot_allowed_HH", self._slot_mask(horizons), persistent=False)
        self.register_buffer("step_allowed_HT", _step_mask(horizons), persistent=False)

    def forward(self, z_BD: Tensor, plan: Plan) -> Tensor:
        """Predicted latents at the trained horizons, or at any horizons between them.

        A slot reads the slots of trained horizons before it and itself, so what is predicted for a horizon does not
        depend on which other horizons are asked for.
        """
        horizons, future_a_BTA = plan.horizons, plan.future_a_BTA
        if horizons == self.horizons:
            return self._fill(z_BD, plan.mean_a_BHA, future_a_BTA, horizons, self.slot_allowed_HH, self.step_allowed_HT)
        self.horizon.check(horizons)
        slots = tuple(sorted({*horizons, *(horizon for horizon in self.horizons if horizon < max(horizons))}))
        slot_allowed_SS, step_allowed_ST = self._slot_mask(slots).to(z_BD.device), _step_mask(slots).to(z_BD.device)
        mean_a_BSA = mean_commands(future_a_BTA, slots)
        latent_BSD = self._fill(z_BD, mean_a_BSA, future_a_BTA, slots, slot_allowed_SS, step_allowed_ST)
        return latent_BSD[:, [slots.index(horizon) for horizon in horizons]]

    def _fill(
        self,
        z_BD: Tensor,
        mean_a_BHA: Tensor,
        future_a_BTA: Tensor,
        slots: tuple[int, ...],
        slot_allowed_HH: Tensor,
        step_allowed_HT: Tensor,
    ) -> Tensor:
        """Run the slots through the layers; commands enter as the configuration says."""
        state_B1D, horizon_HD = self.state(z_BD).unsqueeze(1), self.horizon(slots)
        memory, memory_allowed = None, None
        if self.config.injection == "cross_attention":
            x_BHD = state_B1D + horizon_HD
            by_step = self.config.conditioning == "sequence"
            memory = self.tokens(future_a_BTA[:, : slots[-1]]) if by_step else self.tokens(mean_a_BHA) + horizon_HD
            memory_allowed = step_allowed_HT if by_step else slot_allowed_HH
        else:
            x_BHD = self._inject(state_B1D, self.command(mean_a_BHA)) + horizon_HD
        for layer in self.layers:
            x_BHD = layer(x_BHD, slot_allowed_HH, memory, memory_allowed)
        latent_BHD: Tensor = self.norm(x_BHD)
        return latent_BHD

    def _inject(self, state_B1D: Tensor, command_BHE: Tensor) -> Tensor:
        if self.config.injection == "token":
            return state_B1D + command_BHE
        gamma_BHD, beta_BHD = command_BHE.chunk(2, -1)
        return state_B1D * (1.0 + gamma_BHD.tanh()) + beta_BHD

    def _slot_mask(self, slots: tuple[int, ...]) -> Tensor:
        """Which slots each slot may read: itself and the trained horizons before it."""
        return torch.tensor(
            [[key == query or (key < query and key in self.horizons) for key in slots] for query in slots]
        )


def _step_mask(slots: tuple[int, ...]) -> Tensor:
    """Which planned steps each slot may see: those up to its own horizon."""
    return torch.arange(1, slots[-1] + 1) <= torch.tensor(slots).unsqueeze(1)


class Recovery(nn.Module):
    """The head r_omega of Eq. (9), an inverse-dynamics model on latents."""

    def __init__(self, width: int, commands: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, commands))

    def forward(self, z_BD: Tensor, target_BHD: Tensor) -> Tensor:
        pair_BHD = torch.cat([z_BD.unsqueeze(1).expand_as(target_BHD), target_BHD], -1)
        command_BHA: Tensor = self.layers(pair_BHD)
        return command_BHA


class HeadConfig(CheckedForm):
    """Which likelihood is fitted and how the variance is kept in bounds.

    variance 'hard_clamp': log-variance cut at +-limit (paper; no gradient beyond). 'smooth': bent towards +-limit and
    added to a noise floor learned per channel, at least `noise_floor` standard deviations of the source data.
    """

    likelihood: Literal["nll", "beta_nll"] = "beta_nll"
    beta: float = Field(default=0.5, ge=0.0, le=1.0)
    variance: Literal["smooth", "hard_clamp"] = "smooth"
    limit: float = Field(default=10.0, gt=0.0)
    noise_floor: float = Field(default=0.01, gt=0.0)


class Anchor(nn.Module):
    """Moves a forecast along the line from the window's level to zero: by -1 times their distance (gone) up to +1.

    A network that reads centred rows cannot know how far away the physical zero is, so it cannot say that a current
    will vanish. It can say by which factor the level will change, and planned commands tell most of that: half the
    speed, no spindle. The factor means the same on machines whose levels differ.

    Only for sensors whose zero lies within `reach` standard deviations of the source's mean. For a temperature or a
    voltage that is never off, zero is no state of the machine.
    """

    zero_C: Tensor
    reached_C: Tensor

    def __init__(self, width: int, normaliser: Normaliser, reach: float) -> None:
        super().__init__()
        # Begins at zero and draws no random number, so that a model starts like one without an anchor.
        self.change = nn.utils.skip_init(nn.Linear, width, len(normaliser.sensor_names))  # type: ignore[no-untyped-call]
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)
        zero_C, reached_C = normaliser.zero_within(reach)
        self.register_buffer("reached_C", torch.from_numpy(reached_C), persistent=False)
        self.register_buffer("zero_C", torch.from_numpy(zero_C), persistent=False)

    def forward(self, latent_BHD: Tensor, level_BC: Tensor) -> Tensor:
        """What to add to the mean, in global z-space."""
        with torch.autocast(latent_BHD.device.type, enabled=False):
            share_BHC = torch.tanh(self.change(latent_BHD.float()))
        distance_BC = torch.where(self.reached_C, level_BC - self.zero_C, 0.0)
        return share_BHC * distance_BC.unsqueeze(1)


class Head(nn.Module):
    """Linear maps from a latent to mean and raw log-variance, the anchor, the variance bound and the likelihood."""

    def __init__(self, config: HeadConfig, width: int, sensors: int, anchor: Anchor | None = None) -> None:
        super().__init__()
        self.config, self.anchor = config, anchor
        self.mean = nn.Linear(width, sensors)
        self.log_variance = nn.Linear(width, sensors)
        self.noise = nn.Parameter(torch.zeros(sensors)) if config.variance == "smooth" else None

    def forward(self, latent_BHD: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and raw log-variance in the space the latent lives in."""
        with torch.autocast(latent_BHD.device.type, enabled=False):
            latent_BHD = latent_BHD.float()
            return self.mean(latent_BHD), self.log_variance(latent_BHD)

    def bound(self, log_variance_BHC: Tensor) -> Tensor:
        """Keep a log-variance in global space within reason."""
        limit = self.config.limit
        if self.noise is None:
            return log_variance_BHC.clamp(-limit, limit)
        # An algebraic bend: unlike a clamp or a tanh, its slope never vanishes.
        bent_BHC = log_variance_BHC * torch.rsqrt(1.0 + (log_variance_BHC / limit).square())
        return torch.logaddexp(bent_BHC, self.log_noise)

    @property
    def log_noise(self) -> Tensor:
        """Log-variance of the learned noise floor, never below the configured one."""
        assert self.noise is not None
        return 2.0 * math.log(self.config.noise_floor) + functional.softplus(self.noise)

    def distribution(self, mean_BHC: Tensor, log_variance_BHC: Tensor) -> Gaussian:
        """The forecast with this mean and (bounded) log-variance."""
        return Gaussian(mean_BHC, torch.exp(0.5 * log_variance_BHC))

    def loss(self, forecast: Gaussian, x_BHC: Tensor, m_BHC: Tensor) -> Tensor:
        """The configured likelihood averaged over present target entries; absent ones are never read."""
        x_BHC = torch.where(m_BHC, x_BHC, forecast.mean.detach())
        if self.config.likelihood == "beta_nll":
            return present_mean(forecast.beta_nll(x_BHC, self.config.beta), m_BHC)
        return present_mean(forecast.nll(x_BHC), m_BHC)
