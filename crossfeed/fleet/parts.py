"""What the machines make: random milling programs as NC text, read, planned and milled out of their stock.

Tools, speeds and feeds suit the machine and the material; depths follow from the share of the spindle's power that a
cut shall take.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from crossfeed.fleet.dice import Dice, between, chance, evenly, pick, pick_weighted
from crossfeed.fleet.draw import FleetMachine
from crossfeed.machines.simulated.jobs import Job, prepare
from crossfeed.machines.simulated.parameters import RAD_PER_RPM
from crossfeed.machines.simulated.workshop import Material, material_named, material_noted, tool_notes
from crossfeed.programs.bundled import bundled_programs
from crossfeed.programs.parse import parse_program

_BUNDLED = 0.06  # of the programs of a full-size mill
_LONGEST = 9000.0  # mm of cutting path in one operation
_SECONDS = (15.0, 110.0)  # of cutting in one operation
_CELLS = 4.0  # mm of a tool's diameter that deserve cells of half a millimetre
_CLEAR = 2.0  # mm above the stock where rapids end


@dataclass(frozen=True, slots=True)
class Stock:
    """A class of materials: Kienzle's constants, cutting speed in m/min, chip load as a part of the tool's diameter."""

    force: tuple[float, float]  # N/mm^2
    exponent: tuple[float, float]
    speed: tuple[float, float]
    chip: tuple[float, float]


STOCKS = {
    "aluminium": Stock((550, 950), (0.18, 0.28), (100, 900), (0.004, 0.015)),
    "steel": Stock((1400, 2300), (0.20, 0.28), (60, 260), (0.003, 0.010)),
    "stainless": Stock((1900, 2600), (0.20, 0.25), (40, 150), (0.003, 0.008)),
    "cast_iron": Stock((900, 1400), (0.24, 0.30), (60, 220), (0.004, 0.012)),
    "brass": Stock((550, 850), (0.16, 0.24), (90, 350), (0.004, 0.012)),
    "titanium": Stock((1300, 1700), (0.20, 0.25), (25, 90), (0.003, 0.008)),
    "plastic": Stock((60, 220), (0.14, 0.22), (80, 450), (0.005, 0.025)),
    "wax": Stock((15, 60), (0.10, 0.20), (40, 400), (0.005, 0.03)),
}
_LIGHT = {"aluminium": 1.0, "brass": 0.7, "plastic": 1.5, "wax": 1.5, "steel": 0.4}
_ANY = {
    "aluminium": 2.0,
    "steel": 2.0,
    "stainless": 0.7,
    "cast_iron": 0.7,
    "brass": 0.5,
    "titanium": 0.4,
    "plastic": 0.5,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A planned program and what it is cut from."""

    job: Job
    material: Material


@dataclass(frozen=True, slots=True)
class Cut:
    """How a tool is used: rpm, mm/min, axial depth and radial width in mm."""

    diameter: float
    speed: float
    feed: float
    depth: float
    width: float


@dataclass
class Text:
    """NC text under way, with the notes that tell the tools' sizes."""

    lines: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    def say(self, *lines: str) -> None:
        self.lines.extend(lines)


def draw_pieces(machine: FleetMachine, draw: Dice, count: int) -> list[Piece]:
    """Some programs for a machine, each with its material."""
    if machine.kind.turning:
        from crossfeed.fleet.turning import draw_turned_piece

        return [draw_turned_piece(machine, draw, number) for number in range(count)]
    full_size = machine.kind.name != "bench"
    return [
        _bundled_piece(machine, draw) if full_size and chance(draw, _BUNDLED) else _milled_piece(machine, draw, number)
        for number in range(count)
    ]


def draw_material(machine: FleetMachine, draw: Dice) -> tuple[Material, Stock]:
    """What is cut here: soft things on a bench mill, anything on a large machine."""
    name = pick_weighted(draw, _LIGHT if machine.kind.name == "bench" else _ANY)
    stock = STOCKS[name]
    return Material(name, between(draw, *stock.force), evenly(draw, *stock.exponent)), stock


def spindle_room(machine: FleetMachine, speed: float) -> float:
    """W that the spindle can give for good at so many rpm."""
    return min(machine.spindle_power, machine.spindle_torque * speed * RAD_PER_RPM)


def _bundled_piece(machine: FleetMachine, draw: Dice) -> Piece:
    path = pick(draw, [path for name, path in bundled_programs().items() if name != "bracket"])
    text = path.read_text(encoding="utf-8")
    job = prepare(parse_program(text, path.stem, machine.setup), machine.parameters, tool_notes(text), coarseness=2.0)
    return Piece(job, material_named(material_noted(text) or "aluminium"))


def _milled_piece(machine: FleetMachine, draw: Dice, number: int) -> Piece:
    """A program of one to four operations, each with a tool of its own."""
    material, stock = draw_material(machine, draw)
    text = Text()
    text.say("G21 G17 G90 G94")
    top, names, finest = 0.0, [], math.inf
    for index in range(int(draw.integers(1, 5))):
        name = "face" if index == 0 and chance(draw, 0.4) else pick_weighted(draw, _OPERATIONS)
        names.append(name)
        cut = _draw_cut(machine, draw, material, stock, name)
        finest = min(finest, cut.diameter)
        side = between(draw, *machine.kind.part)
        seconds = between(draw, *_SECONDS)
        length = min(seconds * cut.feed / 60, _LONGEST)
        _change_tool(text, draw, index + 1, name, cut)
        corner = (0.0, 0.0) if name == "face" else (evenly(draw, 0, 2) * side, evenly(draw, 0, 2) * side)
        _WAYS[name](text, draw, cut, _Place(*corner, side, side * evenly(draw, 0.3, 1.0), top), length)
        text.say(f"G0 Z{evenly(draw, 10, 60):.2f}")
        if name == "face":
            top -= cut.depth
    if chance(draw, 0.6):
        text.say("M5", "G91 G28 Z0.", "G28 X0. Y0.", "G90")
    text.say("M5", "M30")
    program = parse_program("\n".join(text.lines), f"{'_'.join(names)}_{number}", machine.setup)
    coarseness = float(np.clip(finest / _CELLS, 0.7, 6.0))
    return Piece(prepare(program, machine.parameters, text.notes, coarseness=coarseness), material)


def _draw_cut(machine: FleetMachine, draw: Dice, material: Material, stock: Stock, name: str) -> Cut:
    """Speed and feed for the tool and the material, depth and width for the power that the cut shall take."""
    low, high = machine.kind.tool
    diameter = round(between(draw, max(low, high * 0.4), high) if name == "face" else between(draw, low, high * 0.5), 1)
    top = machine.parameters.spindle.speed_limit
    speed = min(1000 * between(draw, *stock.speed) / (math.pi * diameter), top * evenly(draw, 0.6, 1.0))
    speed = max(round(speed, -1), 50.0)
    teeth = _TEETH.get(name, 3)
    chip = diameter * between(draw, *stock.chip)
    feed = min(chip * teeth * speed, evenly(draw, 0.2, 0.6) * machine.parameters.x.feed_limit, 15000.0)
    feed = max(round(feed, 0), 10.0)
    share = between(draw, 0.005, 0.08) if name in _FINISHING else between(draw, 0.02, 0.9)
    thickness = max(0.6 * feed / (speed * teeth), 1e-3)
    force = material.specific_force * thickness**-material.exponent
    section = share * spindle_room(machine, speed) * 60000 / force / feed  # mm^2
    width = diameter * (1.0 if name in ("slot", "drill") else evenly(draw, 0.08, 0.85))
    depth = float(np.clip(section / width, 0.02, 1.2 * diameter))
    return Cut(diameter, speed, feed, depth, width)


def _change_tool(text: Text, draw: Dice, number: int, name: str, cut: Cut) -> None:
    """Bring a tool in, mostly at the change position, and start the spindle."""
    if number > 1:
        text.say("M5")
    if chance(draw, 0.7):
        text.say("G91 G28 Z0.", "G90")
    text.notes[f"T{number}"] = f"{_TOOL_WORDS.get(name, 'END MILL')} D{cut.diameter:g}"
    text.say(f"T{number} M6", f"S{cut.speed:.0f} {'M4' if chance(draw, 0.02) else 'M3'}")
    if chance(draw, 0.2):
        text.say(f"G4 F{evenly(draw, 1, 5):.1f}")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an operation works: its corner, its sides and the height of the stock there."""

    x: float
    y: float
    wide: float
    high: float
    top: float


def _zigzag(text: Text, draw: Dice, cut: Cut, place: _Place, length: float) -> None:
    """Lines to and fro, layer by layer; also in one direction only, with a rapid back."""
    wide = min(place.wide, max(length / 2, 2 * cut.diameter))
    lines = int(np.clip(min(place.high / cut.width, length / wide), 2, 200))
    layers = max(1, min(30, round(length / (lines * wide))))
    back = chance(draw, 0.3)
    for layer in range(1, layers + 1):
        z = place.top - layer * cut.depth
        text.say(
            f"G0 X{place.x:.3f} Y{place.y:.3f}", f"G0 Z{place.top + _CLEAR:.3f}", f"G1 Z{z:.3f} F{cut.feed / 3:.0f}"
        )
        for line in range(lines):
            forth = line % 2 == 0 or back
            y = place.y + line * cut.width
            if line:
                text.say(f"G1 Y{y:.3f}")
            text.say(f"G1 X{place.x + (wide if forth else 0):.3f} F{cut.feed:.0f}")
            if back:
                text.say(f"G0 Z{place.top + _CLEAR:.3f}", f"G0 X{place.x:.3f}", f"G1 Z{z:.3f} F{cut.feed:.0f}")
        text.say(f"G0 Z{place.top + _CLEAR:.3f}")


def _pocket(text: Text, draw: Dice, cut: Cut, place: _Place, length: float) -> None:
    """A rectangular pocket from its middle outwards, ramping in, layer by layer."""
    del draw
    x, y = place.x + place.wide / 2, place.y + place.high / 2
    stretch = max(place.wide - place.high, 0.0) / 2
    around = np.cumsum([8 * ring * cut.width + 4 * stretch for ring in range(1, 61)])
    rings = max(1, int(min(place.high / 2 / cut.width, np.searchsorted(around, length), 60)))
    layers = max(1, min(30, round(length / around[rings - 1])))
    text.say(f"G0 X{x:.3f} Y{y:.3f}", f"G0 Z{place.top + _CLEAR:.3f}", f"G1 Z{place.top:.3f} F{cut.feed / 2:.0f}")
    for layer in range(1, layers + 1):
        z, before = place.top - layer * cut.depth, place.top - (layer - 1) * cut.depth
        ramp = min(place.wide / 3, 3 * cut.diameter)
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


def _contour(text: Text, draw: Dice, cut: Cut, place: _Place, length: float) -> None:
    """Around a plate with round corners, at one or several depths."""
    radius = min(place.wide, place.high) * evenly(draw, 0.08, 0.45)
    around = 2 * (place.wide + place.high) - (8 - 2 * math.pi) * radius
    rounds = max(1, min(40, round(length / around)))
    x0, y0, x1, y1 = place.x, place.y, place.x + place.wide, place.y + place.high
    text.say(f"G0 X{x0 + radius:.3f} Y{y0 - cut.diameter:.3f}", f"G0 Z{place.top + _CLEAR:.3f}")
    for number in range(1, rounds + 1):
        text.say(
            f"G1 Z{place.top - number * cut.depth:.3f} F{cut.feed / 2:.0f}",
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


def _drill(text: Text, draw: Dice, cut: Cut, place: _Place, length: float) -> None:
    """A grid of holes, in one go or with pecks."""
    depth = cut.diameter * evenly(draw, 1.0, 5.0)
    feed = max(cut.feed * 0.5, 10.0)
    holes = int(np.clip(length / depth, 2, 40))
    columns = max(1, round(math.sqrt(holes)))
    cycle = pick(draw, ("G81", "G83", "G73"))
    peck = "" if cycle == "G81" else f" Q{cut.diameter * evenly(draw, 0.5, 1.5):.3f}"
    for hole in range(holes):
        x = place.x + place.wide * (hole % columns + 0.5) / columns
        y = place.y + place.high * (hole // columns + 0.5) / math.ceil(holes / columns)
        if hole == 0:
            text.say(f"G0 X{x:.3f} Y{y:.3f}", f"G0 Z{place.top + 5 * _CLEAR:.3f}")
            text.say(
                f"G99 {cycle} X{x:.3f} Y{y:.3f} Z{place.top - depth:.3f} R{place.top + _CLEAR:.3f}{peck} F{feed:.0f}"
            )
        else:
            text.say(f"X{x:.3f} Y{y:.3f}")
    text.say("G80")


def _surface(text: Text, draw: Dice, cut: Cut, place: _Place, length: float) -> None:
    """A wavy surface in many short lines, as a ball mill finishes it."""
    step = max(place.wide / 40, cut.feed / 60 * 0.08)
    lines = int(np.clip(length / place.wide, 2, 40))
    points = int(np.clip(place.wide / step, 4, 40))
    swing, waves = min(place.wide * 0.06, 8.0), evenly(draw, 0.5, 3)
    text.say(f"G0 X{place.x:.3f} Y{place.y:.3f}", f"G0 Z{place.top + swing + _CLEAR:.3f}")
    for line in range(lines):
        y = place.y + line * cut.width * 0.3
        for point in range(points + 1):
            along = (point if line % 2 == 0 else points - point) / points
            z = place.top - cut.depth - swing * (1 - math.cos(2 * math.pi * waves * along + 0.1 * line)) / 2
            text.say(f"G1 X{place.x + place.wide * along:.3f} Y{y:.3f} Z{z:.3f} F{cut.feed:.0f}")


def _circles(text: Text, draw: Dice, cut: Cut, place: _Place, length: float) -> None:
    """A slot in circles: the tool never cuts its full width."""
    radius = min(cut.diameter * evenly(draw, 0.3, 1.2), place.high / 2)
    pitch = cut.width * 0.5
    rounds = int(np.clip(length / (2 * math.pi * radius + pitch), 3, 80))
    text.say(
        f"G0 X{place.x:.3f} Y{place.y + radius:.3f}",
        f"G0 Z{place.top + _CLEAR:.3f}",
        f"G1 Z{place.top - cut.depth:.3f} F{cut.feed / 4:.0f}",
    )
    for number in range(rounds):
        x = place.x + number * pitch
        text.say(f"G3 X{x:.3f} Y{place.y + radius:.3f} I0. J{-radius:.3f} F{cut.feed:.0f}", f"G1 X{x + pitch:.3f}")


_Way = Callable[[Text, Dice, Cut, _Place, float], None]
_WAYS: dict[str, _Way] = {
    "face": _zigzag,
    "rough": _zigzag,
    "pocket": _pocket,
    "contour": _contour,
    "finish": _contour,
    "slot": _zigzag,
    "drill": _drill,
    "surface": _surface,
    "circles": _circles,
}
_OPERATIONS = {
    "rough": 1.5, "pocket": 2.0, "contour": 1.5, "finish": 1.5, "slot": 0.7, "drill": 1.5, "surface": 1.0, "circles": 0.8,
}  # fmt: skip
_FINISHING = ("finish", "surface")
_TEETH = {"face": 6, "drill": 2, "surface": 2}
_TOOL_WORDS = {"face": "FACE MILL", "drill": "DRILL", "surface": "BALL MILL"}
