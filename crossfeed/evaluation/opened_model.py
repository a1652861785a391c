"""A model from disk behind the interface of everything that forecasts, with what its file says of its origin."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from torch import Tensor, nn

from crossfeed.configuration import parse
from crossfeed.errors import ConfigError
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.logs.align import check_row_period, idle_commands, missed_commands
from crossfeed.logs.table import Table
from crossfeed.model.distribution import Distribution
from crossfeed.model.interface import Plan
from crossfeed.model.model_file import MODEL, locate_model, read_model_file
from crossfeed.model.new_machine import add_sensors, fit_to_machine
from crossfeed.model.world_model import WorldModel, choose_device
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.frame import FIRST_SHARE
from crossfeed.windows.windows import WindowBatch, WindowSet


class WorldModelForecaster(Forecaster):
    """A trained world model, as `crossfeed train` makes it."""

    uses_future_commands = True
    thread_safe = True

    def __init__(self, model: WorldModel, name: str = "world model") -> None:
        self.model, self.name = model.eval(), name
        self._channels: Tensor | None = None

    @property
    def module(self) -> nn.Module:
        """What adaptation may change."""
        return self.model

    def reading(self, windows: WindowSet) -> Self:
        """Skip the sensors that these windows never show: the same forecasts of all others for less work."""
        self._channels = self.model.channels_to_read(windows.m_NC.any(0), absent_too=False)
        return self

    def predict(self, batch: WindowBatch) -> Distribution:
        return self.predict_plans([batch])[0]

    def predict_plans(self, batches: Sequence[WindowBatch]) -> list[Distribution]:
        """Forecasts for batches that differ in their plans alone; the context is encoded once."""
        first, model = batches[0], self.model
        context = model.encode(first.x_BKC, first.m_BKC, first.a_BKA, self._channels_for(first))
        return [model.decode(context, Plan.of(planned, model.horizons)).distribution for planned in batches]

    def _channels_for(self, batch: WindowBatch) -> Tensor | None:
        """The sensors to read; all of them if the batch shows one that was not expected."""
        if self._channels is None:
            return None
        skipped = batch.m_BKC.flatten(0, 1).any(0)
        skipped[self._channels] = False
        return None if bool(skipped.any()) else self._channels


@dataclass(frozen=True)
class OpenedModel:
    """A model with its name, the hash of its file and its provenance."""

    path: Path
    forecaster: WorldModelForecaster
    sha256: str
    provenance: dict[str, Any]

    @property
    def model(self) -> WorldModel:
        return self.forecaster.model

    @property
    def config(self) -> RunConfig:
        """The complete configuration of the training run."""
        if "config" not in self.provenance:
            raise ConfigError(
                f"{self.path} does not say how it was trained, so its split cannot be rebuilt.",
                expected="a model file made by crossfeed train",
            )
        return parse(RunConfig, self.provenance["config"], f"The configuration in {self.path}")

    def misses(self, table: Table) -> dict[str, float]:
        """The commands it learned from that the table lacks, with what each is taken for."""
        return missed_commands(idle_commands(table, self.model.schema), self.provenance.get("command_range", {}))

    def trained_on(self, table: Table) -> bool:
        """Whether this very table was among the tables of the training run."""
        return table.fingerprint() in self.provenance.get("tables", ())

    def fitted_to(self, table: Table, share: float = FIRST_SHARE) -> "OpenedModel":
        """This model, or, if it is one of many machines, the same made ready for the machine of the table.

        `share` of each run tells the frame: all of a history that ends where the forecast begins, the beginning of runs
        that are to be judged.
        """
        if not self.model.normaliser.is_placeholder:
            return self
        model = fit_to_machine(self.model, table, self.provenance.get("usual_scales", {}), share)
        provenance = self.provenance | {"row_period": table.period}
        return replace(self, forecaster=WorldModelForecaster(model, self.forecaster.name), provenance=provenance)

    def with_sensors_of(self, table: Table, share: float = FIRST_SHARE) -> "OpenedModel":
        """This model, with sensors of the table that it never met where its network can read any sensor.

        `share` of each run tells their frame.
        """
        model = add_sensors(self.model, table, self.provenance.get("usual_scales", {}), share)
        if model is self.model:
            return self
        return replace(self, forecaster=WorldModelForecaster(model, self.forecaster.name))

    def check_rows(self, period: float, whose: str) -> None:
        """Refuse rows that are not as long as those the model learned from, where the file says it."""
        known = self.provenance.get("row_period", period)
        check_row_period(period, known, whose, "the model was trained on one")


class HasOpened(Protocol):
    """A fitted model, in which an opened one lies."""

    @property
    def opened(self) -> OpenedModel: ...


AnyModel = OpenedModel | HasOpened | Path | str


def as_opened(model: AnyModel, device: str = "auto") -> OpenedModel:
    """A model, or the one at a path, which may still have to meet its machine."""
    if isinstance(model, Path | str):
        return open_model(model, device, many_machines=True)
    opened = getattr(model, "opened", model)
    if not isinstance(opened, OpenedModel):
        raise ConfigError(
            f"A {type(model).__name__} is no fitted model.",
            expected="what cf.fit, cf.adapt or cf.load return, or the path of a model",
        )
    return opened


def open_model(path: Path | str, device: str = "auto", many_machines: bool = False) -> OpenedModel:
    """Read a model file, or the model in the folder of a run or of an adaptation; `fleet` is the one we ship.

    A model of many machines is refused unless the caller lets it meet a machine before anything is asked.
    """
    given, path = Path(path), locate_model(path)
    file = read_model_file(path)
    if file.normaliser.is_placeholder and not many_machines:
        raise ConfigError(
            f"{path.name} is a model of many machines and has not met this one yet.",
            expected="a model of one machine",
            remedy="Let it meet the machine: crossfeed adapt fleet --table own.parquet --out mine, then use mine.",
        )
    model = WorldModel.of_file(file, choose_device(device))
    in_folder = path.parent.name and (path.name == MODEL or given.is_dir())
    name = path.parent.name if in_folder else path.stem  # who named a folder knows it by that name
    return OpenedModel(path, WorldModelForecaster(model, name), file.sha256, file.provenance)
