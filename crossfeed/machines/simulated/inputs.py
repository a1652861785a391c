"""What drives the machine, step by step: four commands, and what the tool meets (its engagement with the stock)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfeed.errors import MachineError
from crossfeed.machines.simulated.noise import Floats

_REMEDY = "Check the commands for missing values and give each field one value per step."


@dataclass(frozen=True, slots=True)
class DriveInputs:
    """Commands and engagement at every inner step; under other commands `path.travel` finds what the tool meets."""

    spindle_speed: Floats  # (N,) rpm, negative for counter-clockwise
    feed: Floats  # (N, 3) mm/min along x, y, z
    depth: Floats  # (N,) mm, axial depth of cut; 0 = in the air
    width: Floats  # (N,) mm, radial width of cut
    diameter: Floats  # (N,) mm of the tool
    teeth: Floats  # (N,)
    specific_force: Floats  # (N,) N/mm^2, Kienzle k_c1.1 of the material
    exponent: Floats  # (N,) Kienzle m_c

    def __post_init__(self) -> None:
        count = len(self.spindle_speed)
        for field in fields(self):
            values = getattr(self, field.name)
            wanted = (count, 3) if field.name == "feed" else (count,)
            if values.shape != wanted:
                raise MachineError(
                    f"The input '{field.name}' has the shape {values.shape}.",
                    expected=f"{wanted} for {count} steps",
                    remedy=_REMEDY,
                )
            if not np.isfinite(values).all():
                missing = np.count_nonzero(~np.isfinite(values))
                raise MachineError(
                    f"The input '{field.name}' holds {missing} values that are no number.",
                    expected="finite set-points and engagement",
                    remedy=_REMEDY,
                )

    def __len__(self) -> int:
        return len(self.spindle_speed)

    def __getitem__(self, part: slice | NDArray[np.intp]) -> Self:
        return type(self)(**{field.name: getattr(self, field.name)[part] for field in fields(self)})

    @property
    def commands(self) -> Floats:
        """The four canonical commands, (N, 4): rpm and mm/min."""
        return np.column_stack((self.spindle_speed, self.feed))

    @classmethod
    def idle(cls, steps: int) -> Self:
        """Standing still in the air."""
        zero = np.zeros(steps)
        one = np.ones(steps)
        return cls(zero, np.zeros((steps, 3)), zero, zero, one, one, one, zero)

    @classmethod
    def joined(cls, parts: Sequence["DriveInputs"]) -> Self:
        """One after another."""
        return cls(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)})

    @classmethod
    def held(cls, commands: ArrayLike, steps_per_row: int) -> Self:
        """Commands (T, 4) in canonical units, each held for `steps_per_row` inner steps, in the air."""
        repeated = np.repeat(_four_columns(commands), steps_per_row, axis=0)
        return cls.idle(len(repeated)).with_commands(repeated)

    def with_commands(self, commands: ArrayLike) -> Self:
        """Set the commands and leave the engagement: (N, 4) at the inner rate, or (T, 4) rows held equally long."""
        rows = _four_columns(commands)
        if len(rows) == 0 or len(self) % len(rows):
            raise MachineError(
                f"{len(rows)} command rows cannot be spread evenly over {len(self)} steps.",
                expected="one row per inner step, or rows that are all held for the same number of steps",
                remedy="Cut the inputs to a whole number of seconds first.",
            )
        spread = np.repeat(rows, len(self) // len(rows), axis=0)
        return replace(self, spindle_speed=spread[:, 0].copy(), feed=spread[:, 1:].copy())


def _four_columns(commands: ArrayLike) -> Floats:
    rows = np.asarray(commands, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise MachineError(
            f"The commands have the shape {rows.shape}.",
            expected="(rows, 4): spindle_speed in rpm, then feed_x, feed_y, feed_z in mm/min",
        )
    return rows
