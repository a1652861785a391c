"""What there is to be measured on a machine: every sensor of the fleet's schema from the physics, at the inner rate."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crossfeed.sim.factory.draw import FleetMachine
from crossfeed.sim.factory.motors import AXES, LINE_VOLTAGE, Dice, held_torque, hunting, ripple_torque
from crossfeed.sim.physics.drives import motor_speed
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Floats
from crossfeed.sim.physics.rollout import Trace
from crossfeed.sim.physics.spindle import torque_constant

_FIRST = math.sqrt(0.5)  # rms of an amplitude of one
LoadOf = Literal["torque", "current", "power"]


def rated(machine: FleetMachine, name: str) -> float:
    """A usual full scale of a sensor, in its unit: what noise, offsets and steps are measured by."""
    drive, _, detail = name.partition("_")
    if detail.endswith("temp") or detail in ("load", "mod_depth"):
        return 100.0
    parameters = machine.parameters
    if drive == "spindle":
        torque, constant = machine.spindle_torque, parameters.spindle.torque_constant
        power, speed = machine.spindle_power, parameters.spindle.speed_limit
    else:
        axis = parameters.axes[AXES.index(drive)]
        torque, constant = machine.axis_torques[AXES.index(drive)], axis.torque_constant
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
    load_of: LoadOf  # what a load in per cent compares with its rated value
    shaft_power: bool  # power is torque times speed, without the losses of the drive
    spindle_torque: Floats  # (N,) N m
    axis_torque: Floats  # (3, N) N m, none while the drives are off
    axis_velocity: Floats  # (3, N) mm/s

    @classmethod
    def of(
        cls,
        machine: FleetMachine,
        trace: Trace,
        awake: NDArray[np.bool_],
        draw: Dice,
        load_of: LoadOf = "torque",
        shaft_power: bool = False,
    ) -> "Signals":
        """The physics of a trace with what its drives add; `awake` (N,) says when they are on."""
        physics, servo, step = trace.physics, machine.servo, trace.time_step
        torques, velocities = [], []
        for axis, velocity, torque in zip(machine.parameters.axes, physics.axis_velocity, physics.axis_torque):
            unrest = awake * hunting(servo, len(trace), step, draw)
            held = held_torque(servo, axis, velocity, step, draw)
            torques.append(awake * (torque + held + servo.hunting * axis.lever * axis.coulomb * unrest))
            unsteady = servo.jitter * axis.feed_limit / 60 + servo.waver * np.abs(velocity)
            velocities.append(velocity + unsteady * unrest)
        ripple = ripple_torque(servo, machine.parameters.spindle, physics.spindle_speed, step, draw)
        return cls(
            machine,
            trace,
            load_of,
            shaft_power,
            physics.spindle_torque + ripple,
            np.array(torques),
            np.array(velocities),
        )

    def __call__(self, name: str) -> Floats:
        drive, _, detail = name.partition("_")
        if drive in AXES:
            return self._axis(AXES.index(drive), detail)
        return self.trace[name] if name == "ambient_temp" else self._spindle(detail)

    def _spindle(self, detail: str) -> Floats:
        spindle, physics, drawn = self.machine.parameters.spindle, self.trace.physics, self.spindle_torque
        speed = physics.spindle_speed
        rated_torque, rated_power = self.machine.spindle_torque, self.machine.spindle_power
        if detail == "actual_speed":
            return speed / RAD_PER_RPM
        if detail == "output_voltage":
            return self.trace["spindle_mod_depth"] * self.trace["spindle_dc_voltage"] / 100
        if detail == "torque":
            return spindle.sense * drawn
        power = drawn * speed
        if not self.shaft_power:
            power = power + physics.copper_loss + physics.iron_loss
        if detail == "power":
            return power / 1000
        current: Floats = drawn / torque_constant(spindle, speed)
        if detail == "current":
            return spindle.sense * current
        if detail == "output_current":
            turning = (drawn != 0) | (speed != 0)
            return np.asarray(_FIRST * np.sqrt(current**2 + turning * spindle.magnetising_current**2))
        if detail == "load" and self.load_of == "power":
            return np.abs(power) / rated_power * 100
        if detail == "load" and self.load_of == "current":
            return np.abs(current) * spindle.torque_constant / rated_torque * 100
        if detail == "load":
            fast = np.maximum(np.abs(speed), 1e-9)
            return np.abs(drawn) / np.minimum(rated_torque, rated_power / fast) * 100
        return self.trace[f"spindle_{detail}"]

    def _axis(self, index: int, detail: str) -> Floats:
        axis, constant = self.machine.parameters.axes[index], self.machine.parameters.axes[index].torque_constant
        drawn: Floats = self.axis_torque[index]
        velocity: Floats = self.axis_velocity[index]
        if detail == "velocity":
            return velocity * 60
        if detail == "motor_temp":
            return self.trace[f"{AXES[index]}_motor_temp"]
        if detail == "torque":
            return axis.sense * drawn
        if detail == "current":
            return axis.sense * drawn / constant
        if detail == "output_current":
            return _FIRST * np.abs(drawn) / constant
        if detail == "load":
            return np.abs(drawn) / self.machine.axis_torques[index] * 100
        turns = motor_speed(axis, velocity)
        if detail == "output_voltage":
            return LINE_VOLTAGE * np.abs(constant * turns + 1.5 * axis.resistance * drawn / constant)
        shaft = drawn * turns / 1000
        return shaft if self.shaft_power else shaft + 1.5 * axis.resistance * (drawn / constant) ** 2 / 1000
