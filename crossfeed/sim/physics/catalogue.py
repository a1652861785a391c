"""Machines by name: the two Spinners, and random ones for fleets."""

from typing import Any

import numpy as np

from crossfeed.errors import MachineError
from crossfeed.schema import canonical
from crossfeed.sim.physics.parameters import Axis, Cutting, Hall, Heat, Link, Logging, MachineParameters, Spindle

# The two machines of the study as parameter sets: Spinner five-axis mills, one of each log.


_SHARED = canonical().sensor_names[:10]  # currents, torques and powers, which every drive reports


def spinner_620() -> MachineParameters:
    """A Spinner U5-620 as in the THWS log: 1 Hz samples of smoothed drive values, all 17 channels."""
    return MachineParameters(
        name="spinner_620",
        spindle=Spindle(
            inertia=0.026,
            torque_limit=50.0,
            braking_torque_limit=50.0,
            power_limit=27500.0,
            braking_power_limit=30000.0,
            speed_limit=20000.0,
            torque_constant=0.93,
            weakening_speed=12000.0,
            magnetising_current=8.0,
            resistance=0.12,
            hysteresis=0.12,
            eddy=6e-5,
            coulomb=0.25,
            viscous=4.0e-4,
            response=0.06,
            weakened_voltage=520.0,
            leakage=0.019,
            heat=Heat(
                winding_capacity=2600,
                housing_capacity=52000,
                winding_to_housing=0.005,
                housing_to_surroundings=0.0102,
                surroundings=11.8,
                friction_share=0.35,
            ),
        ),
        x=_axis_620(
            mass=520.0,
            motor_inertia=0.0112,
            coulomb=650.0,
            viscous=1.1,
            torque_limit=60.0,
            torque_constant=2.45,
            resistance=0.45,
            heat=_axis_heat(surroundings=0.3, housing_to_surroundings=0.15),
        ),
        y=_axis_620(
            mass=300.0,
            motor_inertia=0.0061,
            coulomb=420.0,
            viscous=0.9,
            torque_limit=40.0,
            torque_constant=1.55,
            resistance=1.1,
            heat=_axis_heat(surroundings=4.4, housing_to_surroundings=0.75),
        ),
        z=_axis_620(
            mass=380.0,
            motor_inertia=0.0066,
            gravity=3700.0,
            coulomb=380.0,
            viscous=0.9,
            torque_limit=48.0,
            torque_constant=1.45,
            resistance=0.5,
            sense=-1,
            heat=_axis_heat(surroundings=9.6, housing_to_surroundings=0.29),
        ),
        link=Link(
            voltage=601.0,
            sag=1.15,
            response=0.08,
            regeneration_limit=616.5,
            mains_drift=1.8,
            mains_memory=240.0,
            standing_load=1400.0,
        ),
        hall=Hall(
            temperature=22.8,
            drift=0.2,
            memory=7200.0,
            cabinet_rise=21.3,
            cabinet_per_kilowatt=0.9,
            cabinet_response=1200.0,
        ),
        logging=Logging(period=1.0, smoothing=0.1, noise=measurement_noise(1.0), sensors=canonical().sensor_names),
    )


def spinner_630() -> MachineParameters:
    """A Spinner U5-630 as in the JOANNEUM log: 2 ms cycles, only currents, torques and powers, a lighter headstock."""
    return MachineParameters(
        name="spinner_630",
        spindle=Spindle(
            inertia=0.021,
            torque_limit=44.0,
            braking_torque_limit=44.0,
            power_limit=22000.0,
            braking_power_limit=22000.0,
            speed_limit=18000.0,
            torque_constant=0.78,
            weakening_speed=10000.0,
            magnetising_current=7.0,
            resistance=0.15,
            hysteresis=0.10,
            eddy=5e-5,
            coulomb=0.35,
            viscous=5.0e-4,
            response=0.05,
            weakened_voltage=510.0,
            leakage=0.0105,
            heat=Heat(
                winding_capacity=2200,
                housing_capacity=45000,
                winding_to_housing=0.007,
                housing_to_surroundings=0.02,
                surroundings=8.0,
            ),
        ),
        x=_axis_630(mass=460.0, motor_inertia=0.0080, coulomb=820.0, torque_limit=60.0, torque_constant=2.05),
        y=_axis_630(mass=340.0, motor_inertia=0.0055, coulomb=560.0, torque_limit=45.0, torque_constant=1.40),
        z=_axis_630(
            mass=230.0,
            motor_inertia=0.0044,
            coulomb=450.0,
            torque_limit=40.0,
            torque_constant=1.30,
            gravity=1150.0,
            sense=-1,
        ),
        link=Link(
            voltage=598.0,
            sag=1.3,
            response=0.08,
            regeneration_limit=620.0,
            mains_drift=2.0,
            mains_memory=240.0,
            standing_load=1200.0,
        ),
        hall=Hall(
            temperature=21.5,
            drift=0.4,
            memory=7200.0,
            cabinet_rise=15.0,
            cabinet_per_kilowatt=0.6,
            cabinet_response=1200.0,
        ),
        cutting=Cutting(slow_variation=0.08, slow_memory=3.0, ripple=0.12),
        logging=Logging(period=0.002, smoothing=0.004, noise=measurement_noise(2.5), sensors=_SHARED),
    )


def _axis_620(**own: Any) -> Axis:
    return Axis(pitch=16.0, feed_limit=47999.0, acceleration=8000.0, response=0.015, **own)


def _axis_630(**own: Any) -> Axis:
    return Axis(
        pitch=16.0,
        viscous=1.2,
        resistance=0.55,
        response=0.012,
        feed_limit=48000.0,
        acceleration=6500.0,
        heat=_axis_heat(surroundings=3.0, housing_to_surroundings=0.3),
        **own,
    )


def _axis_heat(surroundings: float, housing_to_surroundings: float) -> Heat:
    return Heat(
        winding_capacity=900,
        housing_capacity=5500,
        winding_to_housing=0.10,
        housing_to_surroundings=housing_to_surroundings,
        surroundings=surroundings,
    )


def measurement_noise(scale: float) -> dict[str, float]:
    """Measurement noise per sensor in canonical units."""
    base = {
        "spindle_current": 0.10,
        "spindle_torque": 0.08,
        "spindle_power": 0.012,
        "x_current": 0.03,
        "x_torque": 0.07,
        "y_current": 0.03,
        "y_torque": 0.05,
        "z_current": 0.04,
        "z_torque": 0.06,
        "z_power": 0.004,
        "spindle_motor_temp": 0.03,
        "x_motor_temp": 0.03,
        "y_motor_temp": 0.03,
        "z_motor_temp": 0.03,
        "spindle_dc_voltage": 0.25,
        "spindle_mod_depth": 0.25,
    }
    return {name: value * scale for name, value in base.items()}


def random_machine(seed: int) -> MachineParameters:
    """A machine for a fleet: a Spinner redrawn with other constants, weights, frictions, limits, noise and sensors."""
    draw = np.random.default_rng([seed, 20260820])
    base = spinner_620() if draw.random() < 0.5 else spinner_630()

    def vary(value: float, spread: float) -> float:
        """A value within a factor of (1 + spread) either way, most often near its centre."""
        return float(value * (1 + spread) ** np.clip(draw.normal() / 1.5, -1, 1))

    def axis(old: Axis, index: int) -> Axis:
        values = old.model_dump() | {
            name: vary(getattr(old, name), 0.35)
            for name in ("mass", "motor_inertia", "coulomb", "viscous", "torque_constant", "response")
        }
        values |= {"acceleration": vary(old.acceleration, 0.2), "torque_limit": old.torque_limit * 2}
        if index == 2:
            values |= {"gravity": float(draw.uniform(0, 3200)), "sense": int(draw.choice((1, -1)))}
        return Axis(**values)

    motor = base.spindle
    wide = ("inertia", "coulomb", "viscous", "torque_constant", "response", "magnetising_current")
    spindle = motor.model_dump() | {name: vary(getattr(motor, name), 0.35) for name in wide}
    size = vary(1.0, 0.3)
    limits = ("torque_limit", "braking_torque_limit", "power_limit", "braking_power_limit")
    spindle |= {name: getattr(motor, name) * size for name in limits}
    period = float(draw.choice((0.1, 0.2, 0.5, 1.0)))
    return MachineParameters(
        name=f"fleet_{seed:03d}",
        spindle=Spindle(**spindle),
        x=axis(base.x, 0),
        y=axis(base.y, 1),
        z=axis(base.z, 2),
        link=Link(**(base.link.model_dump() | {"sag": vary(base.link.sag, 0.4)})),
        hall=Hall(**(base.hall.model_dump() | {"temperature": float(draw.uniform(17, 27))})),
        cutting=Cutting(slow_variation=vary(0.07, 0.5), ripple=vary(0.07, 0.5)),
        logging=Logging(
            period=period,
            smoothing=float(draw.choice((0.0, 0.02, 0.1, 0.3))),
            noise=measurement_noise(vary(1.5, 1.0)),
            sensors=_random_sensors(draw),
        ),
    )


def _random_sensors(draw: np.random.Generator) -> tuple[str, ...]:
    """A channel subset: at least one spindle channel and four in all, in canonical order."""
    names = canonical().sensor_names
    kept = {name for name in names if draw.random() < 0.7} | {str(draw.choice(names[:3]))}
    for name in draw.permutation(names).tolist():
        if len(kept) >= 4:
            break
        kept.add(name)
    return tuple(name for name in names if name in kept)


_MACHINES = {"spinner_620": spinner_620, "spinner_630": spinner_630}


def machine_named(name: str) -> MachineParameters:
    """A machine of the catalogue, or `random:SEED`."""
    if name in _MACHINES:
        return _MACHINES[name]()
    family, _, seed = name.partition(":")
    if family == "random" and seed.isdecimal():
        return random_machine(int(seed))
    raise MachineError(
        f"There is no machine '{name}'.", expected=f"one of {', '.join(_MACHINES)}, or random:SEED such as random:7"
    )
