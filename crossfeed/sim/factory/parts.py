"""What the machines make: random milling programs as NC text, read, planned and milled out of their stock.

Tools, speeds and feeds suit the machine and the material; depths follow from the share of the spindle's power that a
cut shall take. Turned parts have facing, roughing, a finished contour, grooves and a hole along the axis.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from crossfeed.configuration import CheckedForm
from crossfeed.programs.parse import bundled_programs, parse_program
from crossfeed.sim.factory.draw import FACTS, FleetMachine
from crossfeed.sim.factory.motors import Dice, Range, chance, log_uniform, pick, pick_weighted, uniform
from crossfeed.sim.factory.operations import OPERATIONS, Area, NcText, ToolUse
from crossfeed.sim.physics.cutting import Engagement, Material, Tool, material_for, tool_notes
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


_CLEAR = 2.0  # mm
_BARS = (20.0, 150.0)  # mm, diameters in the second spindle of a mill-turn
_SLOWEST = 1.0  # mm of radius below which a constant cutting speed asks for no more turns


@dataclass
class _Turned(NcText):
    """NC text with the depth of cut and the diameter at each of its lines."""

    depth: dict[int, float] = field(default_factory=dict)
    diameter: dict[int, float] = field(default_factory=dict)

    def cut(self, line: str, depth: float, diameter: float) -> None:
        self.lines.append(line)
        self.depth[len(self.lines)] = depth
        self.diameter[len(self.lines)] = max(round(diameter, 1), 1.0)


@dataclass(frozen=True, slots=True)
class _Work:
    """A bar in the chuck and how it is cut."""

    radius: float  # mm
    length: float
    depth: float
    feed: float  # mm per turn


def draw_turned_piece(machine: FleetMachine, draw: Dice, second_spindle: bool = False) -> Piece:
    """A program of some operations on one bar, in the logged spindle or in another one."""
    material, stock = draw_material(machine, draw)
    radius = log_uniform(draw, *(machine.kind.tool if machine.kind.turning else _BARS)) / 2
    cutting_speed = log_uniform(draw, *stock.speed)
    top = machine.parameters.spindle.speed_limit * uniform(draw, 0.5, 1.0)
    speed = min(1000 * cutting_speed / (2 * math.pi * radius), top)
    feed = log_uniform(draw, 0.05, 0.45)
    share = log_uniform(draw, 0.02, 0.8)
    force = (
        share * spindle_room(machine, speed) * 60 / (cutting_speed if speed < top else 2e-3 * math.pi * radius * speed)
    )
    depth = float(np.clip(force / (material.specific_force * feed ** (1 - material.exponent)), 0.05, 6.0))
    work = _Work(radius, radius * uniform(draw, 0.6, 5.0), min(depth, radius / 3), feed)
    text = _Turned()
    text.say("G21 G90 G95" if chance(draw, 0.85) else "G21 G90 G94", f"G0 X{radius + 20:.3f} Z50.")
    per_minute = "G94" in text.lines[0]
    for index, operation in enumerate((_face, _rough, _finish, _groove, _bore)):
        if index and index != 1 and chance(draw, 0.45):
            continue
        text.say("M5", "G91 G28 X0.", "G28 Z0.", "G90", f"T{index + 1} M6", f"S{speed:.0f} M3")
        text.say(f"G0 X{radius + _CLEAR:.3f} Z{_CLEAR:.3f}")
        scale = speed if per_minute else 1.0
        operation(text, draw, replace(work, feed=work.feed * scale))
    text.say(f"G0 X{radius + 20:.3f}", "M5", "G91 G28 X0.", "G28 Z0.", "G90", "M30")
    program = parse_program("\n".join(text.lines), "turned", machine.setup)
    job = _engaged(prepare(program, motion_limits(machine.parameters)), text)
    if chance(draw, 0.6):
        job = _constant_cutting_speed(job, speed, radius, top)
    factor = math.pi * (2 / math.pi) ** material.exponent
    turned = Material(material.name, material.specific_force * factor, material.exponent)
    return Piece(job, turned, second_spindle)


def _face(text: _Turned, draw: Dice, work: _Work) -> None:
    for number in range(int(draw.integers(1, 4))):
        text.say(f"G0 Z{-number * work.depth:.3f}")
        text.cut(f"G1 X0. F{work.feed * 0.8:.4f}", work.depth, work.radius)
        text.say(f"G0 Z{_CLEAR:.3f}", f"G0 X{work.radius + _CLEAR:.3f}")


def _rough(text: _Turned, draw: Dice, work: _Work) -> None:
    passes = int(np.clip(work.radius * uniform(draw, 0.1, 0.6) / work.depth, 1, 14))
    for number in range(1, passes + 1):
        x = work.radius - number * work.depth
        length = work.length * (1 - 0.4 * number / passes * draw.random())
        text.say(f"G0 X{x:.3f}")
        text.cut(f"G1 Z{-length:.3f} F{work.feed:.4f}", work.depth, 2 * x + work.depth)
        text.say(f"G1 X{x + 1.2 * work.depth:.3f}", f"G0 Z{_CLEAR:.3f}")


def _finish(text: _Turned, draw: Dice, work: _Work) -> None:
    allowance, feed = work.depth * uniform(draw, 0.05, 0.3), work.feed * uniform(draw, 0.2, 0.6)
    steps = int(draw.integers(2, 8))
    z = 0.0
    x = work.radius * uniform(draw, 0.4, 0.7)
    text.say(f"G0 X{x:.3f}")
    for _ in range(steps):
        z -= work.length / steps
        text.cut(f"G1 Z{z:.3f} F{feed:.4f}", allowance, 2 * x)
        x = min(x + work.radius * uniform(draw, 0.0, 0.08), work.radius)
        text.cut(f"G1 X{x:.3f} Z{z - 0.2:.3f}", allowance, 2 * x)
    text.say(f"G0 X{work.radius + _CLEAR:.3f}", f"G0 Z{_CLEAR:.3f}")


def _groove(text: _Turned, draw: Dice, work: _Work) -> None:
    width, feed = uniform(draw, 1.5, 4.0), work.feed * 0.3
    for _ in range(int(draw.integers(1, 5))):
        text.say(f"G0 Z{-work.length * uniform(draw, 0.1, 0.9):.3f}")
        bottom = work.radius * uniform(draw, 0.5, 0.85)
        text.cut(f"G1 X{bottom:.3f} F{feed:.4f}", min(width, work.depth * 2), 2 * work.radius)
        text.say("G4 F0.5", f"G0 X{work.radius + _CLEAR:.3f}")


def _bore(text: _Turned, draw: Dice, work: _Work) -> None:
    diameter = min(work.radius * uniform(draw, 0.2, 0.7), 30.0)
    depth, feed, peck = work.length * uniform(draw, 0.2, 0.7), work.feed * 0.5, diameter * uniform(draw, 0.5, 3)
    text.say(f"G0 Z{_CLEAR:.3f}", "G0 X0.")
    pecks = int(np.clip(depth / peck, 1, 12))
    for number in range(1, pecks + 1):
        text.cut(f"G1 Z{-depth * number / pecks:.3f} F{feed:.4f}", diameter / 4, diameter)
        if number < pecks:
            text.say(f"G0 Z{_CLEAR:.3f}", f"G0 Z{-depth * (number - 0.1) / pecks:.3f}")
    text.say(f"G0 Z{_CLEAR:.3f}", f"G0 X{work.radius + _CLEAR:.3f}")


def _engaged(job: Job, text: _Turned) -> Job:
    """The job with the depth of each line, and a tool with one tooth for each diameter."""
    diameters = sorted({1.0, *text.diameter.values()})
    tools = [Tool(f"turning at {diameter:g}", diameter, 1, math.inf, assumed=False) for diameter in diameters]
    depths, kinds = np.zeros(len(text.lines) + 2), np.zeros(len(text.lines) + 2, dtype=np.intp)
    for line, nominal in text.depth.items():
        depths[line], kinds[line] = nominal, diameters.index(text.diameter[line])
    kind = kinds[job.line]
    depth = np.where(job.cutting, depths[job.line], 0.0)
    width = np.where(depth > 0, np.array(diameters)[kind], 0.0)
    return replace(job, tool=kind, tools=tools, engagement=Engagement(depth, width))


def _constant_cutting_speed(job: Job, speed: float, radius: float, top: float) -> Job:
    """G96: the spindle turns faster the nearer the tool is to the axis."""
    wanted = np.minimum(speed * radius / np.maximum(job.position[:, 0], _SLOWEST), top)
    return replace(job, spindle_speed=np.sign(job.spindle_speed) * np.where(job.spindle_speed != 0, wanted, 0.0))
