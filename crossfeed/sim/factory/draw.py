"""Who belongs to the fleet: machines of six kinds, from a bench mill of 0.2 kW to a mill of 45 kW."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.configuration import CheckedForm, load_yaml
from crossfeed.programs.blocks import Setup
from crossfeed.schema import canonical
from crossfeed.sim.factory.motors import (
    Dice,
    Range,
    Servo,
    chance,
    dice,
    draw_axis,
    draw_servo,
    draw_spindle,
    log_uniform,
    pick,
    pick_weighted,
    uniform,
)
from crossfeed.sim.physics.parameters import Cutting, Hall, Link, Logging, MachineParameters

PERIODS = {1.0: 0.5, 0.5: 0.15, 0.2: 0.15, 0.1: 0.2}
NEIGHBOURS = 16  # machines that share a period, and a shard
_HIDDEN = 1e-9  # K: the physics logs without resolution, because the habits of a controller come later


# What a fleet is drawn from; each part is checked where it is used.
FACTS: dict[str, Any] = load_yaml(Path(__file__).with_name("fleet.yaml"), "What a fleet is drawn from")


class MachineKind(CheckedForm):
    """The ranges within which machines of a kind are drawn; `fleet.yaml` has units and meanings."""

    name: str
    share: float
    power: Range
    top_speed: Range
    base_share: Range
    rapid: Range
    acceleration: Range
    mass: Range
    pitch: Range
    part: Range
    tool: Range
    hanging: dict[str, float]
    turning: bool = False


KINDS = {name: MachineKind(name=name, **values) for name, values in FACTS["kinds"].items()}


@dataclass(frozen=True)
class FleetMachine:
    """A machine with its rating plate, and the place where it stands when it does not work."""

    parameters: MachineParameters
    kind: MachineKind
    spindle_power: float  # W, continuous
    axis_torques: tuple[float, ...]  # N m of x, y, z, continuous
    servo: Servo
    setup: Setup
    time_step: float  # s, of the physics

    @property
    def name(self) -> str:
        return self.parameters.name

    @property
    def period(self) -> float:
        return self.parameters.logging.period

    @property
    def spindle_torque(self) -> float:
        """N m, continuous."""
        spindle = self.parameters.spindle
        return self.spindle_power * spindle.torque_limit / spindle.power_limit


def period_of(seed: int, number: int) -> float:
    """Seconds between two rows of a machine; neighbours share it, so that they fit into one table."""
    return pick_weighted(dice(seed, number // NEIGHBOURS, "period"), PERIODS)


def draw_machine(seed: int, number: int) -> FleetMachine:
    """Machine `number` of the fleet of a seed."""
    draw = dice(seed, number, "machine")
    kind = KINDS[pick_weighted(draw, {name: kind.share for name, kind in KINDS.items()})]
    power, top = log_uniform(draw, *kind.power), round(log_uniform(draw, *kind.top_speed), -2)
    voltage = uniform(draw, 280, 340) if power < 2500 else pick(draw, (540.0, 565.0, 600.0, 600.0, 650.0, 720.0))
    spindle = draw_spindle(draw, power, top, kind.base_share, voltage)
    rapid = round(log_uniform(draw, *kind.rapid), -2)
    acceleration, mass, pitch = (
        log_uniform(draw, *kind.acceleration),
        log_uniform(draw, *kind.mass),
        log_uniform(draw, *kind.pitch),
    )
    carrier = pick_weighted(draw, kind.hanging)
    hanging = _carried_weight(draw, kind)
    drawn = {
        name: draw_axis(
            draw,
            mass * log_uniform(draw, 0.5, 2.0),
            pitch,
            round(rapid * (uniform(draw, 0.5, 1.0) if chance(draw, 0.3) else 1.0), -1),
            acceleration * uniform(draw, 0.7, 1.0),
            hanging if name == carrier else 0.0,
            voltage,
        )
        for name in ("x", "y", "z")
    }
    x, y, z = (axis for axis, _ in drawn.values())
    period = period_of(seed, number)
    parameters = MachineParameters(
        name=f"fleet_{seed}_{number:05d}",
        spindle=spindle,
        x=x,
        y=y,
        z=z,
        link=_draw_link(draw, power, voltage),
        hall=_draw_hall(draw, power),
        cutting=Cutting(
            slow_variation=log_uniform(draw, 0.01, 0.25),
            slow_memory=log_uniform(draw, 0.5, 20),
            ripple=log_uniform(draw, 0.01, 0.3),
        ),
        logging=Logging(
            period=period,
            smoothing=0.0,
            noise={},
            sensors=canonical().sensor_names,
            temperature_step=_HIDDEN,
            cabinet_step=_HIDDEN,
        ),
    )
    home = np.array([uniform(draw, -2, 2), uniform(draw, -1, 2), uniform(draw, 1.0, 3)]) * kind.part[1]
    return FleetMachine(
        parameters=parameters,
        kind=kind,
        spindle_power=power,
        axis_torques=tuple(rated for _, rated in drawn.values()),
        servo=draw_servo(draw),
        setup=Setup(work_offset=(0, 0, 0), home=tuple(home.tolist())),
        time_step=0.04 if period == 1.0 else 0.02,
    )


def _carried_weight(draw: Dice, kind: MachineKind) -> float:
    """The part of a slide's weight that its motor holds: all of it, less a counterweight, less on a slanted bed."""
    slant = uniform(draw, 0.4, 1.0) if kind.name in ("lathe", "mill_turn") else 1.0
    return slant * (uniform(draw, 0.0, 0.5) if chance(draw, 0.35) else uniform(draw, 0.5, 1.0))


def _draw_link(draw: Dice, power: float, voltage: float) -> Link:
    return Link(
        voltage=voltage,
        sag=voltage * log_uniform(draw, 0.002, 0.06) / (power / 1000),
        response=log_uniform(draw, 0.03, 0.3),
        regeneration_limit=voltage * uniform(draw, 1.01, 1.12),
        mains_drift=voltage * log_uniform(draw, 0.001, 0.008),
        mains_memory=log_uniform(draw, 20, 900),
        standing_load=power * log_uniform(draw, 0.02, 0.12) + 30,
    )


def _draw_hall(draw: Dice, power: float) -> Hall:
    return Hall(
        temperature=uniform(draw, 15, 31),
        drift=log_uniform(draw, 0.05, 1.5),
        memory=log_uniform(draw, 1800, 14400),
        cabinet_rise=uniform(draw, 0, 24),
        cabinet_per_kilowatt=log_uniform(draw, 0.5, 12) / (power / 1000),
        cabinet_response=log_uniform(draw, 300, 3600),
    )
