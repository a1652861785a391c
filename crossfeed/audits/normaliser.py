"""Which rows fitted a normaliser: told by the hash it carries, and by its numbers when the hash is of no help."""

import hashlib
from collections.abc import Iterator

import numpy as np

from crossfeed.audits.finding import Finding
from crossfeed.audits.split import names_of, side_lists
from crossfeed.audits.subject import Case
from crossfeed.ingest.table import Group, Table, row_numbers
from crossfeed.windows.normalise import Normaliser, channel_statistics
from crossfeed.windows.split import rows_hash

# Statistics of the same rows agree far better than this; those of other rows do not.
TOLERANCE = 1e-9


def check_normaliser(case: Case) -> Iterator[Finding]:
    """Report a normaliser that saw anything but the train side."""
    if case.normaliser is None or case.split is None or not case.tables:
        return
    sides = side_lists(case.split)
    train = next((name for name in sides if name.lower().startswith("train")), next(iter(sides)))
    sets = _row_sets(case.tables, sides, train)
    by_hash = [name for name, groups in sets.items() if _hash(case.tables, groups) == case.normaliser.fitted_on]
    by_numbers = [name for name, groups in sets.items() if _agrees(case.normaliser, case.tables, groups)]
    if train in by_hash and train in by_numbers:
        return
    culprits = [name for name in (by_numbers or by_hash) if name != train]
    if culprits and train not in by_numbers:
        yield Finding(
            severity="violation",
            subject="normaliser",
            measured=f"its statistics are those of {culprits[0]}, not of {train}",
            meaning="validation or test rows shaped the inputs: every later score is a little too good",
            cause="the scaler was fitted before the split, or refitted at evaluation",
            remedy="Fit on split.train_rows(table) only, and never again.",
            numbers={"rows": culprits[0]},
        )
    elif train in by_numbers:
        yield Finding(
            severity="warning",
            subject="normaliser",
            measured=f"its numbers are those of {train}, its hash {case.normaliser.fitted_on[:12]} is not",
            meaning="the numbers are right; where they come from is not proven",
            cause="the table was written anew or its sessions were reordered after fitting",
            remedy="Fit again on this table, so that the hash can be verified.",
        )
    else:
        yield Finding(
            severity="violation",
            subject="normaliser",
            measured="its statistics fit neither the train side nor any other side of these tables",
            meaning="the model was scaled by rows nobody can name",
            cause="another table, another split, or statistics edited by hand",
            remedy="Audit with the tables and the split that were used for training.",
        )


def _row_sets(tables: tuple[Table, ...], sides: dict[str, list[str]], train: str) -> dict[str, list[list[Group]]]:
    """The row sets a normaliser may have seen: each side, train with each other side, and all rows."""

    def chosen(*names: str) -> list[list[Group]]:
        units = {unit for name in names for unit in sides[name]}
        return [[group for group in table.groups if names_of(group) & units] for table in tables]

    others = [name for name in sides if name != train]
    sets = {train: chosen(train)}
    sets |= {f"{train} and {other}": chosen(train, other) for other in others}
    sets |= {other: chosen(other) for other in others}
    sets["all sides"] = chosen(*sides)
    sets["all rows"] = [list(table.groups) for table in tables]
    return sets


def _hash(tables: tuple[Table, ...], groups: list[list[Group]]) -> str:
    parts = [rows_hash(table, chosen) for table, chosen in zip(tables, groups, strict=True) if chosen]
    return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()


def _agrees(normaliser: Normaliser, tables: tuple[Table, ...], groups: list[list[Group]]) -> bool:
    """Whether refitting on these rows gives the normaliser's numbers."""
    seen = [(table, row_numbers(chosen)) for table, chosen in zip(tables, groups, strict=True) if chosen]
    if not seen or seen[0][0].schema.sensor_names != normaliser.sensor_names:
        return False
    sensors = np.concatenate([table.sensors[rows] for table, rows in seen])
    commands = np.concatenate([table.commands[rows] for table, rows in seen])
    location, scale, _ = channel_statistics(sensors, normaliser.sensor_names, normaliser.method, normaliser.floor)
    command_location, command_scale, _ = channel_statistics(commands, normaliser.command_names, "zscore", 0.0)
    compared = (
        (location, normaliser.sensor_location, scale),
        (scale, normaliser.sensor_scale, scale),
        (command_location, normaliser.command_location, command_scale),
        (command_scale, normaliser.command_scale, command_scale),
    )
    return all(
        (np.abs(found - carried) <= TOLERANCE * (yardstick + np.abs(found))).all()
        for found, carried, yardstick in compared
    )
