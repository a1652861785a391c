"""Spindles and axes of any size, drawn from what is on a rating plate: power, speed, voltage, losses, heating."""

import math

from crossfeed.fleet.dice import Dice, Range, chance, log_uniform, pick, uniform
from crossfeed.machines.simulated.parameters import RAD_PER_RPM, Axis, Heat, Spindle

# Between a torque constant (N m per A of amplitude) and the line voltage (rms) that the motor makes per rad/s.
LINE_VOLTAGE = math.sqrt(1.5) / 1.5
_GRAVITY = 9.81


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
