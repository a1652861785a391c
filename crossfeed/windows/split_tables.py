"""Several tables divided, normalised and cut into windows in the one allowed order, as one configuration says.

`count_windows` shows what that gives, for a person who wants to see it before training.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from crossfeed.configuration import CheckedForm
from crossfeed.logs.table import Group, Table, groups_by_machine, row_numbers
from crossfeed.windows.frame import first_rows, fit_frame, framed, placeholder_frame, usual_scales
from crossfeed.windows.listing import HORIZONS, WindowList, list_windows, pair_up
from crossfeed.windows.normalise import ROBUST_FLOOR, Method, Normaliser
from crossfeed.windows.split import PARTS, SPLIT_SEED, By, Part, Split, TrainRows, split_table

if TYPE_CHECKING:
    import torch

    from crossfeed.windows.windows import WindowSet

Rows = tuple[np.ndarray, np.ndarray]  # sensors and commands


class DataConfig(CheckedForm):
    """How tables are split, normalised and cut into windows; context and horizons belong to the model.

    normaliser: frame measures every machine by itself, so that machines of any size can be learned from together.
    leave_out: machines of the tables that neither train nor validate, to be met as strangers.
    """

    split_by: By = "session"
    split_seed: int = SPLIT_SEED
    train_fraction: float = Field(default=0.67, gt=0.0, lt=1.0)
    validation_fraction: float = Field(default=0.17, gt=0.0, lt=1.0)
    normaliser: Method = "zscore"
    robust_floor: float = Field(default=ROBUST_FLOOR, ge=0.0)
    stride: int = Field(default=1, ge=1)
    leave_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class SplitTables:
    """Tables with the sides of their splits; training, evaluation and comparisons all divide their tables here.

    `frames` are the frames of the machines where the configuration asks for them; several machines are then each shown
    in their own.
    """

    tables: tuple[Table, ...]
    splits: tuple[Split, ...]
    frames: Mapping[str, Normaliser] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Sequence[Table], config: DataConfig, usual: Mapping[str, float] | None = None) -> "SplitTables":
        """Split every table that is not left out; the same tables and configuration give the same sides."""
        kept = without_machines(tables, config.leave_out)
        fractions = (config.train_fraction, config.validation_fraction)
        splits = tuple(split_table(table, config.split_by, config.split_seed, fractions) for table in kept)
        if config.normaliser != "frame":
            return cls(tuple(kept), splits)
        frames = _frames(kept, splits, usual)
        return cls(tuple(framed(table, frames) for table in kept) if len(frames) > 1 else tuple(kept), splits, frames)

    def normaliser(self, method: Method = "zscore", floor: float = ROBUST_FLOOR) -> Normaliser:
        """One normaliser for all tables, fitted on their train rows."""
        if method == "frame":
            frames = tuple(self.frames.values())
            return frames[0] if len(frames) == 1 else placeholder_frame(self.tables[0].schema)
        pairs = zip(self.splits, self.tables, strict=True)
        return Normaliser.fit(TrainRows.join([split.train_rows(table) for split, table in pairs]), method, floor)

    def groups(self, part: Part) -> list[tuple[Group, ...]]:
        """The groups of one side, table by table."""
        return [split.groups(table, part) for split, table in zip(self.splits, self.tables, strict=True)]

    def windows(
        self, part: Part, normaliser: Normaliser, context: int, horizons: tuple[int, ...], stride: int,
        device: "torch.device | str", hidden: Iterable[str] = (),
    ) -> "WindowSet":  # fmt: skip
        """The windows of one side of all tables."""
        # With windows comes torch, which nobody needs who only asks for the sides.
        from crossfeed.windows.windows import WindowSet

        tables, groups = list(self.tables), self.groups(part)
        return WindowSet.build(tables, groups, normaliser, context, horizons, stride, device, hidden)


def _frames(
    tables: Sequence[Table], splits: Sequence[Split], usual: Mapping[str, float] | None
) -> dict[str, Normaliser]:
    """The frame of every machine from its train rows; one that is only to be met, from the first rows of its runs."""
    schema = tables[0].schema
    learned, strange = dict[str, list[Rows]](), dict[str, list[Rows]]()
    for table, split in zip(tables, splits, strict=True):
        training = groups_by_machine(split.groups(table, "train"))
        for machine, groups in groups_by_machine(table.groups).items():
            rows = row_numbers(training[machine]) if machine in training else first_rows(groups)
            side = learned if machine in training else strange
            side.setdefault(machine, []).append((table.sensors[rows], table.commands[rows]))
    frames = {machine: fit_frame(schema, *_joined(parts), usual) for machine, parts in learned.items()}
    scales = usual or usual_scales(schema, list(frames.values()))
    return frames | {machine: fit_frame(schema, *_joined(parts), scales) for machine, parts in strange.items()}


def _joined(parts: Sequence[Rows]) -> Rows:
    return np.concatenate([sensors for sensors, _ in parts]), np.concatenate([commands for _, commands in parts])


def without_machines(tables: Sequence[Table], machines: Sequence[str]) -> list[Table]:
    """The tables without the rows of these machines; a table of theirs alone is gone."""
    kept = []
    for table in tables:
        groups = [group for group in table.groups if group.machine not in machines]
        if groups:
            kept.append(table if len(groups) == len(table.groups) else table.select(groups))
    return kept


@dataclass(frozen=True, slots=True)
class PartCount:
    """One side of a split: its groups and its windows."""

    part: str
    groups: tuple[Group, ...]
    windows: WindowList

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "part": self.part,
            "sessions": len({(group.machine, group.session) for group in self.groups}),
            "programs": len({group.program for group in self.groups}),
            **self.windows.summary(),
            "window_hash": self.windows.hash(),
            "per_group": [asdict(count) for count in self.windows.counts],
        }


def count_windows(
    table: Table, split: Split | None, context: int = 32, horizons: Sequence[int] = HORIZONS, stride: int = 1
) -> list[PartCount]:
    """Count the windows of each side; without a split, of the whole table."""
    sides: list[tuple[str, tuple[Group, ...]]] = [("all", table.groups)]
    if split is not None:
        sides = [(part, split.groups(table, part)) for part in PARTS]
    return [
        PartCount(part, groups, list_windows(pair_up(table, groups), context, horizons, stride))
        for part, groups in sides
    ]
