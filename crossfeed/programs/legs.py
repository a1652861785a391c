"""The geometry of a program: one leg per block, evaluated for many points at once; frames, swivelling tables, arcs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from crossfeed.programs.blocks import Arc, Block, Dwell, Move, Rotary, Vector
from crossfeed.programs.expressions import UnclearError

Matrix = np.ndarray
Plane = tuple[int, int, int]  # first, second and normal axis
_FULL_TURN = 2 * math.pi
# Siemens' CIRCLE_ERROR_CONST is 0.01 mm; CAM output with three decimals stays below 0.003 mm.
RADIUS_TOLERANCE = 0.01
_NO_ARC = Arc((0.0,) * 3, (0.0,) * 3, (0.0,) * 3, 0.0, 0.0, 0.0, (0.0,) * 3)


class LegKind(IntEnum):
    """What the machine does during a leg."""

    STANDING = 0
    RAPID = 1
    FEED = 2
    TURNING = 3  # rotary axes alone


@dataclass(frozen=True)
class Legs:
    """N legs; lengths in mm (degrees while only rotary axes turn), seconds of the standing ones in `seconds`."""

    kind: np.ndarray
    line: np.ndarray
    tool: np.ndarray
    spindle: np.ndarray
    length: np.ndarray
    seconds: np.ndarray
    feed: np.ndarray  # mm/min, inf for rapid
    per_revolution: np.ndarray
    exact_stop: np.ndarray
    start: np.ndarray  # (N, 3)
    unit: np.ndarray  # (N, 3) mean displacement per mm of path
    rotary: np.ndarray  # (N, 3) degrees per mm of path
    is_arc: np.ndarray
    center: np.ndarray  # (N, 3)
    across: np.ndarray  # (N, 3)
    along: np.ndarray  # (N, 3)
    radius: np.ndarray
    radius_change: np.ndarray
    sweep: np.ndarray
    rise: np.ndarray  # (N, 3)
    tools: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.kind)

    def position(self, leg: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Axis positions (n, 3) at path distances inside the given legs."""
        position = self.start[leg] + self.unit[leg] * distance[:, None]
        chosen = np.flatnonzero(self.is_arc[leg])
        if len(chosen):
            arc, share, radius, spoke, _ = self._on_arcs(leg[chosen], distance[chosen])
            position[chosen] = self.center[arc] + radius * spoke + self.rise[arc] * share
        return np.asarray(position)

    def direction(self, leg: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Derivative of the axis positions by the path distance, (n, 3)."""
        slope = self.unit[leg].copy()
        chosen = np.flatnonzero(self.is_arc[leg])
        if len(chosen):
            arc, _, radius, spoke, around = self._on_arcs(leg[chosen], distance[chosen])
            change = self.radius_change[arc][:, None] * spoke + radius * self.sweep[arc][:, None] * around
            slope[chosen] = (change + self.rise[arc]) / self.length[arc][:, None]
        return np.asarray(slope)

    def _on_arcs(self, arc: np.ndarray, distance: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arcs, the share that is travelled, the radius there, the spoke and its derivative by the angle."""
        share = (distance / self.length[arc])[:, None]
        angle = self.sweep[arc][:, None] * share
        radius = self.radius[arc][:, None] + self.radius_change[arc][:, None] * share
        across, along = self.across[arc], self.along[arc]
        cosine, sine = np.cos(angle), np.sin(angle)
        return arc, share, radius, cosine * across + sine * along, cosine * along - sine * across


# A leg that stands for no time, the beginning of every other one.
_STILL: dict[str, Any] = {
    "length": 0.0, "seconds": 0.0, "feed": math.inf, "per_revolution": False, "exact_stop": True,
    "unit": (0.0,) * 3, "rotary": (0.0,) * 3, "arc": _NO_ARC,
}  # fmt: skip


def build_legs(blocks: Sequence[Block], tool_change_seconds: float, waits_for_spindle: bool) -> Legs:
    """Turn blocks into legs; a standing leg of open length precedes each first cut after a change of spindle speed."""
    rows: list[dict[str, Any]] = []
    tools: dict[str, int] = {}
    spindle_at_last_cut = 0.0

    def add(kind: LegKind, block: Block, start: Vector, **values: Any) -> None:
        tool = tools.setdefault(block.tool, len(tools))
        where = {"kind": kind, "line": block.line, "tool": tool, "spindle": block.spindle, "start": start}
        rows.append(_STILL | where | values)

    for block in blocks:
        if isinstance(block, Move):
            rapid = block.feed is None
            if not rapid and block.spindle != spindle_at_last_cut:
                spindle_at_last_cut = block.spindle
                if waits_for_spindle and block.spindle:
                    add(LegKind.STANDING, block, block.start, seconds=math.nan)
            add(
                LegKind.RAPID if rapid else LegKind.FEED,
                block,
                block.start,
                length=block.length,
                feed=math.inf if rapid else block.feed,
                per_revolution=block.per_revolution,
                exact_stop=block.exact_stop,
                unit=_per(block.length, block.start, block.end),
                rotary=_per(block.length, (0.0, 0.0, 0.0), block.rotary),
                arc=block.arc or _NO_ARC,
            )
        elif isinstance(block, Rotary):
            angle = max(abs(new - old) for new, old in zip(block.end, block.start))
            feed = math.inf if block.feed is None else block.feed
            turn = _per(angle, block.start, block.end)
            add(LegKind.TURNING, block, block.position, length=angle, feed=feed, rotary=turn)
        else:
            seconds = block.seconds if isinstance(block, Dwell) else tool_change_seconds
            add(LegKind.STANDING, block, block.position, seconds=seconds)
    columns = {name: np.array([row[name] for row in rows]) for name in ("kind", "line", "tool", "spindle", "start")}
    columns |= {name: np.array([row[name] for row in rows]) for name in _STILL if name != "arc"}
    of_arcs = ("center", "across", "along", "radius", "radius_change", "sweep", "rise")
    columns |= {name: np.array([getattr(row["arc"], name) for row in rows]) for name in of_arcs}
    return Legs(is_arc=np.array([row["arc"] is not _NO_ARC for row in rows]), tools=tuple(tools), **columns)


def _per(length: float, start: Vector, end: Vector) -> Vector:
    return ((end[0] - start[0]) / length, (end[1] - start[1]) / length, (end[2] - start[2]) / length)


def rotation(axis: int, degrees: float) -> Matrix:
    """Right-handed rotation about X, Y or Z; multiples of 90 degrees are exact."""
    quarter = degrees / 90.0
    if quarter == round(quarter):
        cosine = (1.0, 0.0, -1.0, 0.0)[round(quarter) % 4]
        sine = (0.0, 1.0, 0.0, -1.0)[round(quarter) % 4]
    else:
        cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    matrix = np.eye(3)
    first, second = (axis + 1) % 3, (axis + 2) % 3
    matrix[first, first] = matrix[second, second] = cosine
    matrix[second, first], matrix[first, second] = sine, -sine
    return matrix


def vector(values: Sequence[float] | np.ndarray) -> Vector:
    """Three plain floats."""
    return (float(values[0]), float(values[1]), float(values[2]))


@dataclass(frozen=True)
class Frame:
    """From programmed coordinates to those of the machine: axes = turn @ programmed + shift."""

    turn: Matrix | None = None
    shift: Vector = (0.0, 0.0, 0.0)

    def shifted(self, offset: Vector) -> "Frame":
        """ATRANS: move the origin along the frame's own axes."""
        moved = np.asarray(offset) if self.turn is None else self.turn @ np.asarray(offset)
        return Frame(self.turn, vector(np.asarray(self.shift) + moved))

    def rotated(self, degrees: Vector) -> "Frame":
        """AROT: turn about the frame's own axes, Z first, then the new Y, then the new X (Siemens' RPY)."""
        turn = np.eye(3) if self.turn is None else self.turn
        for axis in (2, 1, 0):
            if degrees[axis]:
                turn = turn @ rotation(axis, degrees[axis])
        return Frame(None if np.array_equal(turn, np.eye(3)) else turn, self.shift)

    def on_table(self, table: Matrix) -> "Frame":
        """The frame on a turned table, as tool-centre-point control (TRAORI) follows it."""
        turn = table if self.turn is None else table @ self.turn
        return Frame(None if np.allclose(turn, np.eye(3), atol=1e-12) else turn, vector(table @ np.asarray(self.shift)))

    def to_axes(self, programmed: Vector) -> Vector:
        """Programmed coordinates -> positions of the linear axes."""
        turned = programmed if self.turn is None else vector(self.turn @ np.asarray(programmed))
        return (turned[0] + self.shift[0], turned[1] + self.shift[1], turned[2] + self.shift[2])

    def to_programmed(self, axes: Vector) -> Vector:
        """Positions of the linear axes -> programmed coordinates."""
        moved = (axes[0] - self.shift[0], axes[1] - self.shift[1], axes[2] - self.shift[2])
        return moved if self.turn is None else vector(self.turn.T @ np.asarray(moved))

    def arc_to_axes(self, arc: Arc) -> Arc:
        """The same arc on the linear axes."""
        center = self.to_axes(arc.center)
        if self.turn is None:
            return replace(arc, center=center)
        across, along, rise = (vector(self.turn @ np.asarray(part)) for part in (arc.across, arc.along, arc.rise))
        return replace(arc, center=center, across=across, along=along, rise=rise)


def table_turn(rotary: Vector) -> Matrix:
    """How a swivelling rotary table with angles A, B, C turns the workpiece in front of the spindle."""
    return np.asarray(rotation(0, -rotary[0]) @ rotation(1, -rotary[1]) @ rotation(2, -rotary[2]))


def arc_about(start: Vector, end: Vector, center: Vector, plane: Plane, clockwise: bool, turns: int) -> Arc:
    """The arc from start to end about a center in the plane."""
    first, second, normal = plane
    from_first, from_second = start[first] - center[first], start[second] - center[second]
    to_first, to_second = end[first] - center[first], end[second] - center[second]
    radius, end_radius = math.hypot(from_first, from_second), math.hypot(to_first, to_second)
    if radius < 1e-6:
        raise UnclearError("the arc's center lies on its start")
    if abs(end_radius - radius) > RADIUS_TOLERANCE:
        raise UnclearError(f"the radius does not fit: {radius:.4f} mm at the start, {end_radius:.4f} mm at the end")
    begin, finish = math.atan2(from_second, from_first), math.atan2(to_second, to_first)
    sweep = (begin - finish if clockwise else finish - begin) % _FULL_TURN
    if start[first] == end[first] and start[second] == end[second]:
        sweep = _FULL_TURN
    sign = -1.0 if clockwise else 1.0
    across, along, rise, middle = [0.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3
    across[first], across[second] = from_first / radius, from_second / radius
    along[first], along[second] = -sign * across[second], sign * across[first]
    rise[normal] = end[normal] - start[normal]
    middle[first], middle[second], middle[normal] = center[first], center[second], start[normal]
    return Arc(
        center=vector(middle),
        across=vector(across),
        along=vector(along),
        radius=radius,
        radius_change=end_radius - radius,
        sweep=sweep + turns * _FULL_TURN,
        rise=vector(rise),
    )


def center_from_radius(start: Vector, end: Vector, radius: float, plane: Plane, clockwise: bool) -> Vector:
    """The center of the arc with this radius; a negative radius asks for the arc longer than half a turn."""
    first, second, _ = plane
    chord_first, chord_second = end[first] - start[first], end[second] - start[second]
    chord = math.hypot(chord_first, chord_second)
    if chord < 1e-9:
        raise UnclearError("a full circle needs I, J, K; a radius does not say where its center is")
    if abs(radius) < chord / 2 - RADIUS_TOLERANCE:
        raise UnclearError(f"the radius {abs(radius):g} mm is too small for end points {chord:.4f} mm apart")
    height = math.sqrt(max(radius**2 - chord**2 / 4, 0.0))
    side = 1.0 if clockwise == (radius < 0) else -1.0
    center = list(start)
    center[first] = (start[first] + end[first]) / 2 - side * height * chord_second / chord
    center[second] = (start[second] + end[second]) / 2 + side * height * chord_first / chord
    return vector(center)
