"""The world model: Section 4 of the paper, part by part.

B windows, K context rows, H horizons, T longest horizon, C sensors, A commands, D latent width.
"""

import torch
from torch import Tensor, nn

from crossfeed.model.config import ModelConfig
from crossfeed.model.encoder import Encoder
from crossfeed.model.head import Head
from crossfeed.model.instance_norm import InstanceNorm, Statistics
from crossfeed.model.prediction import Context, Prediction
from crossfeed.model.predictor import Predictor
from crossfeed.model.recovery import Recovery
from crossfeed.model.target_encoder import TargetEncoder
from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch


class WorldModel(nn.Module):
    """Reads any subset of a schema's sensors and says what they will do under planned commands."""

    def __init__(self, config: ModelConfig, schema: Schema, normaliser: Normaliser) -> None:
        super().__init__()
        self.config, self.schema, self.normaliser = config, schema, normaliser
        self.horizons = config.horizons
        sensors, commands, width = len(schema.sensors), len(schema.commands), config.blocks.width
        self.instance_norm = InstanceNorm(config.instance_norm)
        self.context_encoder = Encoder(config.encoder, config.blocks, sensors, commands)
        self.target_encoder = TargetEncoder(config.target, self.context_encoder, config.horizons)
        self.predictor = Predictor(config.predictor, config.blocks, commands, config.horizons)
        self.head = Head(config.head, width, sensors)
        self.recovery = Recovery(width, commands)

    def encode(self, x_BKC: Tensor, m_BKC: Tensor, a_BKA: Tensor) -> Context:
        """Eq. (2): the context state from what is present, in the space of the window."""
        statistics = self.instance_norm.statistics(x_BKC, m_BKC)
        encoding = self.context_encoder(self.instance_norm.normalise(x_BKC, statistics), m_BKC, a_BKA)
        return Context(encoding.z_BD, encoding.steps_BKD, encoding.pooled_BD, statistics)

    def predict(
        self, z_BD: Tensor, mean_a_BHA: Tensor, future_a_BTA: Tensor, horizons: tuple[int, ...] | None = None
    ) -> Tensor:
        """Eq. (3): latents at every horizon under the planned commands."""
        latent_BHD: Tensor = self.predictor(z_BD, mean_a_BHA, future_a_BTA, horizons)
        return latent_BHD

    def decode(self, latent_BHD: Tensor, context: Context) -> Prediction:
        """Eq. (11): a distribution for every sensor, mapped back from the space of the window."""
        mean_BHC, log_variance_BHC = self.head(latent_BHD)
        return Prediction(
            latent_BHD=latent_BHD,
            mean_BHC=self.instance_norm.restore_mean(mean_BHC, context.statistics),
            log_variance_BHC=self.head.bound(
                self.instance_norm.restore_log_variance(log_variance_BHC, context.statistics)
            ),
            degrees_of_freedom_C=self.head.degrees_of_freedom,
            context=context,
        )

    def forward(self, batch: WindowBatch, m_BKC: Tensor | None = None) -> Prediction:
        """Eq. (12): context and planned commands in, distributions at all horizons out; `m_BKC` shows a part only."""
        context = self.encode(batch.x_BKC, batch.m_BKC if m_BKC is None else m_BKC, batch.a_BKA)
        return self.decode(self.predict(context.z_BD, batch.mean_a_BHA, batch.future_a_BTA), context)

    def forward_views(self, batch: WindowBatch, *masks: Tensor) -> tuple[Prediction, ...]:
        """Several views of the same windows in one pass, one prediction for each."""
        copies = len(masks)
        context = self.encode(batch.x_BKC.repeat(copies, 1, 1), torch.cat(masks), batch.a_BKA.repeat(copies, 1, 1))
        latent_VHD = self.predict(
            context.z_BD, batch.mean_a_BHA.repeat(copies, 1, 1), batch.future_a_BTA.repeat(copies, 1, 1)
        )
        return self.decode(latent_VHD, context).split(len(batch.x_BKC))

    @torch.no_grad()
    def encode_target(self, batch: WindowBatch, statistics: Statistics | None = None) -> Tensor:
        """The teacher's latents of the target rows, normalised with the statistics of the context; no gradient."""
        if statistics is None:
            statistics = self.instance_norm.statistics(batch.x_BKC, batch.m_BKC)
        x_BHC = self.instance_norm.normalise(batch.future_x_BHC, statistics)
        latent_BHD: Tensor = self.target_encoder(x_BHC, batch.future_m_BHC, len(self.schema.commands))
        return latent_BHD

    def update_target(self, momentum: float | Tensor) -> None:
        """Eq. (4): let the teacher follow the encoder, after the optimiser step."""
        self.target_encoder.update(self.context_encoder, momentum)
