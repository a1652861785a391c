"""Linear axes, and first-order filters with carried state: a run in pieces gives the same bits as one in one piece."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from crossfeed.sim.physics.parameters import Axis, Floats

CREEP = 1.0  # mm/s below which Coulomb friction fades to nothing


def decay(time_step: float, time_constant: float) -> float:
    """What is left of a first-order response after one step; a time constant of zero leaves nothing."""
    return math.exp(-time_step / time_constant) if time_constant > 0 else 0.0


def lag(signal: Floats, kept: float, carry: float) -> tuple[Floats, float]:
    """A first-order low-pass: y = kept * y_before + (1 - kept) * x; returns y and the carry for the next piece."""
    return accumulate(signal, kept, 1.0 - kept, carry)


def lag_rows(signals: Floats, kept: float, carry: Floats) -> tuple[Floats, Floats]:
    """The same low-pass on every row of a (rows, steps) array."""
    filtered, after = lfilter([1.0 - kept], [1.0, -kept], signals, axis=1, zi=carry[:, None])
    return filtered, after[:, 0]


def accumulate(signal: Floats, kept: float, gain: float, carry: float) -> tuple[Floats, float]:
    """y = kept * y_before + gain * x."""
    filtered, after = lfilter([gain], [1.0, -kept], signal, zi=[carry])
    return filtered, float(after[0])


def wander(noise: Floats, time_step: float, memory: float, carry: float) -> tuple[Floats, float]:
    """Unit-variance noise that forgets with the time constant `memory`."""
    kept = decay(time_step, memory)
    return accumulate(noise, kept, float(np.sqrt(1.0 - kept * kept)), carry)


@dataclass(frozen=True, slots=True)
class AxisMotion:
    """Velocity in mm/s at the end of each step and the mean acceleration over it in mm/s^2."""

    velocity: Floats
    acceleration: Floats


def follow(axis: Axis, time_step: float, command: Floats, memory: Floats) -> tuple[AxisMotion, Floats]:
    """Let the slide follow a set-point in mm/s.

    The memory (3,) is the limited set-point and the velocity of the last step, and the filter of the velocity loop.
    """
    last_limited, last_velocity, carry = memory.tolist()
    top = axis.feed_limit / 60
    limited = limit_rate(np.clip(command, -top, top), last_limited, axis.acceleration * time_step)
    velocity, carry = lag(limited, decay(time_step, axis.response), carry)
    acceleration = np.diff(velocity, prepend=last_velocity) / time_step
    return AxisMotion(velocity, acceleration), np.array([limited[-1], velocity[-1], carry])


def limit_rate(wanted: Floats, previous: float, most: float) -> Floats:
    """Follow `wanted` with at most `most` per step; only the stretches that fall behind are walked step by step."""
    limited = wanted.copy()
    jumps = np.flatnonzero(np.abs(np.diff(wanted, prepend=previous)) > most)
    caught_up = -1
    for jump in jumps.tolist():
        if jump <= caught_up:
            continue
        value = float(wanted[jump - 1]) if jump else previous
        caught_up = jump
        while caught_up < len(wanted):
            target = float(wanted[caught_up])
            if abs(target - value) <= most:
                break
            value += most if target > value else -most
            limited[caught_up] = value
            caught_up += 1
    return limited


def motor_torque(axis: Axis, motion: AxisMotion, cutting_force: Floats) -> Floats:
    """N m at the motor against inertia, friction, weight and the cut (a force in N that opposes positive travel)."""
    friction = friction_force(axis, motion.velocity)
    force = friction + axis.gravity + cutting_force + axis.reflected_mass / 1000 * motion.acceleration
    return np.asarray(axis.lever * force)


def friction_force(axis: Axis, velocity: Floats) -> Floats:
    """Coulomb and viscous friction of slide and screw in N."""
    return np.asarray(axis.coulomb * np.clip(velocity / CREEP, -1.0, 1.0) + axis.viscous * velocity)


def motor_speed(axis: Axis, velocity: Floats) -> Floats:
    """rad/s of the motor at a slide velocity in mm/s."""
    return np.asarray(velocity / (axis.lever * 1000))
