"""Machines by name: the two Spinners of `machines.yaml`, and random ones for fleets."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.configuration import load_yaml
from crossfeed.errors import MachineError
from crossfeed.schema import canonical
from crossfeed.sim.physics.parameters import Axis, Cutting, Hall, Link, Logging, MachineParameters, Spindle


@cache
def _facts() -> dict[str, Any]:
    """What `machines.yaml` holds."""
    facts: dict[str, Any] = load_yaml(Path(__file__).with_name("machines.yaml"), "The list of machines", MachineError)
    return facts


def machine_named(name: str) -> MachineParameters:
    """A machine of the catalogue, or `random:SEED`."""
    machines = _facts()["machines"]
    if name in machines:
        logging = machines[name]["logging"]
        noise = measurement_noise(logging["noise"])
        return MachineParameters(name=name, **machines[name] | {"logging": logging | {"noise": noise}})
    family, _, seed = name.partition(":")
    if family == "random" and seed.isdecimal():
        return random_machine(int(seed))
    raise MachineError(
        f"There is no machine '{name}'.", expected=f"one of {', '.join(machines)}, or random:SEED such as random:7"
    )


def measurement_noise(scale: float) -> dict[str, float]:
    """Measurement noise per sensor in canonical units."""
    return {name: value * scale for name, value in _facts()["noise"].items()}


def random_machine(seed: int) -> MachineParameters:
    """A machine for a fleet: a Spinner redrawn with other constants, weights, frictions, limits, noise and sensors."""
    draw = np.random.default_rng([seed, 20260820])
    base = machine_named("spinner_620" if draw.random() < 0.5 else "spinner_630")

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
