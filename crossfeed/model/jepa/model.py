"""The paper's network: Section 4, part by part.

B windows, K context rows, H horizons, T longest horizon, C sensors, A commands, D latent width.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from crossfeed.model.config import JepaConfig
from crossfeed.model.distribution import Distribution, Gaussian
from crossfeed.model.interface import (
    Latents,
    Losses,
    PackedPrecision,
    Plan,
    Prediction,
    ProcessGroup,
    Rows,
    Stage,
    Views,
)
from crossfeed.model.jepa.encoder import Encoder, TargetEncoder
from crossfeed.model.jepa.objectives import ObjectiveConfig, Seen, loss_terms
from crossfeed.model.jepa.predictor import Anchor, Head, Predictor, Recovery
from crossfeed.model.parts.instance_norm import InstanceNorm, Statistics
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from crossfeed.windows.corrupt import MaskConfig, corrupt, schema_view
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch


@dataclass(frozen=True, slots=True)
class JepaContext:
    """The paper's context: the state at the last row, the mean over all rows where it was asked for, and the level."""

    z_BD: Tensor
    pooled_BD: Tensor | None
    level: Statistics | None


class JepaModel(WorldModel):
    """A joint-embedding predictive world model: one latent state a window, one latent a horizon, a physical head."""

    config: JepaConfig
    # Which parameters each way of adapting may move.
    adaptation_parts = {
        "head": ("head.",),
        "predictor": ("predictor.", "head."),
        "channels": ("context_encoder.row.channel",),
    }
    compares_latents = keeps_rows = worth_compiling = True
    fresh_heads = ("head", "recovery")

    def __init__(self, config: JepaConfig, schema: Schema, normaliser: Normaliser) -> None:
        super().__init__(config, schema, normaliser)
        sensors, commands, width = len(schema.sensors), len(schema.commands), config.blocks.width
        self.instance_norm = InstanceNorm(config.instance_norm)
        self.context_encoder = Encoder(config.encoder, config.blocks, sensors, commands)
        self.target_encoder = TargetEncoder(config.target, self.context_encoder, config.horizons)
        self.predictor = Predictor(config.predictor, config.blocks, commands, config.horizons)
        anchored = config.instance_norm.kind == "anchored"
        anchor = Anchor(width, normaliser, config.instance_norm.reach) if anchored else None
        self.head = Head(config.head, width, sensors, anchor)
        self.recovery = Recovery(width, commands)

    def decode(self, context: JepaContext, plan: Plan) -> Prediction:
        """Eqs. (3) and (11): a distribution for every sensor and horizon under a plan, in global z-space."""
        latent_BHD = self.predict_latents(context, plan)
        mean_BHC, log_variance_BHC = self.head(latent_BHD)
        log_variance_BHC = self.instance_norm.restore_log_variance(log_variance_BHC, context.level)
        mean_BHC = self.instance_norm.restore_mean(mean_BHC, context.level)
        if self.head.anchor is not None and context.level is not None:
            mean_BHC = mean_BHC + self.head.anchor(latent_BHD, context.level.centre_BC)
        distribution = self.head.distribution(mean_BHC, self.head.bound(log_variance_BHC))
        return Prediction(latent_BHD, distribution, context)

    def predict_latents(self, context: JepaContext, plan: Plan) -> Tensor:
        """Eq. (3): latents at every horizon under the planned commands."""
        latent_BHD: Tensor = self.predictor(context.z_BD, plan)
        return latent_BHD

    def level(self, x_BKC: Tensor, m_BKC: Tensor) -> Statistics | None:
        """What is taken out of each window before it is read and put back into its forecast; None for nothing."""
        return self.instance_norm.statistics(x_BKC, m_BKC)

    def read(self, x_BRC: Tensor, m_BRC: Tensor, level: Statistics | None, channels: Tensor | None = None) -> Rows:
        """First pass of the encoder; under an unchanged level rows can be kept and used again."""
        x_BRC = self.instance_norm.normalise(x_BRC, level)
        if channels is not None:
            x_BRC, m_BRC = x_BRC[..., channels], m_BRC[..., channels]
        return Rows((self.context_encoder.rows(x_BRC, m_BRC, channels),), level)

    def context(self, rows: Rows, a_BKA: Tensor, pooled: bool = False) -> JepaContext:
        """Second pass of the encoder, over rows that were read."""
        (vector_BKD,) = rows.parts
        if not pooled:
            return JepaContext(self.context_encoder.state(vector_BKD, a_BKA), None, rows.level)
        step_BKD = self.context_encoder.sequence(vector_BKD, a_BKA)
        return JepaContext(step_BKD[:, -1], step_BKD.mean(1), rows.level)

    def decode_paths(self, rows: Rows, a_KA: Tensor, future_TA: Tensor, channels: Tensor) -> Distribution:
        """What follows each of B sampled paths under one plan, as `decode_rows`, of some channels only."""
        a_BKA, future_BTA = (each.expand(len(rows.parts[0]), -1, -1) for each in (a_KA, future_TA))
        return self.decode_rows(self.context(rows, a_BKA), a_BKA[:, -1:], future_BTA)[..., channels]

    def representation(self, batch: WindowBatch) -> Tensor:
        """The state at the last row."""
        self.check(batch)
        z_BD: Tensor = self.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA).z_BD
        return z_BD

    def packed_parts(self, precision: PackedPrecision) -> tuple[nn.Module, ...]:  # noqa: ARG002
        """All that is computed for a forecast but the head."""
        return (self.context_encoder, self.predictor)

    def channels_to_read(self, present_C: Tensor, absent_too: bool = True) -> Tensor | None:  # noqa: ARG002
        """The channels to read when only these are ever present; None for all. Asks the host, so not for training."""
        if self.config.encoder.empty_row == "first_channel":
            present_C = present_C | (torch.arange(len(present_C), device=present_C.device) == 0)
        return None if bool(present_C.all()) else present_C.nonzero().squeeze(1)

    def trained(self, stage: Stage) -> dict[str, nn.Parameter]:
        """All but the teacher, which follows by moving average; the head has no target while pretraining."""
        left = ("target_encoder", "head") if stage == "pretrain" else ("target_encoder",)
        return {name: weight for name, weight in self.named_parameters() if name.partition(".")[0] not in left}

    def views(
        self,
        measured: WindowBatch,  # noqa: ARG002
        changed: WindowBatch,
        gain_B1C: Tensor,  # noqa: ARG002
        masks: MaskConfig,
        objectives: ObjectiveConfig,
        generator: torch.Generator,
    ) -> tuple[WindowBatch, Views]:
        """Lines 2 and 10 of Algorithm 1: corrupt the context, then keep a random part of the channels still present."""
        m_BKC = corrupt(changed.x_BKC, changed.m_BKC, masks, generator)
        return changed, Views(m_BKC, schema_view(m_BKC, objectives.schema_keep, generator))

    def losses(
        self,
        batch: WindowBatch,
        views: Views,
        stage: Stage,
        objectives: ObjectiveConfig,
        group: ProcessGroup | None = None,
    ) -> Losses:
        """All active terms of a stage for one batch (lines 3-13 of Algorithm 1).

        Each process of a group runs its share through the network; the losses are those of the whole batch.
        """
        own, shown = (batch, views) if group is None else (group.part(batch), group.part(views))
        self.check(own)
        masks = [shown.m_BKC]
        if "schema" in objectives.active(stage):
            assert shown.reduced_m_BKC is not None, "the schema term needs a reduced view"
            masks.append(shown.reduced_m_BKC)
        # Both views go through the network as one batch of twice the size.
        copies = len(masks)
        x_VKC, a_VKA = own.x_BKC.repeat(copies, 1, 1), own.a_BKA.repeat(copies, 1, 1)
        context = self.encode(x_VKC, torch.cat(masks), a_VKA, pooled=True)
        said = self.decode(context, Plan.of(own, self.horizons).repeated(copies))
        forecast = cast(Gaussian, said.distribution)
        parts = (context.z_BD, context.pooled_BD, said.latent_BHD, forecast.mean, forecast.scale)
        full, *reduced = zip(*(part.split(len(own.x_BKC)) for part in parts), strict=True)
        tensors = [*full, self.encode_target(own, shown.m_BKC), *(reduced[0][2:4] if reduced else ())]
        seen = Seen(*(tensors if group is None else map(group.gather, tensors)))
        terms = loss_terms(self, batch, seen, stage, objectives)
        return Losses(terms, seen.latent_BHD.detach(), seen.target_BHD)

    def latents(self, batch: WindowBatch, prediction: Prediction) -> Latents:
        """Every latent of a batch that was forecast from all that it shows."""
        context: JepaContext = prediction.context
        assert context.pooled_BD is not None, "encode with `pooled`"
        future_x_BHC = self.instance_norm.normalise(batch.future_x_BHC, context.level)
        target_BHD = self.encode_target(batch)
        return Latents(
            context.z_BD, future_x_BHC, batch.future_m_BHC, context.pooled_BD, target_BHD, prediction.latent_BHD
        )

    @torch.no_grad()
    def encode_target(self, batch: WindowBatch, m_BKC: Tensor | None = None) -> Tensor:
        """The teacher's latents of the target rows, at the level of the context (as far as `m_BKC` shows it)."""
        level = self.level(batch.x_BKC, batch.m_BKC if m_BKC is None else m_BKC)
        x_BHC = self.instance_norm.normalise(batch.future_x_BHC, level)
        latent_BHD: Tensor = self.target_encoder(x_BHC, batch.future_m_BHC, len(self.schema.commands))
        return latent_BHD

    def update_target(self, momentum: float | Tensor) -> None:
        """Eq. (4): let the teacher follow the encoder, after the optimiser step."""
        self.target_encoder.update(self.context_encoder, momentum)
