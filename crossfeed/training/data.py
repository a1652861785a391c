"""Tables to windows in the one allowed order: split, fit the normaliser on train rows, cut windows on the device."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from crossfeed.errors import TableError
from crossfeed.ingest.row_period import check_row_period
from crossfeed.ingest.table import Group, Table
from crossfeed.schema import Schema
from crossfeed.training.run_config import DataConfig, RunConfig
from crossfeed.windows.normalise import ROBUST_FLOOR, Method, Normaliser
from crossfeed.windows.split import Part, Split, TrainRows, split_table
from crossfeed.windows.windows import WindowSet


@dataclass(frozen=True)
class SplitTables:
    """Tables with the sides of their splits; training, evaluation and comparisons all divide their tables here."""

    tables: tuple[Table, ...]
    splits: tuple[Split, ...]

    @classmethod
    def of(cls, tables: Sequence[Table], config: DataConfig) -> "SplitTables":
        """Split every table that is not left out; the same tables and configuration give the same sides."""
        kept = without_machines(tables, config.leave_out)
        fractions = (config.train_fraction, config.validation_fraction)
        splits = (split_table(table, config.split_by, config.split_seed, fractions) for table in kept)
        return cls(tuple(kept), tuple(splits))

    def normaliser(self, method: Method = "zscore", floor: float = ROBUST_FLOOR) -> Normaliser:
        """One normaliser for all tables, fitted on their train rows."""
        pairs = zip(self.splits, self.tables, strict=True)
        return Normaliser.fit(TrainRows.join([split.train_rows(table) for split, table in pairs]), method, floor)

    def groups(self, part: Part) -> list[tuple[Group, ...]]:
        """The groups of one side, table by table."""
        return [split.groups(table, part) for split, table in zip(self.splits, self.tables, strict=True)]

    def windows(
        self, part: Part, normaliser: Normaliser, context: int, horizons: tuple[int, ...], stride: int,
        device: torch.device | str, hidden: Iterable[str] = (),
    ) -> WindowSet:  # fmt: skip
        """The windows of one side of all tables."""
        tables, groups = list(self.tables), self.groups(part)
        return WindowSet.build(tables, groups, normaliser, context, horizons, stride, device, hidden)


@dataclass(frozen=True)
class TrainingData:
    """What a run reads: one normaliser for all machines, one set of windows for each side it may see."""

    schema: Schema
    period: float
    source: SplitTables
    normaliser: Normaliser
    train: WindowSet
    validation: WindowSet


def prepare(tables: Sequence[Table], config: RunConfig, device: torch.device) -> TrainingData:
    """Split every table, fit one normaliser on all their train rows, and lay out train and validation windows."""
    data, model = config.data, config.model
    _check(without_machines(tables, data.leave_out))
    source = SplitTables.of(tables, data)
    normaliser = source.normaliser(data.normaliser, data.robust_floor)
    train, validation = (
        source.windows(part, normaliser, model.context, model.horizons, data.stride, device)
        for part in ("train", "validation")
    )
    first = source.tables[0]
    return TrainingData(first.schema, first.period, source, normaliser, train, validation)


def without_machines(tables: Sequence[Table], machines: Sequence[str]) -> list[Table]:
    """The tables without the rows of these machines; a table of theirs alone is gone."""
    kept = []
    for table in tables:
        groups = [group for group in table.groups if group.machine not in machines]
        if groups:
            kept.append(table if len(groups) == len(table.groups) else table.select(groups))
    return kept


def _check(tables: Sequence[Table]) -> None:
    if not tables:
        raise TableError("No table was given to train on.", expected="at least one table")
    first = tables[0].schema
    for table in tables:
        name = " and ".join(table.machines())
        check_row_period(table.period, tables[0].period, f"The table of {name}", "the first one")
        if table.schema.fingerprint != first.fingerprint:
            raise TableError(
                f"The table of {name} has the schema '{table.schema.name}', the first one '{first.name}'.",
                expected="one schema for all tables; a machine that lacks a channel leaves it empty",
                remedy="Ingest all machines with the same schema.",
            )
        if not table.present().any():
            raise TableError(
                f"The table of {name} has no value in any of the {len(first.sensors)} sensors of the schema "
                f"'{first.name}'.",
                expected="at least one sensor of the schema with values",
                remedy="Check the column names and units in the machine's mapping, then ingest again.",
            )
