"""The configuration of the paper's network, and its five sizes."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from crossfeed.model.jepa.encoder import EncoderConfig, TargetConfig
from crossfeed.model.jepa.predictor import SLOTS, HeadConfig, PredictorConfig
from crossfeed.model.network_config import NetworkConfig
from crossfeed.model.parts.blocks import BlockConfig
from crossfeed.model.parts.instance_norm import InstanceNormConfig


class JepaConfig(NetworkConfig):
    """Everything that decides what the paper's network computes; the defaults are the mended one at base size."""

    sized_by: ClassVar = ("blocks.width", "blocks.heads", "encoder.temporal_layers", "predictor.layers")
    sizes: ClassVar = {
        "tiny": (64, 4, 2, 1),
        "compact": (128, 4, 4, 2),
        "base": (256, 8, 6, 4),
        "medium": (384, 8, 6, 4),
        "large": (512, 8, 8, 6),
    }
    network: Literal["jepa"] = "jepa"
    blocks: BlockConfig = BlockConfig()
    encoder: EncoderConfig = EncoderConfig()
    target: TargetConfig = TargetConfig()
    predictor: PredictorConfig = PredictorConfig()
    head: HeadConfig = HeadConfig()
    instance_norm: InstanceNormConfig = InstanceNormConfig()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        horizons = self.horizons
        if self.predictor.horizon_embedding == "slot" and len(horizons) > SLOTS:
            raise ValueError(
                f"{len(horizons)} horizons do not fit {SLOTS} slots: set predictor.horizon_embedding to 'value'"
            )
        if self.instance_norm.kind != "none" and self.context < 2:
            raise ValueError(
                f"instance normalisation '{self.instance_norm.kind}' of a context of one row leaves nothing to read: "
                "set context to 2 or more, or instance_norm.kind to 'none'"
            )
        needed = max(self.context, horizons[-1] + 1 if self.target.positions == "horizon" else len(horizons))
        if self.encoder.positions < needed:
            raise ValueError(
                f"the time table has {self.encoder.positions} rows but context and horizons need {needed}: "
                f"set encoder.positions to {needed} or more"
            )
        return self

    @property
    def width(self) -> int:
        """The width of the latents."""
        return self.blocks.width
