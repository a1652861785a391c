"""The spindle: a mass, a PI speed controller with torque and power limits, friction and the torque of the cut."""

import math
from dataclasses import dataclass

import numpy as np

from crossfeed.sim.physics.cutting import Cut
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Floats, Spindle

SLIP = 5.0  # rad/s below which Coulomb friction and the cut fade to nothing
_STILL = 1e-3  # rad/s and N m below which a stopped spindle counts as standing


@dataclass(frozen=True, slots=True)
class SpindleMotion:
    """What the spindle did in each step; torques hold over the step, `speed` is the mean over it."""

    speed: Floats  # rad/s, mean of the step's two ends, so that torque x speed is the exact work
    motor_torque: Floats
    friction_torque: Floats
    cutting_torque: Floats
    tooth_torque: Floats  # the cut's full torque, also when the spindle hardly turns: it sets the feed force


def turn(
    spindle: Spindle,
    time_step: float,
    command: Floats,
    cut: Cut,
    chip_load_limit: float,
    speed: float,
    integral: float,
) -> tuple[SpindleMotion, float, float]:
    """Move the spindle through the commands (rad/s) against the cut; gives the motion and the state after it.

    The recursion is nonlinear (limits, chip load), so it is a plain scalar loop; standstill is skipped as a whole.
    """
    count = len(command)
    after = np.zeros(count)
    torque = np.zeros(count)
    tooth = np.zeros(count)
    start_speed = speed
    busy = np.flatnonzero((command != 0) | (cut.gain > 0))
    done = 0
    while done < count:
        if speed == 0.0 and integral == 0.0:
            following = np.searchsorted(busy, done)
            if following == len(busy):
                break
            done = int(busy[following])
        stop = min(done + 4096, count)
        part = slice(done, stop)
        columns = [values[part].tolist() for values in (command, cut.gain, cut.exponent, cut.feed_per_turn)]
        lists, speed, integral = _scalar_steps(spindle, time_step, columns, chip_load_limit, speed, integral)
        ran = len(lists[0])
        after[done : done + ran], torque[done : done + ran], tooth[done : done + ran] = lists
        done += ran
    before = np.concatenate(([start_speed], after[:-1]))
    grip = np.clip(before / SLIP, -1.0, 1.0)
    motion = SpindleMotion(
        speed=0.5 * (before + after),
        motor_torque=torque,
        friction_torque=spindle.coulomb * grip + spindle.viscous * before,
        cutting_torque=tooth * grip,
        tooth_torque=tooth,
    )
    return motion, speed, integral


def _scalar_steps(
    spindle: Spindle,
    time_step: float,
    columns: list[list[float]],
    chip_load_limit: float,
    speed: float,
    integral: float,
) -> tuple[tuple[list[float], list[float], list[float]], float, float]:
    """The recursion itself, one step after the other, until the columns end or the spindle stands.

    The columns are the command and what makes up a `Cut`.
    """
    proportional = spindle.inertia / spindle.response
    integration = proportional / (4 * spindle.response) * time_step  # critically damped
    drive, brake = spindle.torque_limit, spindle.braking_torque_limit
    drive_power, brake_power = spindle.power_limit, spindle.braking_power_limit
    coulomb, viscous, per_torque = spindle.coulomb, spindle.viscous, time_step / spindle.inertia
    speeds: list[float] = []
    torques: list[float] = []
    teeth: list[float] = []
    for wanted, strength, exponent, chip in zip(*columns):
        size = abs(speed)
        grip = speed / SLIP
        if grip > 1.0:
            grip = 1.0
        elif grip < -1.0:
            grip = -1.0
        load = coulomb * grip + viscous * speed
        if strength > 0.0:
            thickness = chip / size if chip < chip_load_limit * size else chip_load_limit
            tooth = strength * thickness**exponent
            load += tooth * grip
        else:
            tooth = 0.0
        error = wanted - speed
        torque = proportional * error + integral
        if torque * speed >= 0.0:
            top = drive if drive * size <= drive_power else drive_power / size
        else:
            top = brake if brake * size <= brake_power else brake_power / size
        if torque > top:
            torque = top
        elif torque < -top:
            torque = -top
        else:
            integral += integration * error
        speed += (torque - load) * per_torque
        if wanted == 0.0 and abs(speed) < _STILL and abs(torque) < _STILL:
            speed = integral = 0.0
        speeds.append(speed)
        torques.append(torque)
        teeth.append(tooth)
        if speed == 0.0 and integral == 0.0:
            break
    return (speeds, torques, teeth), speed, integral


def torque_constant(spindle: Spindle, speed: Floats) -> Floats:
    """N m per A: constant up to the weakening speed, then falling as 1 / speed."""
    weakening = spindle.weakening_speed * RAD_PER_RPM
    return np.asarray(spindle.torque_constant * weakening / np.maximum(np.abs(speed), weakening))


def terminal_voltage(spindle: Spindle, speed: Floats, current: Floats) -> Floats:
    """Motor voltage: EMF (held constant by field weakening) and resistance in phase, leakage across."""
    weakening = spindle.weakening_speed * RAD_PER_RPM
    size = np.abs(speed)
    voltage = spindle.weakened_voltage * np.minimum(size, weakening) / weakening
    in_phase = voltage + math.sqrt(3) * spindle.resistance * np.abs(current)
    across = spindle.leakage * size * current
    return np.asarray(np.sqrt(in_phase * in_phase + across * across))
