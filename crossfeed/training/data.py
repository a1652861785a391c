"""Tables to windows in the one allowed order: split, fit the normaliser on train rows, cut windows on the device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from crossfeed.errors import TableError
from crossfeed.logs.align import check_row_period
from crossfeed.logs.table import Table
from crossfeed.schema import Schema
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split_tables import SplitTables, without_machines
from crossfeed.windows.windows import WindowSet


@dataclass(frozen=True)
class TrainingData:
    """What a run reads: one normaliser for all machines, one set of windows for each side it may see.

    `period` is the time between rows; None where machines of several periods are each read row by row.
    """

    schema: Schema
    period: float | None
    source: SplitTables
    normaliser: Normaliser
    train: WindowSet
    validation: WindowSet


def prepare(
    tables: Sequence[Table], config: RunConfig, device: torch.device, usual: Mapping[str, float] | None = None
) -> TrainingData:
    """Split every table, fit one normaliser on all their train rows, and lay out train and validation windows."""
    data, model = config.data, config.model
    by_row = data.normaliser == "frame"
    _check(without_machines(tables, data.leave_out), by_row)
    source = SplitTables.of(tables, data, usual)
    normaliser = source.normaliser(data.normaliser, data.robust_floor)
    train, validation = (
        source.windows(part, normaliser, model.context, model.horizons, data.stride, device)
        for part in ("train", "validation")
    )
    period = None if normaliser.is_placeholder else source.tables[0].period
    return TrainingData(source.tables[0].schema, period, source, normaliser, train, validation)


def _check(tables: Sequence[Table], by_row: bool) -> None:
    if not tables:
        raise TableError("No table was given to train on.", expected="at least one table")
    first = tables[0].schema
    for table in tables:
        name = " and ".join(table.machines())
        if not by_row:
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
