"""Who stands at the machines: overrides turned in the cut, holds, stops, resets, set-ups, warm-ups and long idle times.

A shift is a list of stints, each a stretch of drive inputs; between them nothing is left out, so heat and wear of the
day are those of the whole shift.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from crossfeed.sim.factory.draw import FleetMachine
from crossfeed.sim.factory.motors import Dice, chance, log_uniform, pick, uniform
from crossfeed.sim.factory.parts import Piece
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.jobs import OverrideSchedule, play_under
from crossfeed.sim.physics.parameters import Floats

_KNOB = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.9, 1.0, 1.0, 1.0, 1.0, 1.1, 1.2)
_LONG_IDLE = 45.0  # s after which some machines switch their drives off
_CREEPING = 0.3  # rpm, which a log shows as none
_SPINNING_UP = 4  # s between a restarted spindle and the feed


@dataclass(frozen=True, slots=True)
class Person:
    """Habits of the people at one machine; rates are per minute of a program."""

    idle: float  # share of the shift in which the machine stands between programs
    knob: float  # turns of the feed override
    spindle_knob: float
    jumps: float  # probability that a knob jumps to its place, as a programmed word or a button does
    hold: float  # feed holds
    stop: float  # holds with a stopped spindle
    reset: float  # probability that a program is cut short
    setting_up: float  # probability of jogging about before a program
    warm_up: bool
    feed: float  # usual override
    rapid: float  # usual rapid override
    sleeps: bool  # drives off in long idle times


def draw_person(draw: Dice, busy: bool) -> Person:
    """Anybody: most leave the knobs alone, some never do; `busy` ones, as in a trial, seldom let the machine stand."""
    return Person(
        idle=uniform(draw, 0.02, 0.25) if chance(draw, 0.75 if busy else 0.4) else uniform(draw, 0.2, 0.8),
        knob=0.0 if chance(draw, 0.2) else log_uniform(draw, 0.2, 6.0),
        spindle_knob=0.0 if chance(draw, 0.4) else log_uniform(draw, 0.1, 2.0),
        jumps=uniform(draw, 0.0, 1.0),
        hold=0.0 if chance(draw, 0.4) else log_uniform(draw, 0.05, 1.0),
        stop=0.0 if chance(draw, 0.6) else log_uniform(draw, 0.03, 0.4),
        reset=0.0 if chance(draw, 0.5) else uniform(draw, 0.0, 0.3),
        setting_up=0.0 if chance(draw, 0.5) else uniform(draw, 0.05, 0.6),
        warm_up=chance(draw, 0.2),
        feed=1.0 if chance(draw, 0.7) else float(pick(draw, _KNOB)),
        rapid=1.0 if chance(draw, 0.6) else float(pick(draw, (0.1, 0.25, 0.5, 0.5, 0.75))),
        sleeps=chance(draw, 0.35),
    )


@dataclass(frozen=True, slots=True)
class Stint:
    """A stretch of a shift: a program, or nothing (an empty name)."""

    program: str
    start: int  # inner steps
    stop: int


@dataclass(frozen=True)
class Shift:
    """Everything that was asked of a machine, and when its drives were on."""

    inputs: DriveInputs
    stints: tuple[Stint, ...]
    awake: NDArray[np.bool_]  # (N,)


def work(
    machine: FleetMachine, pieces: Sequence[Callable[[], Piece]], person: Person, seconds: float, draw: Dice
) -> Shift:
    """A shift of so many seconds; a piece is planned when it is first made."""
    step = machine.time_step
    total = round(seconds / step)
    parts: list[tuple[str, DriveInputs, bool]] = []
    done = 0

    def add(name: str, inputs: DriveInputs, awake: bool = True) -> None:
        nonlocal done
        kept = inputs[: total - done]
        if len(kept):
            parts.append((name, kept, awake))
            done += len(kept)

    def stand(duration: float) -> None:
        falls_asleep = person.sleeps and duration > _LONG_IDLE
        awake_for = min(duration, log_uniform(draw, 10, _LONG_IDLE)) if falls_asleep else duration
        add("", DriveInputs.idle(math.ceil(awake_for / step)))
        if falls_asleep:
            add("", DriveInputs.idle(math.ceil((duration - awake_for) / step)), awake=False)
            add("", DriveInputs.idle(math.ceil(uniform(draw, 2, 8) / step)))

    stand(log_uniform(draw, 2, 60))
    if person.warm_up:
        add("warm_up", _warm_up(machine, draw))
    piece = pick(draw, pieces)()
    while done < total:
        if chance(draw, 0.4):
            piece = pick(draw, pieces)()
        if chance(draw, person.setting_up):
            add("", _set_up(machine, draw))
        name, played, reset = piece.job.name, _played(machine, piece, person, draw), chance(draw, person.reset)
        if reset:
            played = played[: max(int(len(played) * draw.random()), round(3 / step))]
        add(name, played)
        if reset:
            add("", _retract(machine, draw))
        busy = len(played) * step
        stand(float(np.clip(busy * person.idle / (1 - person.idle) * draw.lognormal(-0.3, 0.8), 3.0, 1500.0)))
    bounds = np.cumsum([0, *(len(inputs) for _, inputs, _ in parts)]).tolist()
    return Shift(
        DriveInputs.joined([inputs for _, inputs, _ in parts]),
        tuple(Stint(name, first, last) for (name, _, _), first, last in zip(parts, bounds, bounds[1:])),
        np.concatenate([np.full(len(inputs), awake) for _, inputs, awake in parts]),
    )


def _played(machine: FleetMachine, piece: Piece, person: Person, draw: Dice) -> DriveInputs:
    """A program as these people run it, with a schedule that changes every second."""
    rows = math.ceil(piece.job.seconds * 1.5) + 5
    feed = np.full(rows, person.feed)
    for row in _moments(draw, person.knob, rows):
        _turn(feed, row, float(pick(draw, _KNOB)), chance(draw, person.jumps))
    spindle = np.ones(rows)
    for row in _moments(draw, person.spindle_knob, rows):
        wanted = float(pick(draw, (0.5, 0.7, 0.8, 0.9, 1.0, 1.0, 1.1, 1.2)))
        _turn(spindle, row, wanted, chance(draw, person.jumps))
    for row in _moments(draw, person.hold, rows):
        feed[row : row + math.ceil(log_uniform(draw, 1, 40))] = 0.0
    for row in _moments(draw, person.stop, rows):
        long = math.ceil(log_uniform(draw, 6, 90))
        feed[row : row + long + _SPINNING_UP] = 0.0
        spindle[row : row + long] = 0.0
    feed[-1], spindle[-1] = max(feed[-1], 0.3), max(spindle[-1], 0.5)
    schedule = OverrideSchedule.of(feed, spindle, person.rapid)
    inputs = play_under(piece.job, schedule, piece.material, machine.time_step).inputs
    return _on_second_spindle(machine, inputs) if piece.second_spindle else inputs


def _on_second_spindle(machine: FleetMachine, inputs: DriveInputs) -> DriveInputs:
    """The axes feel the cut, the logged spindle stands (it creeps: a cut without any turn would have no chip).

    A creeping spindle meets the thickest chip there is; the specific force is less by as much as the true chip is
    thinner.
    """
    thickest = machine.parameters.cutting.chip_load_limit
    turns = np.maximum(np.abs(inputs.spindle_speed), 1.0)  # rpm
    chip = np.clip(np.linalg.norm(inputs.feed, axis=1) / turns / inputs.teeth, 1e-4, thickest)
    force = inputs.specific_force * (chip / thickest) ** (1 - inputs.exponent)
    return replace(inputs, spindle_speed=np.full(len(inputs), _CREEPING), specific_force=force)


def _moments(draw: Dice, per_minute: float, rows: int) -> list[int]:
    """Seconds at which something happens that happens so often."""
    count = int(draw.poisson(per_minute * rows / 60))
    return sorted(draw.integers(0, rows, count).tolist())


def _turn(knob: Floats, row: int, wanted: float, jumps: bool) -> None:
    """Turn a knob, at once or by at most 20 % a second, and leave it there."""
    now = knob[row]
    steps = 0 if jumps else math.ceil(abs(wanted - now) / 0.2)
    knob[row:] = wanted
    ramp = now + (wanted - now) * np.arange(1, steps + 1) / max(steps, 1)
    knob[row : row + steps] = ramp[: len(knob) - row]


def _moved(machine: FleetMachine, moves: list[tuple[float, Floats, float]]) -> DriveInputs:
    """Stretches of (rpm, feeds in mm/min, seconds) in the air."""
    step = machine.time_step
    commands = [np.tile([rpm, *feeds], (max(1, math.ceil(seconds / step)), 1)) for rpm, feeds, seconds in moves]
    return DriveInputs.held(np.concatenate(commands), 1)


def _set_up(machine: FleetMachine, draw: Dice) -> DriveInputs:
    """Jogging to and fro, touching off with small steps, the spindle sometimes on."""
    limits = np.array([axis.feed_limit for axis in machine.parameters.axes])
    if machine.kind.turning:
        limits[1] = 0.0
    rpm = round(machine.parameters.spindle.speed_limit * log_uniform(draw, 0.02, 0.4)) if chance(draw, 0.4) else 0.0
    moves: list[tuple[float, Floats, float]] = []
    for _ in range(int(draw.integers(3, 14))):
        feeds = np.zeros(3)
        axis = int(draw.integers(3))
        feeds[axis] = limits[axis] * log_uniform(draw, 0.002, 0.6) * pick(draw, (1, -1))
        moves += [(rpm, feeds, log_uniform(draw, 0.2, 4)), (rpm, np.zeros(3), log_uniform(draw, 0.3, 12))]
    return _moved(machine, [*moves, (0.0, np.zeros(3), 2.0)])


def _retract(machine: FleetMachine, draw: Dice) -> DriveInputs:
    """After a reset: the spindle stops, the tool goes up."""
    up = np.array([0.0, 0.0, machine.parameters.z.feed_limit * pick(draw, (0.1, 0.25, 0.5, 1.0))])
    return _moved(machine, [(0.0, np.zeros(3), log_uniform(draw, 1, 20)), (0.0, up, log_uniform(draw, 0.5, 5))])


def _warm_up(machine: FleetMachine, draw: Dice) -> DriveInputs:
    """Steps of spindle speed, with strokes of the axes between them."""
    top = machine.parameters.spindle.speed_limit
    stroke = np.array([axis.feed_limit for axis in machine.parameters.axes]) * uniform(draw, 0.1, 0.8)
    if machine.kind.turning:
        stroke[1] = 0.0
    moves: list[tuple[float, Floats, float]] = []
    for share in np.linspace(0.2, uniform(draw, 0.5, 1.0), int(draw.integers(3, 7))):
        rpm = round(top * float(share), -1)
        moves += [(rpm, np.zeros(3), log_uniform(draw, 8, 60)), (rpm, stroke, 1.0), (rpm, -stroke, 1.0)]
    return _moved(machine, [*moves, (0.0, np.zeros(3), 5.0)])
