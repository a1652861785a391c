"""What a world model is, whichever network it has: encode a window once, decode it under any plan.

B windows, K context rows, R rows, C sensors, A commands."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from crossfeed.errors import ConfigError
from crossfeed.model.config import JepaConfig, SensorConfig
from crossfeed.model.delayed_plans import plans_by_delay
from crossfeed.model.distribution import Distribution
from crossfeed.model.forecast import Forecast, forecast
from crossfeed.model.interface import (
    Context,
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
from crossfeed.model.model_file import ModelFile, check_tensors, read_model_file, write_model_file
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.schema import Schema
from crossfeed.windows.corrupt import MaskConfig
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch


class WorldModel(nn.Module, ABC):
    """Reads any subset of a schema's sensors and says what they will do under planned commands.

    adaptation_parts: which parameters each way of adapting may move. fresh_heads: parts that begin anew after
    pretraining. compares_latents: whether it learns by comparing latents, which can collapse. keeps_rows: whether a row
    is dear enough to read that it pays to keep what was read. worth_compiling: whether a run of usual length gains more
    than the minute that compiling takes.
    """

    adaptation_parts: ClassVar[dict[str, tuple[str, ...]]] = {}
    fresh_heads: ClassVar[tuple[str, ...]] = ()
    compares_latents: ClassVar[bool] = False
    keeps_rows: ClassVar[bool] = False
    worth_compiling: ClassVar[bool] = False
    # By how much wider forecasts have to be at each horizon; None where that is not fitted after training.
    variance_inflation_H: Tensor | None
    # What members disagree by in all but one of a hundred windows of the source; 0 where that was not measured.
    disagreement_threshold: Tensor

    def __init__(self, config: SensorConfig | JepaConfig, schema: Schema, normaliser: Normaliser) -> None:
        super().__init__()
        if (normaliser.sensor_names, normaliser.command_names) != (schema.sensor_names, schema.command_names):
            raise ConfigError(
                f"The normaliser was fitted on other channels than those of the schema '{schema.name}'.",
                expected=f"{', '.join(schema.sensor_names + schema.command_names)}, in this order",
            )
        self.config, self.schema, self.normaliser = config, schema, normaliser
        self.horizons = config.horizons
        self.register_buffer("variance_inflation_H", None)
        self.register_buffer("disagreement_threshold", torch.zeros(()), persistent=False)

    @property
    def device(self) -> torch.device:
        """Where the model lies, and so where its windows must lie."""
        return next(self.parameters()).device

    @staticmethod
    def build(config: SensorConfig | JepaConfig, schema: Schema, normaliser: Normaliser) -> "WorldModel":
        """A model with fresh weights and the network that its configuration names."""
        from crossfeed.model.jepa.model import JepaModel
        from crossfeed.model.sensors.model import SensorModel

        if isinstance(config, JepaConfig):
            return JepaModel(config, schema, normaliser)
        return SensorModel(config, schema, normaliser)

    def encode(
        self, x_BKC: Tensor, m_BKC: Tensor, a_BKA: Tensor, channels: Tensor | None = None, pooled: bool = False
    ) -> Context:
        """The context from what is present; it serves any number of plans.

        `channels` names the columns worth reading when the others are absent throughout; it saves their cost. `pooled`
        asks for the mean latent over all rows as well, which only the paper's objectives and health read.
        """
        return self.context(self.read(x_BKC, m_BKC, self.level(x_BKC, m_BKC), channels), a_BKA, pooled)

    @abstractmethod
    def decode(self, context: Any, plan: Plan) -> Prediction:
        """A distribution for every sensor and horizon under a plan, in global z-space."""

    @abstractmethod
    def level(self, x_BKC: Tensor, m_BKC: Tensor) -> Statistics | None:
        """What is taken out of each window before it is read and put back into its forecast; None for nothing."""

    @abstractmethod
    def read(self, x_BRC: Tensor, m_BRC: Tensor, level: Statistics | None, channels: Tensor | None = None) -> Rows:
        """Rows in the form in which they can be kept and used again under the same level."""

    @abstractmethod
    def context(self, rows: Any, a_BKA: Tensor, pooled: bool = False) -> Context:
        """The context from K rows that were read."""

    def decode_rows(self, context: Any, now_B1A: Tensor, future_BTA: Tensor) -> Distribution:
        """What follows, row by row (B, T, C), up to the last horizon; rows between horizons as in `delayed_plans`."""
        rows = range(1, future_BTA.shape[1] + 1)
        by_row: dict[int, Distribution] = {}
        for numbers, plan in plans_by_delay(now_B1A, future_BTA, rows, self.horizons):
            answer = self.decode(context, plan).distribution
            by_row |= {row: answer[:, number] for number, row in enumerate(numbers)}
        return Distribution.stack([by_row[row] for row in range(len(rows))], 1)

    @property
    def members(self) -> int:
        """How many networks speak; a sampled path keeps to one of them."""
        return 1

    def member(self, number: int) -> "WorldModel":
        """One of the networks, as a model of its own."""
        assert number == 0, "there is only one network"
        return self

    @abstractmethod
    def decode_paths(self, rows: Any, a_KA: Tensor, future_TA: Tensor, channels: Tensor) -> Distribution:
        """What follows each of B sampled paths under one plan, as `decode_rows`, of some channels only."""

    @abstractmethod
    def packed_parts(self, precision: PackedPrecision) -> tuple[nn.Module, ...]:
        """The parts that forecast faster on a CPU from weights that are laid out for it; none where that is no gain."""

    @abstractmethod
    def channels_to_read(self, present_C: Tensor, absent_too: bool = True) -> Tensor | None:
        """The channels to read when only these are ever present; None for all. Asks the host, so not for training.

        `absent_too`: whether anybody will look at the forecasts of sensors that are absent.
        """

    @abstractmethod
    def representation(self, batch: WindowBatch) -> Tensor:
        """What the model keeps of the context of each window, for questions about it from outside: (B, D)."""

    @abstractmethod
    def views(
        self,
        measured: WindowBatch,
        changed: WindowBatch,
        gain_B1C: Tensor,
        masks: MaskConfig,
        objectives: Any,
        generator: torch.Generator,
    ) -> tuple[WindowBatch, Views]:
        """The batch to learn from, and what of it is shown.

        `changed` are the measured windows as another machine might show them, with sensors gained by `gain_B1C`.
        """

    @abstractmethod
    def losses(
        self, batch: WindowBatch, views: Views, stage: Stage, objectives: Any, group: ProcessGroup | None = None
    ) -> Losses:
        """The active terms of a stage for one batch; the processes of a group share the work."""

    def latents(self, batch: WindowBatch, prediction: Prediction) -> Latents | None:  # noqa: ARG002
        """The latents that are compared, for a look at their health; None where none are."""
        return None

    def trained(self, stage: Stage) -> dict[str, nn.Parameter]:  # noqa: ARG002
        """The parameters that a stage moves, by name."""
        return dict(self.named_parameters())

    def forward(self, batch: WindowBatch, m_BKC: Tensor | None = None) -> Prediction:
        """Context and planned commands in, distributions at all horizons out; `m_BKC` shows a part only."""
        self.check(batch)
        m_BKC = batch.m_BKC if m_BKC is None else m_BKC
        context = self.encode(batch.x_BKC, m_BKC, batch.a_BKA, pooled=True)
        return self.decode(context, Plan.of(batch, self.horizons))

    def check(self, batch: WindowBatch) -> None:
        """Refuse windows that were cut for another model."""
        found = (batch.x_BKC.shape[1], batch.mean_a_BHA.shape[1], batch.future_a_BTA.shape[1])
        if found != (self.config.context, len(self.horizons), self.horizons[-1]):
            raise ConfigError(
                f"The windows have {found[0]} context rows and {found[1]} horizons up to {found[2]}.",
                expected=f"{self.config.context} context rows and the horizons {', '.join(map(str, self.horizons))}",
                remedy="Build the window set with the context and horizons of the model.",
            )

    def update_target(self, momentum: float | Tensor) -> None:
        """After an optimiser step: let a teacher follow, where the network has one."""

    def forecast(
        self, history: Any, commands: Any, horizons: Sequence[int] | None = None, batch_size: int = 128
    ) -> Forecast:
        """Physical units in and out: see `crossfeed.model.forecast`."""
        return forecast(self, history, commands, horizons, batch_size)

    def save(self, path: Path | str, provenance: dict[str, Any]) -> str:
        """Write one self-contained model file; returns its content hash."""
        return write_model_file(path, self.config, self.schema, self.normaliser, self.state_dict(), provenance)

    @staticmethod
    def load(path: Path | str, schema: Schema | None = None, device: torch.device | str = "cpu") -> "WorldModel":
        """Read a model file strictly, ready to forecast; with `schema`, refuse other or reordered channels."""
        return WorldModel.of_file(read_model_file(path, schema), device)

    @staticmethod
    def of_file(file: ModelFile, device: torch.device | str = "cpu") -> "WorldModel":
        """The model in a file that was read already, ready to forecast."""
        model = WorldModel.build(file.config, file.schema, file.normaliser)
        check_tensors(file.path, file.tensors, model.state_dict())
        model.load_state_dict(file.tensors)
        return model.to(device).eval()


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes a GPU when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"The device '{name}' cannot be used: {reason}", expected="auto, cpu, cuda or cuda:<number>"
        ) from error
    return device
