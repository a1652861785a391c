"""What a table is to a model: the side to be judged on, the common space, and naive baselines with or without a spread.

What a model was trained on is rebuilt from its tables: their split, and windows of each side.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.forecaster import NaiveForecaster, naive_baselines
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.evaluation.verdict import Unit
from crossfeed.logs.align import align
from crossfeed.logs.table import Group, Table
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import Part
from crossfeed.windows.split_tables import DataConfig, SplitTables
from crossfeed.windows.windows import WindowSet

Side = Literal["auto", "train", "validation", "test", "all"]


@dataclass(frozen=True)
class SourceData:
    """The source tables with their splits; `space` is the z-score of all their train rows, whatever a model uses."""

    split: SplitTables
    space: Normaliser

    @classmethod
    def of(cls, tables: Sequence[Table], data: DataConfig) -> "SourceData":
        """Split the tables exactly as training did."""
        split = SplitTables.of(tables, data)
        return cls(split, split.normaliser())

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that were not left out."""
        return self.split.tables

    def windows(self, model: WorldModel, part: Part, hidden: Iterable[str] = (), stride: int = 1) -> WindowSet:
        """Windows of one side in the model's own z-space."""
        return self.split.windows(
            part, model.normaliser, model.config.context, model.horizons, stride, model.device, hidden
        )

    def evaluation_set(
        self, model: WorldModel, part: Part, hidden: Iterable[str] = (), stride: int = 1, unit: Unit = "session"
    ) -> EvaluationSet:
        """The windows of one side, by default with sessions as independent units: they are what the split divides."""
        windows = self.windows(model, part, hidden, stride)
        return EvaluationSet(windows, model.schema, model.normaliser, self.space, unit)

    def of_machine(self, model: WorldModel, machine: str, part: Part, stride: int = 1) -> EvaluationSet:
        """The windows of one machine on one side, also of a machine the model never met."""
        groups = [tuple(group for group in own if group.machine == machine) for own in self.split.groups(part)]
        tables = [table for table, own in zip(self.tables, groups, strict=True) if own]
        return _strange_windows(model, tables, [own for own in groups if own], self.space, "session", stride)

    def naive_baselines(self, model: WorldModel) -> list[NaiveForecaster]:
        """The naive baselines with the spread they had on the train windows, in the model's z-space."""
        train, fitted = self.windows(model, "train"), naive_baselines(model.horizons)
        for baseline in fitted:
            baseline.fit(train, train, 0)
        return fitted


@dataclass(frozen=True)
class EvaluationSetup:
    """The windows to be judged on, the naive baselines beside the model, and which side of the table it is."""

    data: EvaluationSet
    naive: list[NaiveForecaster]
    part: str


def set_up(
    opened: OpenedModel, table: Table, part: Side = "auto", sources: Sequence[Table] = (), unit: Unit | None = None
) -> EvaluationSetup:
    """Prepare the windows: the test side of a table the model was trained on, all of any other.

    `sources` are tables the model was trained on; together with an own `table` they give space and naive baselines.
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
    # A run that went on from a model of many machines read its tables in the order of that model's commands.
    known = {given.fingerprint(): align(given, model.schema) for given in [*([table] if own else []), *sources]}
    tables = [known[fingerprint] for fingerprint in order if fingerprint in known]
    rebuilt = SourceData.of(tables, opened.config.data) if tables else None
    # Sensors that the model took in later are judged in the frame they were taken in by.
    space = _space(model, rebuilt, len(order)).completed_by(model.normaliser)
    beside = rebuilt.naive_baselines(model) if rebuilt is not None else naive_baselines(model.horizons)
    if rebuilt is None or not own or part == "all":
        return EvaluationSetup(foreign_set(model, [table], space, unit or ("session" if own else "run")), beside, "all")
    side: Part = "test" if part == "auto" else part
    alone = SourceData(SplitTables.of([known[table.fingerprint()]], opened.config.data), space)
    return EvaluationSetup(alone.evaluation_set(model, side, unit=unit or "session"), beside, side)


def _space(model: WorldModel, source: SourceData | None, tables: int) -> Normaliser:
    """The common evaluation space: the model's own normaliser if it is a z-score, else that of all source rows.

    A model of many machines is judged in the frame of the machine it has met.
    """
    if model.normaliser.method == "zscore" or (model.normaliser.method == "frame" and source is None):
        return model.normaliser
    if source is None or len(source.tables) != tables:
        raise ConfigError(
            "The model uses a robust normaliser, and the z-score of its source rows is not at hand.",
            expected=f"all {tables} tables the model was trained on",
            remedy="Add --source SOURCE.parquet for each of them.",
        )
    return source.space


def foreign_set(model: WorldModel, tables: Sequence[Table], space: Normaliser, unit: Unit = "run") -> EvaluationSet:
    """All windows of machines the model was not trained on, by default with runs as independent units.

    Sensors the source never showed are hidden: there is no scale to judge them by.
    """
    aligned = [align(table, model.schema) for table in tables]
    unseen = model.normaliser.unseen
    check_shared_sensors([name for name in model.schema.sensor_names if name not in unseen], aligned)
    return _strange_windows(model, aligned, None, space, unit)


def _strange_windows(
    model: WorldModel, tables: Sequence[Table], groups: Sequence[Sequence[Group]] | None, space: Normaliser,
    unit: Unit, stride: int = 1,
) -> EvaluationSet:  # fmt: skip
    """Windows that may show sensors the model never met; these are hidden."""
    hidden = [name for name in model.normaliser.unseen if name in model.schema.sensor_names]
    windows = WindowSet.build(
        tables, groups, model.normaliser, model.config.context, model.horizons, stride, model.device, hidden
    )
    return EvaluationSet(windows, model.schema, model.normaliser, space, unit)


def check_shared_sensors(known: Sequence[str], tables: Sequence[Table]) -> None:
    """Refuse machines that show none of the sensors that were trained on."""
    for table in tables:
        if not set(known) & set(table.shown()):
            raise TableError(
                f"The table of {', '.join(table.machines())} shows none of the sensors the model was trained on.",
                expected=f"at least one of {', '.join(known)}",
                remedy="Check the column mapping of the machine, or train on sensors that both machines have.",
            )


def sensors_not_read(model: WorldModel, table: Table) -> tuple[str, ...]:
    """The sensors that a table shows and the model never met."""
    met = set(model.schema.sensor_names) - set(model.normaliser.unseen)
    return tuple(name for name in table.shown() if name not in met)
