"""What an NC program becomes: moves, dwells, tool changes and rotary moves, with findings about what was not clear.

Positions are in mm along the machine's linear axes, counted from the work zero. A move programmed in machine
coordinates (SUPA, G53) is brought into the same coordinates with the work offset of the `Setup`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import PositiveFloat, PositiveInt

from crossfeed.configuration import CheckedForm

Vector = tuple[float, float, float]
Severity = Literal["note", "warning", "error"]


class Setup(CheckedForm):
    """What the NC text does not say about the machine it runs on."""

    work_offset: Vector = (-100.0, 0.0, 300.0)  # machine coordinates of the work zero, tool length included, mm
    home: Vector = (-365.0, 224.0, 610.0)  # where the axes stand at the start and after G28, machine coordinates, mm
    assumed_feed: PositiveFloat = 500.0  # mm/min for a feed move before any F; every use of it is a listed finding
    block_skip: bool = False  # the operator's switch: True leaves out the lines that begin with '/'
    repeated_lines_limit: PositiveInt = 200_000  # more lines than this, executed again, are an endless loop


@dataclass(frozen=True, slots=True)
class ProgramFinding:
    """Something in the NC text that was not understood, not applied, or had to be assumed."""

    line: int
    text: str
    reason: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Arc:
    """A circular or helical path: center + radius (cos a, sin a) in the plane of `across` and `along`.

    `across` points from the center to the start, `along` in the direction of motion there; the angle a runs
    from 0 to `sweep`, in radians.
    The radius may change by a rounding error on the way (`radius_change`), so that the arc ends where the text says.
    """

    center: Vector
    across: Vector
    along: Vector
    radius: float
    radius_change: float
    sweep: float
    rise: Vector

    @property
    def length(self) -> float:
        """Length of the path in mm."""
        around = (self.radius + self.radius_change / 2) * self.sweep
        return math.hypot(around, *self.rise, self.radius_change)


@dataclass(frozen=True, slots=True)
class Move:
    """Motion of the linear axes, with the rotary axes alongside where the line moves them too."""

    line: int
    start: Vector
    end: Vector
    arc: Arc | None
    length: float
    feed: float | None  # mm/min; None = rapid
    spindle: float  # rpm, negative for M4, 0 = stopped
    tool: str
    per_revolution: bool = False  # the feed follows the spindle override
    exact_stop: bool = False  # comes to rest at the end
    rotary: Vector = (0.0, 0.0, 0.0)  # degrees of A, B, C turned on the way
    table: Vector = (0.0, 0.0, 0.0)  # A, B, C by which the workpiece stands turned under TRAORI, at the end

    @property
    def kind(self) -> Literal["rapid", "linear", "arc"]:
        return "arc" if self.arc else "rapid" if self.feed is None else "linear"


@dataclass(frozen=True, slots=True)
class Rotary:
    """Motion of the rotary axes alone, in degrees of A, B, C."""

    line: int
    start: Vector
    end: Vector
    position: Vector
    feed: float | None  # deg/min; None = rapid
    spindle: float
    tool: str


@dataclass(frozen=True, slots=True)
class Dwell:
    """Standing still for a programmed time."""

    line: int
    seconds: float
    position: Vector
    spindle: float
    tool: str


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A new tool comes into the stopped spindle; `tool` is empty when the spindle is emptied."""

    line: int
    tool: str
    position: Vector
    spindle: float = 0.0


Block = Move | Rotary | Dwell | ToolChange


@dataclass(frozen=True, slots=True)
class Program:
    """A parsed NC program: what the machine does, in order, and what the reader should know about it."""

    name: str
    blocks: tuple[Block, ...]
    findings: tuple[ProgramFinding, ...]
    lines: int
    motion_lines: int
    understood_motion_lines: int
    skipped_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The linear-axis motion alone."""
        return tuple(block for block in self.blocks if isinstance(block, Move))

    @property
    def programmed_cutting_time(self) -> float:
        """Seconds of cutting if every programmed feed were reached at once."""
        return sum(move.length / move.feed * 60.0 for move in self.moves if move.feed is not None and move.spindle)

    @property
    def understood(self) -> float:
        """Share of the motion lines that were understood, 1.0 for a program without motion."""
        return self.understood_motion_lines / self.motion_lines if self.motion_lines else 1.0
