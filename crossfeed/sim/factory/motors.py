"""Dice, channels and drives of the fleet: spindles and axes of any size, from their rating plates, and their quirks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from crossfeed.schema import QUANTITIES, Channel, Schema, canonical
from crossfeed.sim.physics.drives import wander
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Axis, Floats, Heat, Spindle

Dice = np.random.Generator
Range = tuple[float, float]
Choice = TypeVar("Choice")

# Between a torque constant (N m per A of amplitude) and the line voltage (rms) that the motor makes per rad/s.
LINE_VOLTAGE = math.sqrt(1.5) / 1.5
_GRAVITY = 9.81
_STANDING = 0.05  # mm/s
_PURPOSES = ("period", "machine", "parts", "people", "habits", "physics")

AXES = ("x", "y", "z")
UNKNOWN = "unknown"
OTHERS = ("other_1", "other_2", "other_3")

_DRIVE = {
    "current": "current",
    "output_current": "current",
    "torque": "torque",
    "power": "power",
    "load": "load",
    "output_voltage": "voltage",
}
_SPINDLE = _DRIVE | {
    "dc_voltage": "voltage",
    "mod_depth": "modulation depth",
    "actual_speed": "rotational speed",
    "motor_temp": "temperature",
}
_AXIS = _DRIVE | {"velocity": "feed", "motor_temp": "temperature"}


def dice(seed: int, number: int, purpose: str, item: int = 0) -> Dice:
    """The generator of one purpose of one machine, or of one of its items; nothing depends on order."""
    return np.random.default_rng([seed, number, _PURPOSES.index(purpose), item])


def log_uniform(draw: Dice, low: float, high: float) -> float:
    """A number with an even logarithm: 1 to 10 as often as 10 to 100."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def uniform(draw: Dice, low: float, high: float) -> float:
    """A number from anywhere between two."""
    return float(draw.uniform(low, high))


def chance(draw: Dice, probability: float) -> bool:
    """Whether something happens."""
    return bool(draw.random() < probability)


def pick(draw: Dice, choices: Sequence[Choice]) -> Choice:
    """One of several, all alike."""
    return choices[int(draw.integers(len(choices)))]


def pick_weighted(draw: Dice, weights: Mapping[Choice, float]) -> Choice:
    """One of several by their weights."""
    names = list(weights)
    share = np.array([weights[name] for name in names])
    return names[int(draw.choice(len(names), p=share / share.sum()))]


def draw_spindle(draw: Dice, power: float, top: float, base_share: Range, link_voltage: float) -> Spindle:
    """A spindle of so many W and rpm behind an intermediate circuit of so many V."""
    base = top * log_uniform(draw, *base_share)  # rpm up to which the full torque is there
    torque = power / (base * RAD_PER_RPM)
    peak = uniform(draw, 1.15, 2.2)  # short-time over continuous rating
    voltage = link_voltage / math.sqrt(2) * uniform(draw, 0.45, 0.95)
    weakening = min(top, base * uniform(draw, 1.0, 1.6))
    constant = voltage / (LINE_VOLTAGE * weakening * RAD_PER_RPM)
    current = torque / constant
    magnetising = current * (0.0 if chance(draw, 0.35) else uniform(draw, 0.15, 0.6))  # none in a synchronous motor
    top_rad = top * RAD_PER_RPM
    friction = power * log_uniform(draw, 0.015, 0.12 if power > 3000 else 0.4) / top_rad
    dry = uniform(draw, 0.1, 0.8)
    iron = power * log_uniform(draw, 0.004, 0.04)
    eddy_share = uniform(draw, 0.2, 0.8)
    copper = power * log_uniform(draw, 0.015, 0.10 if power > 3000 else 0.25)
    seconds = log_uniform(draw, 0.4, 5.0)  # to the top speed
    braking = uniform(draw, 0.6, 1.1) * peak
    return Spindle(
        inertia=2 * power * peak * seconds / top_rad**2,
        torque_limit=torque * peak,
        braking_torque_limit=torque * braking,
        power_limit=power * peak,
        braking_power_limit=power * braking,
        speed_limit=top,
        torque_constant=constant,
        weakening_speed=weakening,
        magnetising_current=magnetising,
        resistance=copper / (1.5 * (current**2 + magnetising**2)),
        hysteresis=iron * (1 - eddy_share) / top_rad,
        eddy=iron * eddy_share / top_rad**2,
        coulomb=friction * dry,
        viscous=friction * (1 - dry) / top_rad,
        response=log_uniform(draw, 0.06, 0.3),
        weakened_voltage=voltage,
        leakage=uniform(draw, 0.05, 0.35) * voltage / (current * weakening * RAD_PER_RPM),
        sense=pick(draw, (1, 1, 1, -1)),
        heat=draw_heat(draw, copper + iron + friction * top_rad * 0.3, quick=log_uniform(draw, 40, 240)),
    )


def draw_axis(
    draw: Dice, mass: float, pitch: float, rapid: float, acceleration: float, hanging: float, link_voltage: float
) -> tuple[Axis, float]:
    """A slide of so many kg, and its rated torque; `hanging` is the part of its weight that the motor carries."""
    lever = pitch / 1000 / (2 * math.pi)
    friction = mass * _GRAVITY * log_uniform(draw, 0.02, 0.25)
    viscous = friction * log_uniform(draw, 0.1, 2.0) / (rapid / 60)
    inertia = lever**2 * mass * log_uniform(draw, 0.2, 3.0)
    weight = mass * _GRAVITY * hanging
    steady = weight + friction + viscous * rapid / 60
    needed = lever * (steady + (mass + inertia / lever**2) * acceleration / 1000)
    limit = needed * uniform(draw, 1.15, 3.0)
    top = rapid / 60 / (lever * 1000)  # rad/s of the motor
    constant = link_voltage / math.sqrt(2) * uniform(draw, 0.35, 0.9) / (LINE_VOLTAGE * top)
    rated = max(limit / uniform(draw, 2.0, 4.0), lever * weight * uniform(draw, 1.3, 4.0))
    copper = rated * top * log_uniform(draw, 0.03, 0.25)
    axis = Axis(
        mass=mass,
        pitch=pitch,
        motor_inertia=inertia,
        gravity=weight,
        coulomb=friction,
        viscous=viscous,
        torque_limit=limit,
        torque_constant=constant,
        resistance=copper / (1.5 * (rated / constant) ** 2),
        feed_limit=rapid,
        acceleration=acceleration,
        response=log_uniform(draw, 0.008, 0.06),
        sense=pick(draw, (1, -1)),
        heat=draw_heat(draw, copper, quick=log_uniform(draw, 30, 180)),
    )
    return axis, rated


def draw_heat(draw: Dice, rated_loss: float, quick: float) -> Heat:
    """Two nodes that get 25 to 90 K warmer at the rated loss; the housing takes minutes to hours."""
    resistance = log_uniform(draw, 25, 90) / rated_loss
    inner = resistance * uniform(draw, 0.15, 0.5)
    outer = resistance - inner
    return Heat(
        winding_capacity=quick / inner,
        housing_capacity=log_uniform(draw, 900, 7200) / outer,
        winding_to_housing=inner,
        housing_to_surroundings=outer,
        surroundings=uniform(draw, -2, 14),
        friction_share=uniform(draw, 0.1, 0.5),
    )


def _channel(name: str, quantity: str) -> Channel:
    return Channel(name=name, quantity=quantity, unit="1" if quantity == UNKNOWN else QUANTITIES[quantity])


@cache
def fleet_schema() -> Schema:
    """Every sensor a machine of the fleet can show, and the four canonical commands."""
    drives = (("spindle", _SPINDLE), *((axis, _AXIS) for axis in AXES))
    return Schema(
        name="fleet",
        sensors=(
            *(_channel(f"{drive}_{detail}", quantity) for drive, own in drives for detail, quantity in own.items()),
            _channel("ambient_temp", "temperature"),
            *(_channel(name, UNKNOWN) for name in OTHERS),
        ),
        commands=canonical().commands,
        quantities={UNKNOWN: "1"},
    )


@dataclass(frozen=True, slots=True)
class Servo:
    """How far the drives of a machine are from the textbook."""

    stick: float  # of the Coulomb friction that a stopped axis still holds against, at most
    creep: float  # s until it has let go of most of it
    hunting: float  # of the Coulomb friction, standard deviation
    hunting_memory: float  # s
    jitter: float  # of the rapid feed: velocity that a loop which hunts shows
    waver: float  # of the velocity itself
    ripple: float  # of the friction torque of the turning spindle, standard deviation
    ripple_memory: float  # s


def draw_servo(draw: Dice) -> Servo:
    """Drives of any quality."""
    return Servo(
        stick=0.0 if chance(draw, 0.25) else uniform(draw, 0.1, 1.0),
        creep=log_uniform(draw, 1.0, 120.0),
        hunting=0.0 if chance(draw, 0.2) else log_uniform(draw, 0.005, 0.8),
        hunting_memory=log_uniform(draw, 0.05, 2.0),
        jitter=log_uniform(draw, 1e-6, 4e-3),
        waver=log_uniform(draw, 1e-4, 2e-2),
        ripple=0.0 if chance(draw, 0.3) else log_uniform(draw, 0.01, 0.5),
        ripple_memory=log_uniform(draw, 0.01, 0.5),
    )


def held_torque(servo: Servo, axis: Axis, velocity: Floats, time_step: float, draw: Dice) -> Floats:
    """N m that a standing axis keeps from the way it stopped."""
    torque = np.zeros(len(velocity))
    if not servo.stick:
        return torque
    moving = np.abs(velocity) > _STANDING
    stops = np.flatnonzero(moving[:-1] & ~moving[1:]) + 1
    ends = np.append(np.flatnonzero(~moving[:-1] & moving[1:]) + 1, len(velocity))
    shares = servo.stick * draw.uniform(-0.2, 1.0, len(stops))
    for stop, share in zip(stops.tolist(), shares.tolist()):
        end = int(ends[np.searchsorted(ends, stop, side="right")])
        start = axis.lever * axis.coulomb * share * np.sign(velocity[stop - 1])
        torque[stop:end] = start * np.exp(-np.arange(end - stop) * (time_step / servo.creep))
    return torque


def hunting(servo: Servo, steps: int, time_step: float, draw: Dice) -> Floats:
    """Unit noise of a position loop that never rests."""
    return wander(draw.standard_normal(steps), time_step, servo.hunting_memory, 0.0)[0]


def ripple_torque(servo: Servo, spindle: Spindle, speed: Floats, time_step: float, draw: Dice) -> Floats:
    """N m around the mean torque of a turning spindle."""
    turning = np.abs(speed) > 1.0
    friction = (spindle.coulomb + spindle.viscous * np.abs(speed)) * turning
    unsteady, _ = wander(draw.standard_normal(len(speed)), time_step, servo.ripple_memory, 0.0)
    return np.asarray(servo.ripple * friction * unsteady)
