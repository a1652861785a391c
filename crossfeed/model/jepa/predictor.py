"""Command-conditioned latent prediction (Section 4.2): one state and the planned commands in, all horizons out.

`Recovery` (Eq. 9) asks the way back: which command lies between a state and a later latent.

B windows, H horizons, T future steps (T = longest horizon), A commands, D latent width.
"""

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from crossfeed.configuration import CheckedForm
from crossfeed.model.interface import Plan
from crossfeed.model.parts.blocks import Block, BlockConfig, embedding
from crossfeed.model.parts.horizon_embedding import HorizonEmbedding, HorizonEmbeddingKind
from crossfeed.windows.windows import mean_commands


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
