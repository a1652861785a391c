"""The world model: Section 4 of the paper, part by part.

B windows, K context rows, H horizons, T longest horizon, C sensors, A commands, D latent width.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from crossfeed.errors import ConfigError
from crossfeed.model.anchor import Anchor
from crossfeed.model.config import ModelConfig
from crossfeed.model.encoder import Encoder
from crossfeed.model.forecast import Forecast, forecast
from crossfeed.model.head import Head
from crossfeed.model.instance_norm import InstanceNorm, Statistics
from crossfeed.model.model_file import check_tensors, read_model_file, write_model_file
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
        if (normaliser.sensor_names, normaliser.command_names) != (schema.sensor_names, schema.command_names):
            raise ConfigError(
                f"The normaliser was fitted on other channels than those of the schema '{schema.name}'.",
                expected=f"{', '.join(schema.sensor_names + schema.command_names)}, in this order",
            )
        self.config, self.schema, self.normaliser = config, schema, normaliser
        self.horizons = config.horizons
        sensors, commands, width = len(schema.sensors), len(schema.commands), config.blocks.width
        self.instance_norm = InstanceNorm(config.instance_norm)
        self.context_encoder = Encoder(config.encoder, config.blocks, sensors, commands)
        self.target_encoder = TargetEncoder(config.target, self.context_encoder, config.horizons)
        self.predictor = Predictor(config.predictor, config.blocks, commands, config.horizons)
        anchored = config.instance_norm.kind == "anchored"
        anchor = Anchor(width, normaliser, config.instance_norm.reach) if anchored else None
        self.head = Head(config.head, width, sensors, anchor)
        self.recovery = Recovery(width, commands)

    def encode(self, x_BKC: Tensor, m_BKC: Tensor, a_BKA: Tensor, channels: Tensor | None = None) -> Context:
        """Eq. (2): the context state from what is present, in the space of the window.

        `channels` names the columns worth reading when the others are absent throughout; it saves their cost.
        """
        statistics = self.instance_norm.statistics(x_BKC, m_BKC)
        row_BKD = self.encode_rows(x_BKC, m_BKC, statistics, channels)
        return self.encode_sequence(row_BKD, a_BKA, statistics)

    def encode_rows(
        self, x_BKC: Tensor, m_BKC: Tensor, statistics: Statistics | None, channels: Tensor | None = None
    ) -> Tensor:
        """First pass of the encoder; under unchanged statistics a row's vector can be kept and used again."""
        x_BKC = self.instance_norm.normalise(x_BKC, statistics)
        if channels is not None:
            x_BKC, m_BKC = x_BKC[..., channels], m_BKC[..., channels]
        return self.context_encoder.rows(x_BKC, m_BKC, channels)

    def worth_reading(self, present_C: Tensor) -> Tensor | None:
        """The channels to read when only these are ever present; None for all. Asks the host, so not for training."""
        if self.config.encoder.empty_row == "first_channel":
            present_C = present_C | (torch.arange(len(present_C), device=present_C.device) == 0)
        return None if bool(present_C.all()) else present_C.nonzero().squeeze(1)

    def encode_sequence(self, row_BKD: Tensor, a_BKA: Tensor, statistics: Statistics | None) -> Context:
        """Second pass of the encoder, over the row vectors."""
        encoding = self.context_encoder.sequence(row_BKD, a_BKA)
        return Context(encoding.z_BD, encoding.steps_BKD, encoding.pooled_BD, statistics)

    def predict(
        self, z_BD: Tensor, mean_a_BHA: Tensor, future_a_BTA: Tensor, horizons: tuple[int, ...] | None = None
    ) -> Tensor:
        """Eq. (3): latents at every horizon under the planned commands."""
        latent_BHD: Tensor = self.predictor(z_BD, mean_a_BHA, future_a_BTA, horizons)
        return latent_BHD

    def decode(self, latent_BHD: Tensor, context: Context) -> Prediction:
        """Eq. (11): a distribution for every sensor, in global z-space."""
        mean_BHC, log_variance_BHC = self.moments(latent_BHD, context.statistics)
        return Prediction(latent_BHD, mean_BHC, log_variance_BHC, self.head.degrees_of_freedom, context)

    def moments(self, latent_BHD: Tensor, statistics: Statistics | None) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of every sensor, mapped back from the space of the window."""
        mean_BHC, log_variance_BHC = self.head(latent_BHD)
        log_variance_BHC = self.instance_norm.restore_log_variance(log_variance_BHC, statistics)
        mean_BHC = self.instance_norm.restore_mean(mean_BHC, statistics)
        if self.head.anchor is not None and statistics is not None:
            mean_BHC = mean_BHC + self.head.anchor(latent_BHD, statistics.centre_BC)
        return mean_BHC, self.head.bound(log_variance_BHC)

    def representation(self, batch: WindowBatch) -> Tensor:
        """What the model keeps of the context of each window, for questions about it from outside: (B, D)."""
        self._check(batch)
        return self.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA).z_BD

    def forward(self, batch: WindowBatch, m_BKC: Tensor | None = None) -> Prediction:
        """Eq. (12): context and planned commands in, distributions at all horizons out; `m_BKC` shows a part only."""
        self._check(batch)
        context = self.encode(batch.x_BKC, batch.m_BKC if m_BKC is None else m_BKC, batch.a_BKA)
        return self.decode(self.predict(context.z_BD, batch.mean_a_BHA, batch.future_a_BTA), context)

    def forward_views(self, batch: WindowBatch, *masks: Tensor) -> tuple[Prediction, ...]:
        """Several views of the same windows in one pass, one prediction for each."""
        self._check(batch)
        copies = len(masks)
        context = self.encode(batch.x_BKC.repeat(copies, 1, 1), torch.cat(masks), batch.a_BKA.repeat(copies, 1, 1))
        latent_VHD = self.predict(
            context.z_BD, batch.mean_a_BHA.repeat(copies, 1, 1), batch.future_a_BTA.repeat(copies, 1, 1)
        )
        return self.decode(latent_VHD, context).split(len(batch.x_BKC))

    def _check(self, batch: WindowBatch) -> None:
        """Refuse windows that were cut for another model."""
        found = (batch.x_BKC.shape[1], batch.mean_a_BHA.shape[1], batch.future_a_BTA.shape[1])
        if found != (self.config.context, len(self.horizons), self.horizons[-1]):
            raise ConfigError(
                f"The windows have {found[0]} context rows and {found[1]} horizons up to {found[2]}.",
                expected=f"{self.config.context} context rows and the horizons {', '.join(map(str, self.horizons))}",
                remedy="Build the window set with the context and horizons of the model.",
            )

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

    def forecast(
        self, history: Any, commands: Any, horizons: Sequence[int] | None = None, batch_size: int = 128
    ) -> Forecast:
        """Physical units in and out: see `crossfeed.model.forecast`."""
        return forecast(self, history, commands, horizons, batch_size)

    def save(self, path: Path | str, provenance: dict[str, Any]) -> str:
        """Write one self-contained model file; returns its content hash."""
        return write_model_file(path, self.config, self.schema, self.normaliser, self.state_dict(), provenance)

    @classmethod
    def load(cls, path: Path | str, schema: Schema | None = None, device: torch.device | str = "cpu") -> Self:
        """Read a model file strictly, ready to forecast; with `schema`, refuse other or reordered channels."""
        file = read_model_file(path, schema)
        model = cls(file.config, file.schema, file.normaliser)
        check_tensors(path, file.tensors, model.state_dict())
        model.load_state_dict(file.tensors)
        return model.to(device).eval()
