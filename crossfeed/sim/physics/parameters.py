"""What makes one machine differ from another: frozen parameter sets, checked when they are built.

Units: N m, N, A, ohm, W, V, kg, kg m^2, s; axis lengths in mm; speeds as the shop writes them (rpm, mm/min)."""

import hashlib
import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, ValidationError, model_validator

from crossfeed.configuration import CheckedForm, problems
from crossfeed.errors import MachineError
from crossfeed.schema import canonical

Floats = NDArray[np.float64]
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

    winding_capacity: PositiveFloat  # J/K
    housing_capacity: PositiveFloat  # J/K
    winding_to_housing: PositiveFloat  # K/W
    housing_to_surroundings: PositiveFloat  # K/W
    surroundings: float = 0.0  # K above the hall: an oil cooler, a neighbouring drive
    friction_share: Annotated[float, Field(ge=0, le=1)] = 0.3  # part of the friction heat that reaches the motor


class Spindle(Parameters):
    """The main spindle with its speed controller."""

    inertia: PositiveFloat
    torque_limit: PositiveFloat
    braking_torque_limit: PositiveFloat
    power_limit: PositiveFloat  # mechanical, above it the torque falls as 1 / speed
    braking_power_limit: PositiveFloat
    speed_limit: PositiveFloat  # rpm
    torque_constant: PositiveFloat  # N m / A below the weakening speed
    weakening_speed: PositiveFloat  # rpm; above it the torque constant falls as 1 / speed
    magnetising_current: NonNegativeFloat
    resistance: PositiveFloat  # of one phase; copper loss = 1.5 R (i_q^2 + i_d^2)
    hysteresis: NonNegativeFloat  # W s: iron loss per rad/s
    eddy: NonNegativeFloat  # W s^2: iron loss per (rad/s)^2
    coulomb: NonNegativeFloat  # N m
    viscous: NonNegativeFloat  # N m s
    response: PositiveFloat  # s, time constant of the speed controller
    weakened_voltage: PositiveFloat  # V of EMF, reached at the weakening speed and held above it
    leakage: NonNegativeFloat  # ohm s: voltage across per ampere and rad/s
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

    mass: PositiveFloat  # kg moved
    pitch: PositiveFloat  # mm of travel per motor turn
    motor_inertia: PositiveFloat  # motor, coupling and screw
    gravity: NonNegativeFloat = 0.0  # N that hold the slide up; zero on level axes
    coulomb: NonNegativeFloat  # N
    viscous: NonNegativeFloat  # N per mm/s
    torque_limit: PositiveFloat
    torque_constant: PositiveFloat
    resistance: PositiveFloat
    feed_limit: PositiveFloat  # mm/min
    acceleration: PositiveFloat  # mm/s^2
    response: PositiveFloat  # s, time constant of the velocity loop
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

    voltage: PositiveFloat  # V without load
    sag: NonNegativeFloat  # V per kW drawn
    response: PositiveFloat  # s
    regeneration_limit: PositiveFloat  # V at which the line module feeds back
    mains_drift: NonNegativeFloat  # V, standard deviation
    mains_memory: PositiveFloat  # s
    standing_load: NonNegativeFloat  # W of pumps, fans and the control

    @model_validator(mode="after")
    def _limit_above_voltage(self) -> Self:
        if self.regeneration_limit <= self.voltage:
            raise ValueError(f"regeneration_limit {self.regeneration_limit:g} V lies below voltage {self.voltage:g} V")
        return self


class Hall(Parameters):
    """The air around the machine and the cabinet thermometer."""

    temperature: float  # degC
    drift: NonNegativeFloat  # K, standard deviation
    memory: PositiveFloat  # s
    cabinet_rise: NonNegativeFloat  # K of the cabinet above the hall at standstill
    cabinet_per_kilowatt: NonNegativeFloat  # K per kW drawn
    cabinet_response: PositiveFloat  # s


class Cutting(Parameters):
    """How unsteady cutting is on this machine: stock hardness, run-out, chatter."""

    slow_variation: Annotated[float, Field(ge=0, lt=0.5)] = 0.06  # relative, wandering
    slow_memory: PositiveFloat = 4.0  # s
    ripple: Annotated[float, Field(ge=0, lt=0.5)] = 0.05  # relative, from step to step
    chip_load_limit: PositiveFloat = 0.8  # mm; beyond it the tooth rubs or breaks, the force stays


class Logging(Parameters):
    """What the control writes down: which channels, how smooth, how noisy, how often."""

    period: PositiveFloat  # s between log rows
    smoothing: NonNegativeFloat  # s, first-order filter of the drive before it reports current, torque, power, voltage
    noise: dict[str, NonNegativeFloat]  # standard deviation per canonical sensor, in its canonical unit
    sensors: tuple[str, ...]
    temperature_step: PositiveFloat = 0.1  # K, resolution of the motor thermometers
    cabinet_step: PositiveFloat = 1.0  # K

    @model_validator(mode="after")
    def _known_sensors(self) -> Self:
        names = canonical().sensor_names
        unknown = sorted((set(self.sensors) | set(self.noise)) - set(names))
        if unknown or not self.sensors:
            problem = f"unknown: {', '.join(unknown)}" if unknown else "none given"
            raise ValueError(f"sensors must be some of {', '.join(names)}; {problem}")
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
