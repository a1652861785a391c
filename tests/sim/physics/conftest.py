"""Machines and inputs that several tests of the simulator share."""

import numpy as np
import pytest

from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.parameters import MachineParameters
from crossfeed.sim.physics.rollout import SimulatedMachine


def silent(machine: MachineParameters) -> MachineParameters:
    """The same machine without any noise, drift or rounding, so that formulas can be compared exactly."""
    calm = machine.model_dump()
    calm["cutting"] |= {"slow_variation": 0.0, "ripple": 0.0}
    calm["hall"] |= {"drift": 0.0}
    calm["link"] |= {"mains_drift": 0.0}
    calm["logging"] |= {"noise": {}, "temperature_step": 1e-9, "cabinet_step": 1e-9}
    return MachineParameters(**calm)


def cutting_inputs(steps: int, *, speed: float = 9000.0, feed: float = 1200.0, depth: float = 3.0) -> DriveInputs:
    """A steady cut along x in aluminium with a 10 mm end mill of three teeth."""
    ones = np.ones(steps)
    commands = np.tile([speed, feed, 0.0, 0.0], (steps, 1))
    return DriveInputs(
        spindle_speed=commands[:, 0].copy(),
        feed=commands[:, 1:].copy(),
        depth=depth * ones,
        width=5.0 * ones,
        diameter=10.0 * ones,
        teeth=3.0 * ones,
        specific_force=780.0 * ones,
        exponent=0.23 * ones,
    )


@pytest.fixture
def noisy() -> SimulatedMachine:
    return SimulatedMachine(machine_named("spinner_620"))


@pytest.fixture
def calm() -> SimulatedMachine:
    return SimulatedMachine(silent(machine_named("spinner_620")))
