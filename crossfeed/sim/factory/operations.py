"""Operations of a milling program as NC text: zigzags, pockets, contours, holes, surfaces, slots in circles."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from crossfeed.sim.factory.motors import Dice, chance, pick, uniform

_CLEAR = 2.0  # mm above the stock where rapids end


@dataclass(frozen=True, slots=True)
class ToolUse:
    """How a tool is used: rpm, mm/min, axial depth and radial width in mm."""

    diameter: float
    speed: float
    feed: float
    depth: float
    width: float


@dataclass
class NcText:
    """NC text under way, with the notes that tell the tools' sizes."""

    lines: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    def say(self, *lines: str) -> None:
        self.lines.extend(lines)


@dataclass(frozen=True, slots=True)
class Area:
    """Where an operation works: its corner, its sides and the height of the stock there."""

    x: float
    y: float
    wide: float
    high: float
    top: float


def _zigzag(text: NcText, draw: Dice, cut: ToolUse, area: Area, length: float) -> None:
    """Lines to and fro, layer by layer; also in one direction only, with a rapid back."""
    wide = min(area.wide, max(length / 2, 2 * cut.diameter))
    lines = int(np.clip(min(area.high / cut.width, length / wide), 2, 200))
    layers = max(1, min(30, round(length / (lines * wide))))
    back = chance(draw, 0.3)
    for layer in range(1, layers + 1):
        z = area.top - layer * cut.depth
        text.say(f"G0 X{area.x:.3f} Y{area.y:.3f}", f"G0 Z{area.top + _CLEAR:.3f}", f"G1 Z{z:.3f} F{cut.feed / 3:.0f}")
        for line in range(lines):
            forth = line % 2 == 0 or back
            y = area.y + line * cut.width
            if line:
                text.say(f"G1 Y{y:.3f}")
            text.say(f"G1 X{area.x + (wide if forth else 0):.3f} F{cut.feed:.0f}")
            if back:
                text.say(f"G0 Z{area.top + _CLEAR:.3f}", f"G0 X{area.x:.3f}", f"G1 Z{z:.3f} F{cut.feed:.0f}")
        text.say(f"G0 Z{area.top + _CLEAR:.3f}")


def _pocket(text: NcText, draw: Dice, cut: ToolUse, area: Area, length: float) -> None:
    """A rectangular pocket from its middle outwards, ramping in, layer by layer."""
    del draw
    x, y = area.x + area.wide / 2, area.y + area.high / 2
    stretch = max(area.wide - area.high, 0.0) / 2
    around = np.cumsum([8 * ring * cut.width + 4 * stretch for ring in range(1, 61)])
    rings = max(1, int(min(area.high / 2 / cut.width, float(np.searchsorted(around, length)), 60.0)))
    layers = max(1, min(30, round(length / around[rings - 1])))
    text.say(f"G0 X{x:.3f} Y{y:.3f}", f"G0 Z{area.top + _CLEAR:.3f}", f"G1 Z{area.top:.3f} F{cut.feed / 2:.0f}")
    for layer in range(1, layers + 1):
        z, before = area.top - layer * cut.depth, area.top - (layer - 1) * cut.depth
        ramp = min(area.wide / 3, 3 * cut.diameter)
        text.say(f"G1 X{x + ramp:.3f} Z{(z + before) / 2:.3f} F{cut.feed / 2:.0f}", f"G1 X{x:.3f} Z{z:.3f}")
        for ring in range(1, rings + 1):
            dx, dy = ring * cut.width + stretch, ring * cut.width
            text.say(
                f"G1 X{x - dx:.3f} Y{y - dy:.3f} F{cut.feed:.0f}",
                f"G1 X{x + dx:.3f}",
                f"G1 Y{y + dy:.3f}",
                f"G1 X{x - dx:.3f}",
                f"G1 Y{y - dy:.3f}",
            )
        text.say(f"G1 X{x:.3f} Y{y:.3f} F{cut.feed * 2:.0f}")


def _contour(text: NcText, draw: Dice, cut: ToolUse, area: Area, length: float) -> None:
    """Around a plate with round corners, at one or several depths."""
    radius = min(area.wide, area.high) * uniform(draw, 0.08, 0.45)
    around = 2 * (area.wide + area.high) - (8 - 2 * math.pi) * radius
    rounds = max(1, min(40, round(length / around)))
    x0, y0, x1, y1 = area.x, area.y, area.x + area.wide, area.y + area.high
    text.say(f"G0 X{x0 + radius:.3f} Y{y0 - cut.diameter:.3f}", f"G0 Z{area.top + _CLEAR:.3f}")
    for number in range(1, rounds + 1):
        text.say(
            f"G1 Z{area.top - number * cut.depth:.3f} F{cut.feed / 2:.0f}",
            f"G1 X{x0 + radius:.3f} Y{y0:.3f} F{cut.feed:.0f}",
            f"G1 X{x1 - radius:.3f}",
            f"G3 X{x1:.3f} Y{y0 + radius:.3f} I0. J{radius:.3f}",
            f"G1 Y{y1 - radius:.3f}",
            f"G3 X{x1 - radius:.3f} Y{y1:.3f} I{-radius:.3f} J0.",
            f"G1 X{x0 + radius:.3f}",
            f"G3 X{x0:.3f} Y{y1 - radius:.3f} I0. J{-radius:.3f}",
            f"G1 Y{y0 + radius:.3f}",
            f"G3 X{x0 + radius:.3f} Y{y0:.3f} I{radius:.3f} J0.",
        )


def _drill(text: NcText, draw: Dice, cut: ToolUse, area: Area, length: float) -> None:
    """A grid of holes, in one go or with pecks."""
    depth = cut.diameter * uniform(draw, 1.0, 5.0)
    feed = max(cut.feed * 0.5, 10.0)
    holes = int(np.clip(length / depth, 2, 40))
    columns = max(1, round(math.sqrt(holes)))
    cycle = pick(draw, ("G81", "G83", "G73"))
    peck = "" if cycle == "G81" else f" Q{cut.diameter * uniform(draw, 0.5, 1.5):.3f}"
    for hole in range(holes):
        x = area.x + area.wide * (hole % columns + 0.5) / columns
        y = area.y + area.high * (hole // columns + 0.5) / math.ceil(holes / columns)
        if hole == 0:
            text.say(f"G0 X{x:.3f} Y{y:.3f}", f"G0 Z{area.top + 5 * _CLEAR:.3f}")
            text.say(
                f"G99 {cycle} X{x:.3f} Y{y:.3f} Z{area.top - depth:.3f} R{area.top + _CLEAR:.3f}{peck} F{feed:.0f}"
            )
        else:
            text.say(f"X{x:.3f} Y{y:.3f}")
    text.say("G80")


def _surface(text: NcText, draw: Dice, cut: ToolUse, area: Area, length: float) -> None:
    """A wavy surface in many short lines, as a ball mill finishes it."""
    step = max(area.wide / 40, cut.feed / 60 * 0.08)
    lines = int(np.clip(length / area.wide, 2, 40))
    points = int(np.clip(area.wide / step, 4, 40))
    swing, waves = min(area.wide * 0.06, 8.0), uniform(draw, 0.5, 3)
    text.say(f"G0 X{area.x:.3f} Y{area.y:.3f}", f"G0 Z{area.top + swing + _CLEAR:.3f}")
    for line in range(lines):
        y = area.y + line * cut.width * 0.3
        for point in range(points + 1):
            along = (point if line % 2 == 0 else points - point) / points
            z = area.top - cut.depth - swing * (1 - math.cos(2 * math.pi * waves * along + 0.1 * line)) / 2
            text.say(f"G1 X{area.x + area.wide * along:.3f} Y{y:.3f} Z{z:.3f} F{cut.feed:.0f}")


def _circles(text: NcText, draw: Dice, cut: ToolUse, area: Area, length: float) -> None:
    """A slot in circles: the tool never cuts its full width."""
    radius = min(cut.diameter * uniform(draw, 0.3, 1.2), area.high / 2)
    pitch = cut.width * 0.5
    rounds = int(np.clip(length / (2 * math.pi * radius + pitch), 3, 80))
    text.say(
        f"G0 X{area.x:.3f} Y{area.y + radius:.3f}",
        f"G0 Z{area.top + _CLEAR:.3f}",
        f"G1 Z{area.top - cut.depth:.3f} F{cut.feed / 4:.0f}",
    )
    for number in range(rounds):
        x = area.x + number * pitch
        text.say(f"G3 X{x:.3f} Y{area.y + radius:.3f} I0. J{-radius:.3f} F{cut.feed:.0f}", f"G1 X{x + pitch:.3f}")


def _curves(text: NcText, draw: Dice, cut: ToolUse, area: Area, length: float) -> None:
    """A line of half circles to and fro, as letters and free forms are made of, at one or several depths."""
    radius = max(min(area.wide, area.high) / uniform(draw, 4, 12), 0.5)
    bends = max(2, int(area.wide / (2 * radius)))
    rounds = int(np.clip(length / (bends * math.pi * radius), 1, 30))
    text.say(f"G0 X{area.x:.3f} Y{area.y:.3f}", f"G0 Z{area.top + _CLEAR:.3f}")
    for number in range(1, rounds + 1):
        text.say(f"G1 Z{area.top - number * cut.depth:.3f} F{cut.feed / 3:.0f}")
        forth = number % 2 == 1
        for bend in range(bends):
            x = area.x + 2 * radius * (bend + 1 if forth else bends - bend - 1)
            way = "G2" if (bend + number) % 2 else "G3"
            text.say(f"{way} X{x:.3f} Y{area.y:.3f} I{radius if forth else -radius:.3f} J0. F{cut.feed:.0f}")


@dataclass(frozen=True, slots=True)
class MillingOperation:
    """How an operation is written as NC text, how often it is drawn, and the tool that does it."""

    write: Callable[[NcText, Dice, ToolUse, Area, float], None]
    share: float  # of the operations; none for one that is drawn otherwise
    teeth: int = 3
    tool: str = "END MILL"
    finishing: bool = False  # takes little of the spindle's power
    full_width: bool = False


OPERATIONS = {
    "face": MillingOperation(_zigzag, 0.0, teeth=6, tool="FACE MILL"),
    "rough": MillingOperation(_zigzag, 1.5),
    "pocket": MillingOperation(_pocket, 2.0),
    "contour": MillingOperation(_contour, 1.5),
    "finish": MillingOperation(_contour, 1.5, finishing=True),
    "slot": MillingOperation(_zigzag, 0.7, full_width=True),
    "drill": MillingOperation(_drill, 1.5, teeth=2, tool="DRILL", full_width=True),
    "surface": MillingOperation(_surface, 1.0, teeth=2, tool="BALL MILL", finishing=True),
    "circles": MillingOperation(_circles, 0.8),
    "curves": MillingOperation(_curves, 1.0),
}
