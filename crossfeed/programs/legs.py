"""The geometry of a program as arrays: one leg per block, evaluated for many points at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from crossfeed.programs.blocks import Arc, Block, Dwell, Move, Rotary, Vector

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


class _Row(NamedTuple):
    """One leg on its way into the arrays."""

    kind: LegKind
    line: int
    tool: int
    spindle: float
    start: Vector
    length: float = 0.0
    seconds: float = 0.0
    feed: float = math.inf
    per_revolution: bool = False
    exact_stop: bool = True
    unit: Vector = (0.0, 0.0, 0.0)
    rotary: Vector = (0.0, 0.0, 0.0)
    arc: Arc | None = None


def build_legs(blocks: Sequence[Block], tool_change_seconds: float, waits_for_spindle: bool) -> Legs:
    """Turn blocks into legs; a standing leg of open length precedes each first cut after a change of spindle speed."""
    rows: list[_Row] = []
    tools: dict[str, int] = {}
    spindle_at_last_cut = 0.0
    for block in blocks:
        tool = tools.setdefault(block.tool, len(tools))
        if isinstance(block, Move):
            if block.feed is not None and block.spindle != spindle_at_last_cut:
                spindle_at_last_cut = block.spindle
                if waits_for_spindle and block.spindle:
                    wait = _Row(LegKind.STANDING, block.line, tool, block.spindle, block.start, seconds=math.nan)
                    rows.append(wait)
            rows.append(_moving(block, tool))
        elif isinstance(block, Rotary):
            rows.append(_turning(block, tool))
        elif isinstance(block, Dwell):
            seconds = block.seconds
            rows.append(_Row(LegKind.STANDING, block.line, tool, block.spindle, block.position, seconds=seconds))
        else:
            seconds = tool_change_seconds
            rows.append(_Row(LegKind.STANDING, block.line, tool, 0.0, block.position, seconds=seconds))
    return _as_arrays(rows, tuple(tools))


def _moving(block: Move, tool: int) -> _Row:
    return _Row(
        kind=LegKind.RAPID if block.feed is None else LegKind.FEED,
        line=block.line,
        tool=tool,
        spindle=block.spindle,
        start=block.start,
        length=block.length,
        feed=math.inf if block.feed is None else block.feed,
        per_revolution=block.per_revolution,
        exact_stop=block.exact_stop,
        unit=_per(block.length, block.start, block.end),
        rotary=_per(block.length, (0.0, 0.0, 0.0), block.rotary),
        arc=block.arc,
    )


def _turning(block: Rotary, tool: int) -> _Row:
    angle = max(abs(new - old) for new, old in zip(block.end, block.start))
    return _Row(
        kind=LegKind.TURNING,
        line=block.line,
        tool=tool,
        spindle=block.spindle,
        start=block.position,
        length=angle,
        feed=math.inf if block.feed is None else block.feed,
        rotary=_per(angle, block.start, block.end),
    )


def _per(length: float, start: Vector, end: Vector) -> Vector:
    return ((end[0] - start[0]) / length, (end[1] - start[1]) / length, (end[2] - start[2]) / length)


def _as_arrays(rows: list[_Row], tools: tuple[str, ...]) -> Legs:
    of_rows = ("kind", "line", "tool", "spindle", "length", "seconds", "feed", "per_revolution", "exact_stop")
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in (*of_rows, "start", "unit", "rotary")}
    arcs = [row.arc or _NO_ARC for row in rows]
    of_arcs = ("center", "across", "along", "radius", "radius_change", "sweep", "rise")
    columns |= {name: np.array([getattr(arc, name) for arc in arcs]) for name in of_arcs}
    return Legs(is_arc=np.array([row.arc is not None for row in rows]), tools=tools, **columns)
