"""Turned parts: facing, roughing, a finished contour, grooves and a hole along the axis, on a machine without Y.

X is a radius. The depth of cut is known line by line, so no stock is milled; Kienzle's force for turning,
F = k_c a_p f^(1 - m_c), is a milling cut with one tooth whose width is the work piece's diameter.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from crossfeed.programs.parse import parse_program
from crossfeed.sim.factory.draw import FleetMachine
from crossfeed.sim.factory.motors import Dice, chance, log_uniform, uniform
from crossfeed.sim.factory.operations import NcText
from crossfeed.sim.factory.parts import Piece, draw_material, spindle_room
from crossfeed.sim.physics.cutting import Engagement, Material, Tool
from crossfeed.sim.physics.jobs import Job, motion_limits, prepare

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
