"""What drives the machine, step by step: four commands, and what the tool meets (its engagement with the stock)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossfeed.errors import MachineError
from crossfeed.sim.physics.parameters import Floats

_STANDING = 6e-5  # mm/min, the slowest feed that cuts
_SAME_PLACE = 1e-6  # mm/min x step; rounding of sums stays below, every step that moves above
_REMEDY = "Check the commands for missing values and give each field one value per step."


@dataclass(frozen=True, slots=True)
class DriveInputs:
    """Commands and engagement at every inner step; under other commands `travel` finds what the tool meets."""

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


def travel(planned: DriveInputs, commands: Floats) -> DriveInputs:
    """Other commands, (M, 4) at the inner rate, with the engagement of the places on the planned path they reach."""
    asked = DriveInputs.held(commands, 1)
    return planned[steps_met(planned, asked)].with_commands(asked.commands)


def steps_met(planned: DriveInputs, asked: DriveInputs) -> NDArray[np.intp]:
    """The planned step (M,) whose engagement each step of other commands meets."""
    if not len(planned):
        raise MachineError("There is no path to follow: the plan has no steps.", expected="at least one planned step")
    ends, planned_moves = _distances(planned)
    places = np.concatenate(([0.0], ends))
    reached, moves = _distances(asked)
    # Planned steps begun at each place, and the standing ones that go by while the tool stands there.
    begun = np.minimum(np.searchsorted(places, reached - _SAME_PLACE), len(planned))
    finished = places[begun] - reached <= _SAME_PLACE
    last = begun - 1 + np.where(finished, np.minimum(_stood(moves), _waiting(planned_moves)[begun]), 0)
    return np.asarray(np.maximum(last, 0))


def _distances(inputs: DriveInputs) -> tuple[Floats, NDArray[np.bool_]]:
    """Path length at the end of each step, in mm/min x steps, and whether the step moves at all."""
    x, y, z = inputs.feed.T
    speed = np.sqrt(x * x + y * y + z * z)
    moves = speed > _STANDING
    return np.cumsum(np.where(moves, speed, 0.0)), moves


def _stood(moves: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How many steps the tool has stood at the end of each step."""
    step = np.arange(len(moves))
    return step - np.maximum.accumulate(np.where(moves, step, -1))


def _waiting(moves: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How many steps the plan still stands from each step on; none after its end."""
    step = np.arange(len(moves) + 1)
    following = np.where(np.append(moves, True), step, len(moves))
    return np.minimum.accumulate(following[::-1])[::-1] - step
