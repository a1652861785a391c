"""The axes: limits, weight, friction, feed force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.drives import limit_rate
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.rollout import SimulatedMachine
from tests.sim.physics.conftest import cutting_inputs, silent


@given(
    wanted=st.lists(st.floats(-10, 10), min_size=1, max_size=60),
    previous=st.floats(-10, 10),
    most=st.floats(0.1, 25),
)
def test_rate_limit_equals_the_step_by_step_definition(wanted: list[float], previous: float, most: float) -> None:
    value, expected = previous, []
    for target in wanted:
        if abs(target - value) <= most:
            value = target
        else:
            value += most if target > value else -most
        expected.append(value)
    np.testing.assert_array_equal(limit_rate(np.array(wanted), previous, most), expected)


def test_weight_of_the_headstock_shifts_the_level_of_z_and_differs_between_machines() -> None:
    levels = []
    for parameters in (machine_named("spinner_620"), machine_named("spinner_630")):
        machine = SimulatedMachine(silent(parameters))
        trace, _ = machine.run(DriveInputs.idle(100), machine.rest())
        z = machine.parameters.z
        holding = z.sense * z.gravity * z.pitch / 1000 / (2 * np.pi)
        assert trace["z_torque"][-1] == pytest.approx(holding, rel=1e-9)
        assert trace["z_current"][-1] == pytest.approx(holding / z.torque_constant, rel=1e-9)
        assert trace["x_torque"][-1] == trace["y_torque"][-1] == 0
        levels.append(holding)
    assert abs(levels[0] - levels[1]) > 2.0


def test_steady_feed_needs_friction_torque_only(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[0, 6000.0, 0, 0]] * 4, 50), calm.rest())
    x = calm.parameters.x
    friction = x.coulomb + x.viscous * 100.0
    assert trace["x_torque"][-1] == pytest.approx(x.lever * friction, rel=1e-6)


def test_a_step_command_is_met_with_the_axis_acceleration_not_with_infinite_torque(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[0, 48000.0, 0, 0]], 50), calm.rest())
    physics, x = trace.physics, calm.parameters.x
    assert np.abs(np.diff(physics.axis_velocity[0], prepend=0.0)).max() <= x.acceleration * calm.time_step * (1 + 1e-9)
    assert np.abs(physics.axis_torque[0]).max() <= x.torque_limit


def test_the_cut_pushes_against_the_feed(calm: SimulatedMachine) -> None:
    air, _ = calm.run(cutting_inputs(300, depth=0.0), calm.rest())
    cut, _ = calm.run(cutting_inputs(300), calm.rest())
    assert cut["x_torque"][-1] > air["x_torque"][-1] + 0.1
    assert abs(cut["y_torque"][-1] - air["y_torque"][-1]) > 0.05


def test_axis_power_is_torque_times_speed_plus_copper(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[0, 0, 0, 3000.0]] * 4, 50), calm.rest())
    z = calm.parameters.z
    speed = 50.0 / (z.lever * 1000)
    expected = z.sense * trace["z_torque"][-1] * speed + 1.5 * z.resistance * trace["z_current"][-1] ** 2
    assert trace["z_power"][-1] == pytest.approx(expected / 1000, rel=1e-6)
