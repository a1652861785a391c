"""A model from disk, ready to forecast, with what its file says about where it came from."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossfeed.configuration import parse
from crossfeed.errors import ConfigError
from crossfeed.evaluation.world_model import WorldModelForecaster
from crossfeed.ingest.align import check_row_period
from crossfeed.ingest.table import Table
from crossfeed.model.device import choose_device
from crossfeed.model.locate import MODEL, locate_model
from crossfeed.model.model_file import read_model_file
from crossfeed.model.new_machine import add_sensors, fit_to_machine
from crossfeed.model.world_model import WorldModel
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.frame import FIRST_SHARE


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

    def trained_on(self, table: Table) -> bool:
        """Whether this very table was among the tables of the training run."""
        return table.fingerprint() in self.provenance.get("tables", ())

    def meets(self, table: Table, share: float = FIRST_SHARE) -> "OpenedModel":
        """This model, or, if it is one of many machines, the same made ready for the machine of the table.

        `share` of each run tells the frame: all of a history that ends where the forecast begins, the beginning of runs
        that are to be judged.
        """
        if not self.model.normaliser.is_placeholder:
            return self
        model = fit_to_machine(self.model, table, self.provenance.get("usual_scales", {}), share)
        provenance = self.provenance | {"row_period": table.period}
        return replace(self, forecaster=WorldModelForecaster(model, self.forecaster.name), provenance=provenance)

    def takes_in(self, table: Table, share: float = FIRST_SHARE) -> "OpenedModel":
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


def open_model(path: Path | str, device: str = "auto", meets: bool = False) -> OpenedModel:
    """Read a model file, or the model in the folder of a run or of an adaptation; `fleet` is the one we ship.

    A model of many machines is refused unless the caller lets it meet a machine before anything is asked.
    """
    given, path = Path(path), locate_model(path)
    file = read_model_file(path)
    if file.normaliser.is_placeholder and not meets:
        raise ConfigError(
            f"{path.name} is a model of many machines and has not met this one yet.",
            expected="a model of one machine",
            remedy="Let it meet the machine: crossfeed adapt fleet --table own.parquet --out mine, then use mine.",
        )
    model = WorldModel.of_file(file, choose_device(device))
    in_folder = path.parent.name and (path.name == MODEL or given.is_dir())
    name = path.parent.name if in_folder else path.stem  # who named a folder knows it by that name
    return OpenedModel(path, WorldModelForecaster(model, name), file.sha256, file.provenance)
