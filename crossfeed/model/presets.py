"""The complete methods: `paper()` as published, `mended()` without its errors, `crossfeed()` our best forecaster.

Every difference between them is listed in docs/method.md, and a test compares that list with these functions.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm
from crossfeed.errors import ConfigError
from crossfeed.model.config import ForecastObjectiveConfig, JepaConfig, ModelConfig, SensorConfig, Size
from crossfeed.model.jepa.encoder import EncoderConfig, TargetConfig
from crossfeed.model.jepa.objectives import ObjectiveConfig
from crossfeed.model.jepa.predictor import HeadConfig, PredictorConfig
from crossfeed.model.parts.blocks import BlockConfig
from crossfeed.model.parts.instance_norm import InstanceNormConfig
from crossfeed.windows.augment import MachineChanges, PlanChanges
from crossfeed.windows.corrupt import MaskConfig

Objectives = Annotated[ForecastObjectiveConfig | ObjectiveConfig, Field(discriminator="trains")]


class MethodConfig(CheckedForm):
    """The network, the views it is trained on and its objective: everything but the training run itself."""

    model: ModelConfig = SensorConfig()
    masks: MaskConfig = MaskConfig(channel_drop=0.25)
    machines: MachineChanges = MachineChanges(gain=0.3, level=0.1, noise=0.02)
    plans: PlanChanges = PlanChanges(share=0.5)
    objectives: Objectives = ForecastObjectiveConfig()

    @model_validator(mode="after")
    def _network_and_objective_fit(self) -> Self:
        wanted = "forecast" if self.model.network == "sensors" else "latents"
        if self.objectives.trains != wanted:
            raise ValueError(
                f"a network '{self.model.network}' is trained by objectives of the kind '{wanted}', not "
                f"'{self.objectives.trains}': choose the preset that has both, --preset crossfeed, mended or paper"
            )
        return self

    @property
    def jepa(self) -> JepaConfig:
        """The paper's network; refused where the configuration has the other one."""
        if not isinstance(self.model, JepaConfig):
            raise _other_network(self.model.network)
        return self.model

    @property
    def latents(self) -> ObjectiveConfig:
        """The objective that the paper's network is trained by; refused where the configuration has the other one."""
        if not isinstance(self.objectives, ObjectiveConfig):
            raise _other_network(self.model.network)
        return self.objectives


def _other_network(found: str) -> ConfigError:
    return ConfigError(
        f"This needs the paper's network and its latents, but the configuration has the network '{found}'.",
        expected="the preset mended or paper",
        remedy="Begin with --preset mended (or paper).",
    )


def crossfeed(size: Size = "compact") -> MethodConfig:
    """The default method: one token a sensor, a mixture for each forecast, machines that differ in training too."""
    return MethodConfig(model=SensorConfig().sized(size))


def mended(size: Size = "base") -> MethodConfig:
    """The paper's network with the errors found since mended."""
    return _of_the_paper(JepaConfig().sized(size), ObjectiveConfig())


def paper(size: Size = "base") -> MethodConfig:
    """The locked candidate of the paper (Appendix G)."""
    model = JepaConfig(
        blocks=BlockConfig(activation="relu"),
        encoder=EncoderConfig(empty_row="first_channel"),
        target=TargetConfig(dropout=True, positions="slot"),
        predictor=PredictorConfig(injection="token", conditioning="mean", horizon_embedding="slot"),
        head=HeadConfig(likelihood="nll", variance="hard_clamp", limit=8.0),
        instance_norm=InstanceNormConfig(kind="none"),
    )
    return _of_the_paper(model.sized(size), ObjectiveConfig(layer_norm_in="all", pooling="samples"))


def _of_the_paper(network: JepaConfig, objectives: ObjectiveConfig) -> MethodConfig:
    """Windows as they were logged, the paper's masks and objectives."""
    return MethodConfig(
        model=network,
        masks=MaskConfig(),
        machines=MachineChanges(),
        plans=PlanChanges(),
        objectives=objectives,
    )
