"""The geometry of a program as arrays: one leg per block, evaluated for many points at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from crossfeed.programs.blocks import Arc, Block, Dwell, Move, Rotary, ToolChange

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
        place = self.start[leg] + self.unit[leg] * distance[:, None]
        chosen = np.flatnonzero(self.is_arc[leg])
        if len(chosen):
            arc = leg[chosen]
            share = distance[chosen] / self.length[arc]
            angle = (self.sweep[arc] * share)[:, None]
            radius = (self.radius[arc] + self.radius_change[arc] * share)[:, None]
            spoke = np.cos(angle) * self.across[arc] + np.sin(angle) * self.along[arc]
            place[chosen] = self.center[arc] + radius * spoke + self.rise[arc] * share[:, None]
        return place

    def direction(self, leg: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Derivative of the axis positions by the path distance, (n, 3)."""
        slope = self.unit[leg].copy()
        chosen = np.flatnonzero(self.is_arc[leg])
        if len(chosen):
            arc = leg[chosen]
            share = distance[chosen] / self.length[arc]
            angle = (self.sweep[arc] * share)[:, None]
            radius = (self.radius[arc] + self.radius_change[arc] * share)[:, None]
            spoke = np.cos(angle) * self.across[arc] + np.sin(angle) * self.along[arc]
            around = np.cos(angle) * self.along[arc] - np.sin(angle) * self.across[arc]
            change = self.radius_change[arc][:, None] * spoke + radius * self.sweep[arc][:, None] * around
            slope[chosen] = (change + self.rise[arc]) / self.length[arc][:, None]
        return slope


def build_legs(blocks: Sequence[Block], tool_change_seconds: float, waits_for_spindle: bool) -> Legs:
    """Turn blocks into legs; a standing leg of open length precedes each first cut after a change of spindle speed."""
    rows: list[tuple] = []
    tools: dict[str, int] = {}
    spindle_at_last_cut: float | None = None
    for block in blocks:
        tool = tools.setdefault(block.tool, len(tools))
        if isinstance(block, Move):
            kind = LegKind.RAPID if block.feed is None else LegKind.FEED
            if kind == LegKind.FEED and block.spindle != spindle_at_last_cut:
                if waits_for_spindle and block.spindle:
                    rows.append(_standing(block.line, tool, block.spindle, np.nan, block.start))
                spindle_at_last_cut = block.spindle
            rows.append(_moving(block, kind, tool))
        elif isinstance(block, Rotary):
            angle = max(abs(new - old) for new, old in zip(block.end, block.start))
            turn = tuple((new - old) / angle for new, old in zip(block.end, block.start))
            feed = np.inf if block.feed is None else block.feed
            rows.append(
                (LegKind.TURNING, block.line, tool, block.spindle, angle, 0.0, feed, False, True, block.position)
                + ((0.0,) * 3, turn, None)
            )
        elif isinstance(block, Dwell):
            rows.append(_standing(block.line, tool, block.spindle, block.seconds, block.position))
        elif isinstance(block, ToolChange):
            rows.append(_standing(block.line, tool, 0.0, tool_change_seconds, block.position))
    return _as_arrays(rows, tuple(tools))


def _standing(line: int, tool: int, spindle: float, seconds: float, position: tuple) -> tuple:
    nowhere = (0.0,) * 3
    return (LegKind.STANDING, line, tool, spindle, 0.0, seconds, np.inf, False, True, position, nowhere, nowhere, None)


def _moving(block: Move, kind: LegKind, tool: int) -> tuple:
    unit = tuple((end - start) / block.length for end, start in zip(block.end, block.start))
    turn = tuple(angle / block.length for angle in block.rotary)
    feed = np.inf if block.feed is None else block.feed
    return (kind, block.line, tool, block.spindle, block.length, 0.0, feed, block.per_revolution, block.exact_stop) + (
        block.start,
        unit,
        turn,
        block.arc,
    )


def _as_arrays(rows: list[tuple], tools: tuple[str, ...]) -> Legs:
    columns = list(zip(*rows)) if rows else [()] * 13
    arcs = [arc or _NO_ARC for arc in columns[12]]

    def triple(values: Sequence) -> np.ndarray:
        return np.array(values, dtype=float).reshape(-1, 3)

    return Legs(
        kind=np.array(columns[0], dtype=np.int8),
        line=np.array(columns[1], dtype=np.int64),
        tool=np.array(columns[2], dtype=np.int64),
        spindle=np.array(columns[3], dtype=float),
        length=np.array(columns[4], dtype=float),
        seconds=np.array(columns[5], dtype=float),
        feed=np.array(columns[6], dtype=float),
        per_revolution=np.array(columns[7], dtype=bool),
        exact_stop=np.array(columns[8], dtype=bool),
        start=triple(columns[9]),
        unit=triple(columns[10]),
        rotary=triple(columns[11]),
        is_arc=np.array([arc is not None for arc in columns[12]], dtype=bool),
        center=triple([arc.center for arc in arcs]),
        across=triple([arc.across for arc in arcs]),
        along=triple([arc.along for arc in arcs]),
        radius=np.array([arc.radius for arc in arcs], dtype=float),
        radius_change=np.array([arc.radius_change for arc in arcs], dtype=float),
        sweep=np.array([arc.sweep for arc in arcs], dtype=float),
        rise=triple([arc.rise for arc in arcs]),
        tools=tools,
    )
