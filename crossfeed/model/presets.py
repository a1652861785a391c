"""The two complete methods: `paper()` as the paper states it, `crossfeed()` with the errors found since mended.

Every difference between them is listed in docs/method.md, and a test compares that list with these functions.
"""

from pydantic import BaseModel, ConfigDict

from crossfeed.model.blocks import BlockConfig
from crossfeed.model.config import ModelConfig, Size
from crossfeed.model.encoder import EncoderConfig
from crossfeed.model.head import HeadConfig
from crossfeed.model.instance_norm import InstanceNormConfig
from crossfeed.model.objectives import ObjectiveConfig
from crossfeed.model.predictor import PredictorConfig
from crossfeed.model.target_encoder import TargetConfig
from crossfeed.windows.corrupt import MaskConfig


class MethodConfig(BaseModel):
    """The network, the views it is trained on and its objective: everything but the training run itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelConfig = ModelConfig()
    masks: MaskConfig = MaskConfig()
    objectives: ObjectiveConfig = ObjectiveConfig()


def crossfeed(size: Size = "base") -> MethodConfig:
    """The default method."""
    return MethodConfig(model=ModelConfig().sized(size))


def paper(size: Size = "base") -> MethodConfig:
    """The locked candidate of the paper (Appendix G)."""
    model = ModelConfig(
        blocks=BlockConfig(activation="relu"),
        encoder=EncoderConfig(empty_row="first_channel"),
        target=TargetConfig(dropout=True, positions="slot"),
        predictor=PredictorConfig(injection="token", conditioning="mean", horizon_embedding="slot"),
        head=HeadConfig(likelihood="nll", variance="hard_clamp", limit=8.0),
        instance_norm=InstanceNormConfig(kind="none"),
    )
    return MethodConfig(model=model.sized(size))
