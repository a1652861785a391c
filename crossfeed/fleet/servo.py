"""What real drives do beside the textbook: slides that stick where they stop, loops that hunt, motors that ripple.

A standing axis holds part of the friction it stopped against until it creeps free; a position loop never rests; a
running spindle draws an unsteady current. All of it is torque, so that current, load and power follow.
"""

from dataclasses import dataclass

import numpy as np

from crossfeed.fleet.dice import Dice, chance, log_uniform, uniform
from crossfeed.machines.simulated.filters import wander
from crossfeed.machines.simulated.noise import Floats
from crossfeed.machines.simulated.parameters import Axis, Spindle

_STANDING = 0.05  # mm/s


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
