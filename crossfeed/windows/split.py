"""Which sessions train, which validate and which test: whole sessions, runs, days, programs or machines, never rows.

The order of operations is a type: only `Split.train_rows` makes `TrainRows`, and only `TrainRows` can fit a normaliser.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import ValidationError, model_validator

from crossfeed.configuration import CheckedForm, problems
from crossfeed.errors import TableError
from crossfeed.files import write_json
from crossfeed.logs.table import Group, Table, hashed_bytes, row_numbers
from crossfeed.schema import Schema

SPLIT_SEED = 20260820
Part = Literal["train", "validation", "test"]
# side: the name of each session says its side, as in "validation/3".
By = Literal["session", "program", "run", "day", "machine", "side"]
# Clocks that count from zero stay far below this; stamps since 1970 passed it in 1973.
FIRST_CALENDAR_SECOND = 1e8
PARTS: tuple[Part, ...] = ("train", "validation", "test")


def unit_of(group: Group, table: Table, by: By) -> str:
    """The unit that stays on one side: session, run or day of one machine, a machine, or a program wherever it ran."""
    if by == "program":
        return group.program
    if by == "machine":
        return group.machine
    if by == "day":
        return f"{group.machine}/{_day(group, table)}"
    return f"{group.machine}/{group.run if by == 'run' else group.session}"


def _day(group: Group, table: Table) -> str:
    """The calendar day (UTC) on which a group begins."""
    begin = float(table.time[group.start])
    if begin < FIRST_CALENDAR_SECOND:
        raise TableError(
            f"The rows of {group.key} begin at second {begin:g} of a clock without a date.",
            expected="a table with time stamps, to split it by day",
            remedy="Split by run or session (data.split_by=run).",
        )
    return datetime.fromtimestamp(begin, UTC).date().isoformat()


class Split(CheckedForm):
    """The units of each side; plain data that travels as JSON."""

    by: By
    seed: int
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        empty = [part for part in PARTS if not getattr(self, part)]
        if empty:
            raise ValueError(f"nothing is left for {' and '.join(empty)}")
        units = [*self.train, *self.validation, *self.test]
        shared = sorted(unit for unit, times in Counter(units).items() if times > 1)
        if shared:
            raise ValueError(f"listed more than once: {', '.join(shared)}")
        return self

    def groups(self, table: Table, part: Part) -> tuple[Group, ...]:
        """The groups of one side, in table order; refuses a table whose groups the split does not know."""
        side = {unit: name for name in PARTS for unit in getattr(self, name)}
        units = [unit_of(group, table, self.by) for group in table.groups]
        unknown, missing = sorted(set(units) - set(side)), sorted(set(side) - set(units))
        if unknown or missing:
            raise TableError(
                f"The split does not belong to this table: {_some(unknown)} only in the table, "
                f"{_some(missing)} only in the split.",
                expected=f"the same {self.by}s in both",
                remedy="Split the table anew, or name the table from which the split was made.",
            )
        return tuple(group for group, unit in zip(table.groups, units, strict=True) if side[unit] == part)

    def rows(self, table: Table, part: Part) -> np.ndarray:
        """The row numbers of one side, ascending."""
        return row_numbers(self.groups(table, part))

    def train_rows(self, table: Table) -> "TrainRows":
        """The rows a normaliser may see."""
        groups = self.groups(table, "train")
        # Whole groups are copied three times as quickly as single rows.
        sensors, commands = (
            np.concatenate([values[group.start : group.stop] for group in groups])
            for values in (table.sensors, table.commands)
        )
        return TrainRows(table.schema, sensors, commands, rows_hash(table, groups), _FROM_A_SPLIT)

    def hash(self) -> str:
        """SHA-256 over everything the split says."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """The split as text that `from_json` reads back."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, origin: str = "The split") -> Self:
        """Read a split; one that overlaps itself or leaves a side empty is refused."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise TableError(
                f"{origin} is not a valid split: {problems(error, 'split')}.",
                expected="JSON with 'by', 'seed' and three disjoint lists 'train', 'validation', 'test'",
                remedy="Make one with: crossfeed windows TABLE --save-split split.json",
            ) from error

    def write(self, path: Path | str) -> None:
        """Save the split as a JSON file."""
        write_json(path, self.model_dump(mode="json"))


_FROM_A_SPLIT = object()


@dataclass(frozen=True, eq=False)
class TrainRows:
    """Rows that are known to come from the train side of a split; `Normaliser.fit` accepts nothing else."""

    schema: Schema
    sensors: np.ndarray
    commands: np.ndarray
    sha256: str
    key: InitVar[object]

    def __post_init__(self, key: object) -> None:
        if key is not _FROM_A_SPLIT:
            raise TableError("Train rows were made by hand.", expected="rows made by split.train_rows(table)")

    def __len__(self) -> int:
        return len(self.sensors)

    @staticmethod
    def join(parts: Sequence["TrainRows"]) -> "TrainRows":
        """The train rows of several tables together, for training on several machines."""
        if not parts or any(part.schema.fingerprint != parts[0].schema.fingerprint for part in parts):
            raise TableError(
                "Train rows of different schemas cannot be joined." if parts else "No train rows were given to join.",
                expected="the train rows of at least one table, all in one schema",
                remedy="Ingest all machines with the same schema; absent channels stay null.",
            )
        if len(parts) == 1:
            return parts[0]
        return TrainRows(
            parts[0].schema,
            np.concatenate([part.sensors for part in parts]),
            np.concatenate([part.commands for part in parts]),
            hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest(),
            _FROM_A_SPLIT,
        )


def rows_hash(table: Table, groups: Sequence[Group]) -> str:
    """SHA-256 of what these groups hold: schema, names, sensors and commands."""
    digest = hashlib.sha256(table.schema.fingerprint.encode())
    for group in groups:
        digest.update(json.dumps([group.machine, group.session, group.run, len(group)]).encode())
        for values in (table.sensors, table.commands):
            digest.update(hashed_bytes(values[group.start : group.stop]))
    return digest.hexdigest()


def split_table(
    table: Table, by: By = "session", seed: int = SPLIT_SEED, fractions: tuple[float, float] = (0.67, 0.17)
) -> Split:
    """Divide a table into train, validation and test.

    By session, run or day: the sorted ids of each machine are shuffled and cut at round(0.67 n) and round(0.17 n).
    By program: programs are dealt out, longest first, to the side that lacks most rows. By machine: machines are
    shuffled and cut, so that a model of many is validated on machines it has never met. By side: every session is where
    its name says it is.
    """
    train, validation = fractions
    if not (0 < train < 1 and 0 < validation < 1 and train + validation < 1):
        raise TableError(
            f"The fractions {train:g} and {validation:g} leave a side empty.",
            expected="two fractions above 0 whose sum is below 1; what is left is the test side",
        )
    if by == "side":
        sides = _named_sides(table)
    elif by == "program":
        sides = _deal(_program_rows(table, seed), (train, validation, 1 - train - validation))
    else:
        sides, of_machine = [[], [], []], dict[str, set[str]]()
        for group in table.groups:
            of_machine.setdefault("all" if by == "machine" else group.machine, set()).add(unit_of(group, table, by))
        for names in of_machine.values():
            units = _shuffled(names, seed)
            first, second = round(train * len(units)), round(train * len(units)) + round(validation * len(units))
            for side, chosen in zip(sides, (units[:first], units[first:second], units[second:]), strict=True):
                side.extend(chosen)
        _fill(sides)
    return _checked(table, by, seed, sides)


def _named_sides(table: Table) -> list[list[str]]:
    """Sessions called train/..., validation/... and test/...; any other name is refused."""
    sides: list[list[str]] = [[], [], []]
    for group in table.groups:
        side = group.session.partition("/")[0]
        if side not in PARTS:
            raise TableError(
                f"The session '{group.session}' does not say on which side it is.",
                expected=f"names that begin with {', '.join(f'{part}/' for part in PARTS)}",
                remedy="Rename the sessions, or split by session.",
            )
        sides[PARTS.index(side)].append(unit_of(group, table, "side"))
    return [list(dict.fromkeys(side)) for side in sides]


def _shuffled(units: set[str], seed: int) -> list[str]:
    ordered = sorted(units)
    np.random.default_rng(seed).shuffle(ordered)
    return ordered


def _program_rows(table: Table, seed: int) -> dict[str, int]:
    """Rows of each program, longest first; equal lengths in an order drawn by the seed."""
    rows = dict.fromkeys(_shuffled({group.program for group in table.groups}, seed), 0)
    for group in table.groups:
        rows[group.program] += len(group)
    return dict(sorted(rows.items(), key=lambda item: -item[1]))


def _deal(rows: dict[str, int], shares: Sequence[float]) -> list[list[str]]:
    """Give each unit to the side with the largest lack; the last units go to sides that are still empty."""
    total, sides, filled = sum(rows.values()), [list[str]() for _ in shares], np.zeros(len(shares))
    for position, (unit, count) in enumerate(rows.items()):
        empty = [side for side in range(len(shares)) if not sides[side]]
        candidates = empty if len(rows) - position <= len(empty) else range(len(shares))
        chosen = max(candidates, key=lambda side: shares[side] * total - filled[side])
        sides[chosen].append(unit)
        filled[chosen] += count
    return sides


def _fill(sides: Sequence[list[str]]) -> None:
    """Three or four units are enough for three sides, though rounding leaves the last of them empty."""
    for side in sides:
        longest = max(sides, key=len)
        if not side and len(longest) > 1:
            side.append(longest.pop())


def _checked(table: Table, by: By, seed: int, sides: Sequence[Sequence[str]]) -> Split:
    empty = [part for part, side in zip(PARTS, sides, strict=True) if not side]
    if empty:
        count = len({unit_of(group, table, by) for group in table.groups})
        raise TableError(
            f"A split of {count} {by}{'s' if count != 1 else ''} leaves nothing for {' and '.join(empty)}.",
            expected=f"enough {by}s for all three sides",
            remedy="Ingest more sessions, or cut long ones in the mapping (segmentation: {longest_s: 600})"
            + ("." if by == "session" else ", or split by session."),
        )
    return Split(by=by, seed=seed, train=tuple(sides[0]), validation=tuple(sides[1]), test=tuple(sides[2]))


def _some(names: Sequence[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
