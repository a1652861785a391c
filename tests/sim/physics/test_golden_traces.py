"""What simulated machines log, held still: some constants of the physics could move by a quarter and no test saw it."""

from functools import cache

import numpy as np
import pytest

from crossfeed.programs.parse import parse_program
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named, random_machine
from crossfeed.sim.physics.cutting import MATERIALS
from crossfeed.sim.physics.jobs import OverrideSchedule, Playback, motion_limits, play_under, prepare
from crossfeed.sim.physics.parameters import MachineParameters
from crossfeed.sim.physics.rollout import SimulatedMachine

STEP = 0.02
TEXT = """G17 G90 G94
T1 M6 (END MILL 10)
G0 X0 Y0 Z5 S8000 M3
G1 Z-2 F600
X60 F1200
G4 F2
Y40 Z-4
X0
G0 Z50
T2 M6 (DRILL 6)
G0 X20 Y20 Z2 S3000 M4
G95 G1 Z-12 F0.1
G94
G0 Z50
M5
M30
"""
FEED, SPINDLE = np.repeat([1.0, 0.7, 1.2, 0.0, 0.9, 1.1], 6), np.repeat([1.0, 1.1, 0.8, 1.0], 9)
LOGGED = {
    "spindle_current": 47.96249535,
    "spindle_torque": 38.08397072,
    "spindle_power": 18.47481694,
    "x_current": 3.781522778,
    "x_torque": 8.942614623,
    "y_current": 3.132504521,
    "y_torque": 4.169739273,
    "z_current": 14.9283308,
    "z_torque": 19.78662078,
    "z_power": 0.9732024971,
    "spindle_motor_temp": 173.9382256,
    "x_motor_temp": 124.1302909,
    "y_motor_temp": 134.8198497,
    "z_motor_temp": 184.0078359,
    "spindle_dc_voltage": 3192.798567,
    "spindle_mod_depth": 319.5852214,
    "ambient_temp": 216.0,
}
JOBS = {
    "steps": 7081.0,
    "spindle_speed": 41207.26475,
    "feed": 18187.0261,
    "depth": 15.59785306,
    "width": 27.66584839,
    "diameter": 54.61706422,
    "specific_force": 6826.666667,
}


@cache
def played(number: int) -> tuple[MachineParameters, Playback]:
    parameters = (machine_named("spinner_620"), machine_named("spinner_630"), random_machine(1), random_machine(2))[
        number
    ]
    job = prepare(parse_program(TEXT, "frame"), motion_limits(parameters), {"T1": "END MILL 10", "T2": "DRILL 6"})
    material = MATERIALS[("aluminium", "steel")[number % 2]]
    return parameters, play_under(job, OverrideSchedule.of(FEED, SPINDLE, 0.8), material, STEP)


def told(values: np.ndarray) -> float:
    return float(np.abs(values).mean() + values.mean() / 3.0 + values.std())


def test_machines_log_what_they_logged() -> None:
    found: dict[str, float] = {}
    for number in range(4):
        parameters, playback = played(number)
        machine = SimulatedMachine(parameters, STEP)
        trace, _ = machine.run(playback.inputs, machine.rest(number))
        for name, values in zip(canonical().sensor_names, trace.sensors.T, strict=True):
            found[name] = found.get(name, 0.0) + told(values)
    assert found == pytest.approx(LOGGED, rel=1e-6)


def test_a_job_under_overrides_asks_for_what_it_asked_for() -> None:
    found = {"steps": 0.0}
    for number in range(4):
        _, playback = played(number)
        found["steps"] += len(playback)
        for name in ("spindle_speed", "feed", "depth", "width", "diameter", "specific_force"):
            found[name] = found.get(name, 0.0) + told(np.asarray(getattr(playback.inputs, name)))
    assert found == pytest.approx(JOBS, rel=1e-6)
