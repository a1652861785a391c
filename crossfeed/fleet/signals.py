"""What there is to be measured on a machine: every sensor of the fleet's schema from the physics, at the inner rate."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crossfeed.fleet.draw import FleetMachine
from crossfeed.fleet.motors import LINE_VOLTAGE
from crossfeed.fleet.schema import AXES
from crossfeed.machines.simulated.axes import motor_speed
from crossfeed.machines.simulated.dynamics import Physics
from crossfeed.machines.simulated.noise import Floats
from crossfeed.machines.simulated.parameters import RAD_PER_RPM
from crossfeed.machines.simulated.rollout import Trace

_FIRST = math.sqrt(0.5)  # rms of an amplitude of one
LoadOf = Literal["torque", "current", "power"]


def rated(machine: FleetMachine, name: str) -> float:
    """A usual full scale of a sensor, in its unit: what noise, offsets and steps are measured by."""
    place, _, detail = name.partition("_")
    if detail.endswith("temp") or detail in ("load", "mod_depth"):
        return 100.0
    parameters = machine.parameters
    if place == "spindle":
        torque, constant = machine.spindle_torque, parameters.spindle.torque_constant
        power, speed = machine.spindle_power, parameters.spindle.speed_limit
    else:
        axis = parameters.axes[AXES.index(place)]
        torque, constant = machine.axis_torques[AXES.index(place)], axis.torque_constant
        power, speed = torque * axis.feed_limit / 60 / (axis.lever * 1000), axis.feed_limit
    return {
        "current": torque / constant,
        "output_current": torque / constant * _FIRST,
        "torque": torque,
        "power": power / 1000,
        "dc_voltage": parameters.link.voltage,
        "output_voltage": parameters.link.voltage * _FIRST,
        "actual_speed": speed,
        "velocity": speed,
    }[detail]


@dataclass(frozen=True)
class Signals:
    """A run of a machine; `signals(name)` is one sensor without any habit of the controller."""

    machine: FleetMachine
    trace: Trace
    awake: NDArray[np.bool_]  # (N,) drives on
    load_of: LoadOf = "torque"  # what a load in per cent compares with its rated value
    shaft_power: bool = False  # power is torque times speed, without the losses of the drive

    @property
    def physics(self) -> Physics:
        assert self.trace.physics is not None
        return self.trace.physics

    def __call__(self, name: str) -> Floats:
        place, _, detail = name.partition("_")
        if place in AXES:
            return self._axis(AXES.index(place), detail)
        return self.trace[name] if name == "ambient_temp" else self._spindle(detail)

    def _spindle(self, detail: str) -> Floats:
        spindle, physics = self.machine.parameters.spindle, self.physics
        torque, constant = self.machine.spindle_torque, spindle.torque_constant
        current = self.trace["spindle_current"]
        if detail == "output_current":
            turning = (physics.spindle_torque != 0) | (physics.spindle_speed != 0)
            return np.asarray(_FIRST * np.sqrt(current**2 + turning * spindle.magnetising_current**2))
        if detail == "output_voltage":
            return np.asarray(self.trace["spindle_mod_depth"] * self.trace["spindle_dc_voltage"] / 100)
        if detail == "actual_speed":
            return physics.spindle_speed / RAD_PER_RPM
        if detail == "power" and self.shaft_power:
            return physics.spindle_torque * physics.spindle_speed / 1000
        if detail == "load":
            if self.load_of == "power":
                return np.abs(physics.spindle_power) / self.machine.spindle_power * 100
            if self.load_of == "current":
                return np.abs(current) * constant / torque * 100
            fast = np.maximum(np.abs(physics.spindle_speed), 1e-9)
            return np.abs(physics.spindle_torque) / np.minimum(torque, self.machine.spindle_power / fast) * 100
        return self.trace[f"spindle_{detail}"]

    def _axis(self, index: int, detail: str) -> Floats:
        axis, physics, name = self.machine.parameters.axes[index], self.physics, AXES[index]
        torque, constant = self.machine.axis_torques[index], axis.torque_constant
        velocity: Floats = physics.axis_velocity[index]
        if detail == "velocity":
            return velocity * 60
        if detail == "motor_temp":
            return self.trace[f"{name}_motor_temp"]
        drawn: Floats = self.awake * physics.axis_torque[index]
        if detail == "torque":
            return axis.sense * drawn
        if detail == "current":
            return axis.sense * drawn / constant
        if detail == "output_current":
            return _FIRST * np.abs(drawn) / constant
        if detail == "load":
            return np.abs(drawn) / torque * 100
        turns = motor_speed(axis, velocity)
        if detail == "output_voltage":
            return LINE_VOLTAGE * np.abs(constant * turns + 1.5 * axis.resistance * drawn / constant)
        if self.shaft_power:
            return drawn * turns / 1000
        power: Floats = self.awake * physics.axis_power[index] / 1000
        return power
