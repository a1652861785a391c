"""What there is to be measured on a machine, held still: few machines of a fleet show all of it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from crossfeed.sim.factory.draw import FleetMachine, draw_machine
from crossfeed.sim.factory.motors import OTHERS, dice, fleet_schema
from crossfeed.sim.factory.parts import draw_piece
from crossfeed.sim.factory.people import draw_person, work
from crossfeed.sim.factory.signals import Signals, rated
from crossfeed.sim.physics.rollout import SimulatedMachine

NAMES = [name for name in fleet_schema().sensor_names if name not in OTHERS]
MACHINES = (1, 2, 5)
SERVO = {"stick": 0.7, "hunting": 0.4, "ripple": 0.3}
PLATES: dict[str, float] = {
    "spindle_current": 225.578082,
    "spindle_output_current": 159.5077915,
    "spindle_torque": 516.2045568,
    "spindle_power": 51.55887838,
    "spindle_load": 300,
    "spindle_output_voltage": 1248.043469,
    "spindle_dc_voltage": 1765,
    "spindle_mod_depth": 300,
    "spindle_actual_speed": 29000,
    "spindle_motor_temp": 300,
    "x_current": 15.52722448,
    "x_output_current": 10.97940572,
    "x_torque": 33.21669677,
    "x_power": 6.121516006,
    "x_load": 300,
    "x_output_voltage": 1248.043469,
    "x_velocity": 55300,
    "x_motor_temp": 300,
    "y_current": 16.9082304,
    "y_output_current": 11.95592437,
    "y_torque": 31.40388147,
    "y_power": 4.673328831,
    "y_load": 300,
    "y_output_voltage": 1248.043469,
    "y_velocity": 50430,
    "y_motor_temp": 300,
    "z_current": 39.52915265,
    "z_output_current": 27.95133189,
    "z_torque": 95.25567847,
    "z_power": 11.02426453,
    "z_load": 300,
    "z_output_voltage": 1248.043469,
    "z_velocity": 47830,
    "z_motor_temp": 300,
}
MEASURED: dict[str, float] = {
    "spindle_current": 40.33977196,
    "spindle_output_current": 39.51915047,
    "spindle_torque": 75.78996836,
    "spindle_power": 8.932845513,
    "spindle_load": 65.99177065,
    "spindle_output_voltage": 812.0463001,
    "spindle_dc_voltage": 2358.918495,
    "spindle_mod_depth": 138.7575085,
    "spindle_actual_speed": 19583.39135,
    "spindle_motor_temp": 152.3059369,
    "x_current": 3.060814869,
    "x_output_current": 2.413380302,
    "x_torque": 6.460150069,
    "x_power": 0.4320334855,
    "x_load": 116.46948,
    "x_output_voltage": 192.934775,
    "x_velocity": 9581.593995,
    "x_motor_temp": 115.1247444,
    "y_current": 2.135183056,
    "y_output_current": 1.526228217,
    "y_torque": 5.788001295,
    "y_power": 0.1197362595,
    "y_load": 60.39764988,
    "y_output_voltage": 73.83084666,
    "y_velocity": 6032.078765,
    "y_motor_temp": 124.6759487,
    "z_current": 13.4571391,
    "z_output_current": 13.83766927,
    "z_torque": 31.24498997,
    "z_power": 1.20776496,
    "z_load": 142.4492348,
    "z_output_voltage": 250.8531049,
    "z_velocity": 11881.49567,
    "z_motor_temp": 152.3508652,
    "ambient_temp": 150.2981344,
    "spindle_load of current": 62.85462194,
    "spindle_load of power": 49.58365388,
    "spindle_power of the shaft": 8.186176942,
    "x_power of the shaft": 0.3469566752,
}


@cache
def machine(number: int) -> FleetMachine:
    drawn = draw_machine(3, number)
    return replace(drawn, servo=replace(drawn.servo, **SERVO))


@cache
def signals(number: int) -> Signals:
    hands, physics = dice(3, number, "people"), dice(3, number, "physics")
    piece = draw_piece(machine(number), dice(3, number, "parts"))
    shift = work(machine(number), [lambda: piece], draw_person(hands, True), 90.0, hands)
    simulated = SimulatedMachine(machine(number).parameters, machine(number).time_step)
    trace, _ = simulated.run(shift.inputs, simulated.rest(7))
    return Signals.of(machine(number), trace, shift.awake, physics)


def told(values: np.ndarray) -> float:
    return float(np.abs(values).mean() + values.mean() / 3.0 + values.std())


def test_the_plate_of_a_machine_says_what_it_said() -> None:
    shown = [name for name in NAMES if name != "ambient_temp"]
    found = {name: sum(rated(machine(number), name) for number in MACHINES) for name in shown}
    assert found == pytest.approx(PLATES, rel=1e-8)


def test_drives_show_what_they_showed() -> None:
    found = {name: sum(told(signals(number)(name)) for number in MACHINES) for name in NAMES}
    for load_of in ("current", "power"):
        found[f"spindle_load of {load_of}"] = sum(
            told(replace(signals(number), load_of=load_of)("spindle_load")) for number in MACHINES
        )
    for name in ("spindle_power", "x_power"):
        found[f"{name} of the shaft"] = sum(
            told(replace(signals(number), shaft_power=True)(name)) for number in MACHINES
        )
    assert found == pytest.approx(MEASURED, rel=1e-6)
