"""Evaluate a model file on a table: find out what the table is to the model, then report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.counterfactual import counterfactual_error, counterfactual_tables
from crossfeed.evaluation.evaluate import EvaluationSet, Unit
from crossfeed.evaluation.forecaster import Floor
from crossfeed.evaluation.forecaster import floors as floors_without_spread
from crossfeed.evaluation.plain import plain, write_plain
from crossfeed.evaluation.report import Suite, report
from crossfeed.evaluation.source import Source, foreign_set, idle_commands, model_device, read_table
from crossfeed.evaluation.target import fitted_floors
from crossfeed.evaluation.world_model import WorldModelForecaster
from crossfeed.ingest.row_period import check_row_period
from crossfeed.ingest.table import Table
from crossfeed.machines.simulated.catalogue import machine_named
from crossfeed.machines.simulated.rollout import SimulatedMachine
from crossfeed.model.config import parse
from crossfeed.model.locate import locate_model
from crossfeed.model.model_file import read_model_file
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.training.devices.precision import choose_device
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import Part

Side = Literal["auto", "train", "validation", "test", "all"]


@dataclass(frozen=True)
class OpenedModel:
    """A model from disk with what its file says about where it came from."""

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

    def check_rows(self, period: float, whose: str) -> None:
        """Refuse rows that are not as long as those the model learned from, where the file says it."""
        known = self.provenance.get("row_period", period)
        check_row_period(period, known, whose, "the model was trained on one")


def open_model(path: Path | str, device: str = "auto") -> OpenedModel:
    """Read a model file, or the model in the folder of a run or of an adaptation."""
    path = locate_model(path)
    file = read_model_file(path)
    model = WorldModel.load(path, device=choose_device(device))
    name = path.parent.name if path.name == "model.safetensors" and path.parent.name else path.stem
    return OpenedModel(path, WorldModelForecaster(model, name), file.sha256, file.provenance)


@dataclass(frozen=True)
class Facing:
    """A model facing a table: the windows to be judged on, the floors, and what the table is to the model."""

    data: EvaluationSet
    floors: list[Floor]
    part: str


def face(
    opened: OpenedModel, table: Table, part: Side = "auto", sources: Sequence[Table] = (), unit: Unit | None = None
) -> Facing:
    """Prepare the windows: the test side of a table the model was trained on, all of any other.

    `sources` are tables the model was trained on; together with an own `table` they give space and floors.
    """
    model = opened.model
    opened.check_rows(table.period, f"The table of {' and '.join(table.machines())}")
    own = opened.trained_on(table)
    if not own and part not in ("auto", "all"):
        raise ConfigError(
            f"The model was not trained on this table, so it has no {part} side.",
            expected="--part all, or a table the model was trained on",
        )
    strange = [" and ".join(source.machines()) for source in sources if not opened.trained_on(source)]
    if strange:
        raise TableError(
            f"The model was not trained on the source table of {', '.join(strange)}.",
            expected="the very tables given to crossfeed train (their fingerprints are in the model file)",
        )
    order = list(opened.provenance.get("tables", ()))
    known = {given.fingerprint(): given for given in [*([table] if own else []), *sources]}
    tables = [known[fingerprint] for fingerprint in order if fingerprint in known]
    rebuilt = Source.of(tables, opened.config.data) if tables else None
    space = _space(model, rebuilt, len(order))
    floors = fitted_floors(rebuilt, model) if rebuilt is not None else floors_without_spread(model.horizons)
    if rebuilt is None or not own or part == "all":
        return Facing(foreign_set(model, [table], space, unit or ("session" if own else "run")), floors, "all")
    side: Part = "test" if part == "auto" else part
    windows = Source.of([table], opened.config.data).windows(model, side)
    return Facing(EvaluationSet(windows, model.schema, model.normaliser, space, unit or "session"), floors, side)


def _space(model: WorldModel, source: Source | None, tables: int) -> Normaliser:
    """The common evaluation space: the model's own normaliser if it is a z-score, else that of all source rows."""
    if model.normaliser.method == "zscore":
        return model.normaliser
    if source is None or len(source.tables) != tables:
        raise ConfigError(
            "The model uses a robust normaliser, and the z-score of its source rows is not at hand.",
            expected=f"all {tables} tables the model was trained on",
            remedy="Add --source SOURCE.parquet for each of them.",
        )
    return source.space


def evaluate_model(
    model: Path | str,
    table: Path | str,
    *,
    part: Side = "auto",
    sources: Sequence[Path | str] = (),
    suite: Suite = "standard",
    unit: Unit | None = None,
    machine: str | None = None,
    out: Path | str | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Report on one model and one table; with `out`, also as `evaluation.json` in that folder.

    `machine` names a simulated machine on which changed plans are rolled out and compared with the forecasts.
    """
    opened = open_model(model, device)
    read = read_table(table, opened.model.schema)
    given = [read_table(source, opened.model.schema) for source in sources]
    facing = face(opened, read, part, given, unit)
    content = {
        "model": {"file": opened.path.name, "name": opened.forecaster.name, "sha256": opened.sha256},
        "table": {"file": Path(table).name, "fingerprint": read.fingerprint(), "machines": list(read.machines())},
        "period": read.period,
        "part": facing.part,
        "trained_on_this_table": opened.trained_on(read),
        "absent_commands": idle_commands(read, opened.model.schema),
        "floors_have_spread": any(floor.fitted for floor in facing.floors),
        **report([opened.forecaster.reading(facing.data.windows)], facing.floors, facing.data, suite),
    }
    if machine is not None:
        content["counterfactual"] = _counterfactual(opened.forecaster, machine, facing.data.space)
    if out is not None:
        write_plain(Path(out) / "evaluation.json", content)
    return dict(plain(content))


def _counterfactual(forecaster: WorldModelForecaster, machine: str, space: Normaliser) -> dict[str, Any]:
    """What the forecasts make of changed plans, judged by the simulator."""
    model = forecaster.model
    if model.schema.fingerprint != canonical().fingerprint:
        raise ConfigError(
            "Simulated machines speak the canonical schema, the model another one.",
            expected="a model of the canonical channels",
            remedy="Leave --machine away.",
        )
    simulated = SimulatedMachine(machine_named(machine))
    tables = counterfactual_tables(simulated, model.config.context, model.horizons[-1])
    found = counterfactual_error(
        forecaster, tables, model.normaliser, space, model.config.context, model.horizons, model_device(model)
    )
    return {"machine": machine, **found}
