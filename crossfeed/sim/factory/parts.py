"""What the machines make: random milling programs as NC text, read, planned and milled out of their stock.

Tools, speeds and feeds suit the machine and the material; depths follow from the share of the spindle's power that a
cut shall take.
"""

import math
from dataclasses import dataclass

import numpy as np

from crossfeed.configuration import CheckedForm
from crossfeed.programs.parse import bundled_programs, parse_program
from crossfeed.sim.factory.draw import FACTS, FleetMachine
from crossfeed.sim.factory.motors import Dice, Range, chance, log_uniform, pick, pick_weighted, uniform
from crossfeed.sim.factory.operations import OPERATIONS, Area, NcText, ToolUse
from crossfeed.sim.physics.cutting import Material, material_for, tool_notes
from crossfeed.sim.physics.jobs import Job, motion_limits, prepare
from crossfeed.sim.physics.parameters import RAD_PER_RPM

_BUNDLED = 0.06  # of the programs of a full-size mill
_TURNED = 0.5  # of the programs of a mill-turn
_LONGEST = 9000.0  # mm of cutting path in one operation
_SECONDS = (5.0, 110.0)  # of cutting in one operation
_SHARES = {name: operation.share for name, operation in OPERATIONS.items() if operation.share}
_CELLS = 4.0  # mm of a tool's diameter that deserve cells of half a millimetre


class Stock(CheckedForm):
    """A class of materials, as `fleet.yaml` lists them."""

    force: Range
    exponent: Range
    speed: Range
    chip: Range


STOCKS = {name: Stock(**values) for name, values in FACTS["stocks"].items()}


@dataclass(frozen=True, slots=True)
class Piece:
    """A planned program and what it is cut from."""

    job: Job
    material: Material
    second_spindle: bool = False  # another spindle than the logged one turns the work piece


def draw_piece(machine: FleetMachine, draw: Dice) -> Piece:
    """A program for a machine, with its material."""
    second_spindle = machine.kind.name == "mill_turn" and chance(draw, _TURNED)
    if machine.kind.turning or second_spindle:
        from crossfeed.sim.factory.turning import draw_turned_piece

        return draw_turned_piece(machine, draw, second_spindle)
    if machine.kind.name != "bench" and chance(draw, _BUNDLED):
        return _bundled_piece(machine, draw)
    return _milled_piece(machine, draw)


def draw_material(machine: FleetMachine, draw: Dice) -> tuple[Material, Stock]:
    """What is cut here: soft things on a bench mill, anything on a large machine."""
    name = pick_weighted(draw, FACTS["cut_on_bench" if machine.kind.name == "bench" else "cut_elsewhere"])
    stock = STOCKS[name]
    return Material(name, log_uniform(draw, *stock.force), uniform(draw, *stock.exponent)), stock


def spindle_room(machine: FleetMachine, speed: float) -> float:
    """W that the spindle can give for good at so many rpm."""
    return min(machine.spindle_power, machine.spindle_torque * speed * RAD_PER_RPM)


def _bundled_piece(machine: FleetMachine, draw: Dice) -> Piece:
    path = pick(draw, [path for name, path in bundled_programs().items() if name != "bracket"])
    text, limits = path.read_text(encoding="utf-8"), motion_limits(machine.parameters)
    job = prepare(parse_program(text, path.stem, machine.setup), limits, tool_notes(text), coarseness=2.0)
    return Piece(job, material_for(text))


def _milled_piece(machine: FleetMachine, draw: Dice) -> Piece:
    """A program of one to five operations, mostly each with a tool of its own."""
    material, stock = draw_material(machine, draw)
    text = NcText()
    text.say("G21 G17 G90 G94")
    keeps_tool = machine.kind.name == "bench" and chance(draw, 0.6)
    top, names, finest = 0.0, [], math.inf
    for index in range(int(draw.integers(1, 6))):
        name = "face" if index == 0 and chance(draw, 0.4) else pick_weighted(draw, _SHARES)
        names.append(name)
        cut = _draw_cut(machine, draw, material, stock, name)
        finest = min(finest, cut.diameter)
        side = log_uniform(draw, *machine.kind.part)
        seconds = log_uniform(draw, *_SECONDS)
        length = min(seconds * cut.feed / 60, _LONGEST)
        if index == 0 or not keeps_tool:
            _change_tool(text, draw, index + 1, name, cut)
        corner = (0.0, 0.0) if name == "face" else (uniform(draw, 0, 2) * side, uniform(draw, 0, 2) * side)
        OPERATIONS[name].write(text, draw, cut, Area(*corner, side, side * uniform(draw, 0.3, 1.0), top), length)
        text.say(f"G0 Z{uniform(draw, 10, 60):.2f}")
        if name == "face":
            top -= cut.depth
    if chance(draw, 0.6):
        text.say("M5", "G91 G28 Z0.", "G28 X0. Y0.", "G90")
    text.say("M5", "M30")
    program = parse_program("\n".join(text.lines), "_".join(names), machine.setup)
    coarseness = float(np.clip(finest / _CELLS, 0.7, 6.0))
    return Piece(prepare(program, motion_limits(machine.parameters), text.notes, coarseness=coarseness), material)


def _draw_cut(machine: FleetMachine, draw: Dice, material: Material, stock: Stock, name: str) -> ToolUse:
    """Speed and feed for the tool and the material, depth and width for the power that the cut shall take."""
    operation, (low, high) = OPERATIONS[name], machine.kind.tool
    diameter = round(
        log_uniform(draw, max(low, high * 0.4), high) if name == "face" else log_uniform(draw, low, high * 0.5), 1
    )
    top = machine.parameters.spindle.speed_limit
    speed = min(1000 * log_uniform(draw, *stock.speed) / (math.pi * diameter), top * uniform(draw, 0.6, 1.0))
    speed = max(round(speed, -1), 50.0)
    chip = diameter * log_uniform(draw, *stock.chip)
    feed = min(chip * operation.teeth * speed, uniform(draw, 0.2, 0.8) * machine.parameters.x.feed_limit, 15000.0)
    if machine.kind.name == "bench" and chance(draw, 0.7):  # light cuts at feeds near the rapid one
        feed = max(feed, machine.parameters.x.feed_limit * log_uniform(draw, 0.04, 0.5))
    feed = max(round(feed, 0), 10.0)
    share = log_uniform(draw, 0.005, 0.08) if operation.finishing else log_uniform(draw, 0.02, 0.9)
    thickness = max(0.6 * feed / (speed * operation.teeth), 1e-3)
    force = material.specific_force * thickness**-material.exponent
    section = share * spindle_room(machine, speed) * 60000 / force / feed  # mm^2
    width = diameter * (1.0 if operation.full_width else uniform(draw, 0.08, 0.85))
    depth = float(np.clip(section / width, 0.02, 1.2 * diameter))
    return ToolUse(diameter, speed, feed, depth, width)


def _change_tool(text: NcText, draw: Dice, number: int, name: str, cut: ToolUse) -> None:
    """Bring a tool in, mostly at the change position, and start the spindle."""
    if number > 1:
        text.say("M5")
    if chance(draw, 0.7):
        text.say("G91 G28 Z0.", "G90")
    text.notes[f"T{number}"] = f"{OPERATIONS[name].tool} D{cut.diameter:g}"
    text.say(f"T{number} M6", f"S{cut.speed:.0f} {'M4' if chance(draw, 0.02) else 'M3'}")
    if chance(draw, 0.2):
        text.say(f"G4 F{uniform(draw, 1, 5):.1f}")
