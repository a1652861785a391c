"""What makes one machine differ from another: frozen parameter sets, checked when they are built.

Units: N m, N, A, ohm, W, V, kg, kg m^2, s; axis lengths in mm; speeds as the shop writes them (rpm, mm/min)."""

import hashlib
import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from crossfeed.configuration import CheckedForm, problems
from crossfeed.errors import MachineError
from crossfeed.schema import canonical

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Sense = Literal[1, -1]

RAD_PER_RPM = 2 * math.pi / 60


class Parameters(CheckedForm):
    """Base of all parameter sets; impossible values raise a MachineError that names them."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise MachineError(
                f"These {type(self).__name__} parameters describe no machine: {problems(error)}.",
                expected="positive masses, constants and times, and limits that the drive can reach",
                remedy="Correct the named values; docs/simulator.md lists every parameter with its unit.",
            ) from error


class Heat(Parameters):
    """Two thermal nodes of a motor, winding and housing, above surroundings of their own."""

    winding_capacity: Positive  # J/K
    housing_capacity: Positive  # J/K
    winding_to_housing: Positive  # K/W
    housing_to_surroundings: Positive  # K/W
    surroundings: Finite = 0.0  # K above the hall: an oil cooler, a neighbouring drive
    friction_share: Annotated[float, Field(ge=0, le=1)] = 0.3  # part of the friction heat that reaches the motor


class Spindle(Parameters):
    """The main spindle with its speed controller."""

    inertia: Positive
    torque_limit: Positive
    braking_torque_limit: Positive
    power_limit: Positive  # mechanical, above it the torque falls as 1 / speed
    braking_power_limit: Positive
    speed_limit: Positive  # rpm
    torque_constant: Positive  # N m / A below the weakening speed
    weakening_speed: Positive  # rpm; above it the torque constant falls as 1 / speed
    magnetising_current: NotNegative
    resistance: Positive  # of one phase; copper loss = 1.5 R (i_q^2 + i_d^2)
    hysteresis: NotNegative  # W s: iron loss per rad/s
    eddy: NotNegative  # W s^2: iron loss per (rad/s)^2
    coulomb: NotNegative  # N m
    viscous: NotNegative  # N m s
    response: Positive  # s, time constant of the speed controller
    weakened_voltage: Positive  # V of EMF, reached at the weakening speed and held above it
    leakage: NotNegative  # ohm s: voltage across per ampere and rad/s
    sense: Sense = 1  # sign of current and torque in the log when the spindle drives clockwise
    heat: Heat

    @model_validator(mode="after")
    def _reaches_its_speed(self) -> Self:
        top = self.speed_limit * RAD_PER_RPM
        available = min(self.torque_limit, self.power_limit / top)
        needed = self.coulomb + self.viscous * top
        if needed >= available:
            raise ValueError(
                f"friction at {self.speed_limit:g} rpm needs {needed:.3g} N m but the drive gives {available:.3g} N m"
            )
        return self


class Axis(Parameters):
    """One linear axis: a motor, a ball screw and a slide."""

    mass: Positive  # kg moved
    pitch: Positive  # mm of travel per motor turn
    motor_inertia: Positive  # motor, coupling and screw
    gravity: NotNegative = 0.0  # N that hold the slide up; zero on level axes
    coulomb: NotNegative  # N
    viscous: NotNegative  # N per mm/s
    torque_limit: Positive
    torque_constant: Positive
    resistance: Positive
    feed_limit: Positive  # mm/min
    acceleration: Positive  # mm/s^2
    response: Positive  # s, time constant of the velocity loop
    sense: Sense = 1
    heat: Heat

    @model_validator(mode="after")
    def _can_accelerate(self) -> Self:
        needed = self.torque(self.gravity + self.coulomb + self.viscous * self.feed_limit / 60, self.acceleration)
        if needed > self.torque_limit:
            raise ValueError(
                f"accelerating at {self.acceleration:g} mm/s^2 and rapid needs {needed:.3g} N m "
                f"but torque_limit is {self.torque_limit:.3g} N m"
            )
        return self

    @property
    def lever(self) -> float:
        """Motor torque per slide force, in m: the screw pitch over one turn."""
        return self.pitch / 1000 / (2 * math.pi)

    @property
    def reflected_mass(self) -> float:
        """Slide mass plus the rotating inertia as the slide feels it, in kg."""
        return self.mass + self.motor_inertia / self.lever**2

    def torque(self, force: float, acceleration: float) -> float:
        """Motor torque for a slide force in N and an acceleration in mm/s^2."""
        return self.lever * (force + self.reflected_mass * acceleration / 1000)


class Link(Parameters):
    """The intermediate circuit that feeds all drives."""

    voltage: Positive  # V without load
    sag: NotNegative  # V per kW drawn
    response: Positive  # s
    regeneration_limit: Positive  # V at which the line module feeds back
    mains_drift: NotNegative  # V, standard deviation
    mains_memory: Positive  # s
    standing_load: NotNegative  # W of pumps, fans and the control

    @model_validator(mode="after")
    def _limit_above_voltage(self) -> Self:
        if self.regeneration_limit <= self.voltage:
            raise ValueError(f"regeneration_limit {self.regeneration_limit:g} V lies below voltage {self.voltage:g} V")
        return self


class Hall(Parameters):
    """The air around the machine and the cabinet thermometer."""

    temperature: Finite  # degC
    drift: NotNegative  # K, standard deviation
    memory: Positive  # s
    cabinet_rise: NotNegative  # K of the cabinet above the hall at standstill
    cabinet_per_kilowatt: NotNegative  # K per kW drawn
    cabinet_response: Positive  # s


class Cutting(Parameters):
    """How unsteady cutting is on this machine: stock hardness, run-out, chatter."""

    slow_variation: Annotated[float, Field(ge=0, lt=0.5)] = 0.06  # relative, wandering
    slow_memory: Positive = 4.0  # s
    ripple: Annotated[float, Field(ge=0, lt=0.5)] = 0.05  # relative, from step to step
    chip_load_limit: Positive = 0.8  # mm; beyond it the tooth rubs or breaks, the force stays


class Logging(Parameters):
    """What the control writes down: which channels, how smooth, how noisy, how often."""

    period: Positive  # s between log rows
    smoothing: NotNegative  # s, first-order filter of the drive before it reports current, torque, power, voltage
    noise: dict[str, NotNegative]  # standard deviation per canonical sensor, in its canonical unit
    sensors: tuple[str, ...]
    temperature_step: Positive = 0.1  # K, resolution of the motor thermometers
    cabinet_step: Positive = 1.0  # K

    @model_validator(mode="after")
    def _known_sensors(self) -> Self:
        known = canonical().sensor_names
        unknown = sorted((set(self.sensors) | set(self.noise)) - set(known))
        if unknown or not self.sensors:
            found = f"unknown: {', '.join(unknown)}" if unknown else "none given"
            raise ValueError(f"sensors must be some of {', '.join(known)}; {found}")
        return self


class MachineParameters(Parameters):
    """One whole machine."""

    name: Annotated[str, Field(min_length=1)]
    spindle: Spindle
    x: Axis
    y: Axis
    z: Axis
    link: Link
    hall: Hall
    cutting: Cutting = Cutting()
    logging: Logging

    @property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        return (self.x, self.y, self.z)

    @property
    def heats(self) -> tuple[Heat, Heat, Heat, Heat]:
        """Thermal models in the order of the temperature channels: spindle, x, y, z."""
        return (self.spindle.heat, self.x.heat, self.y.heat, self.z.heat)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all values; a saved state fits only the machine it came from."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


# Noise that is a function of (seed, step): the same step always meets the same noise, however a run is cut up.


Floats = NDArray[np.float64]

SENSORS = len(canonical().sensor_names)
# After the measurement noise of each sensor: what wanders in the process and around the machine.
CUT_SLOW, CUT_RIPPLE, HALL, MAINS = range(SENSORS, SENSORS + 4)
STREAMS = SENSORS + 4
_BLOCK = 1024  # steps drawn together; a normal draw takes a varying number of random words, a block a fixed place


def normals(seed: int, start: int, count: int) -> Floats:
    """Standard normal numbers of shape (STREAMS, count) for the steps start .. start + count - 1."""
    first, last = start // _BLOCK, (start + count - 1) // _BLOCK
    blocks = [_block(seed, number) for number in range(first, last + 1)]
    joined = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    offset = start - first * _BLOCK
    return joined[:, offset : offset + count]


def _block(seed: int, number: int) -> Floats:
    generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, number, 0]))
    return generator.standard_normal((STREAMS, _BLOCK))
