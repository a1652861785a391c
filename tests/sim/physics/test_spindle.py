"""The spindle obeys mechanics: energy, limits, steady torque, proportional current."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.sim.physics.catalogue import machine_named, random_machine
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.parameters import RAD_PER_RPM
from crossfeed.sim.physics.rollout import SimulatedMachine
from tests.sim.physics.conftest import cutting_inputs, silent


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), speeds=st.lists(st.floats(-15000, 15000), min_size=1, max_size=5))
def test_electrical_energy_equals_work_losses_and_stored_energy(seed: int, speeds: list[float]) -> None:
    machine = SimulatedMachine(random_machine(seed))
    step = machine.time_step
    commands = np.zeros((len(speeds), 4))
    commands[:, 0] = speeds
    commands[:, 1] = 900.0
    engaged = cutting_inputs(100 * len(speeds), depth=2.0).with_commands(commands)
    trace, after = machine.run(engaged, machine.rest(seed))
    physics = trace.physics
    electrical = step * physics.spindle_power.sum()
    friction = step * (physics.friction_torque * physics.spindle_speed).sum()
    cutting = step * (physics.cutting_torque * physics.spindle_speed).sum()
    losses = step * (physics.copper_loss + physics.iron_loss).sum()
    stored = 0.5 * machine.parameters.spindle.inertia * after.number("spindle_speed") ** 2
    spent = friction + cutting + losses + stored
    assert electrical == pytest.approx(spent, rel=1e-6, abs=1e-3)
    assert friction >= 0
    assert losses >= 0


def test_steady_cutting_torque_follows_the_cutting_force_formula(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(cutting_inputs(500), calm.rest())
    spindle = calm.parameters.spindle
    chip = 1200.0 / (9000.0 * 3)  # mm per tooth
    arc = np.arccos(1 - 2 * 5.0 / 10.0)
    mean_chip = chip * (2 * 5.0 / 10.0) / arc
    specific = 780.0 * mean_chip**-0.23
    removal = 3.0 * 5.0 * 1200.0 / 60  # mm^3/s
    cutting = specific * removal / 1000 / (9000 * RAD_PER_RPM)
    friction = spindle.coulomb + spindle.viscous * 9000 * RAD_PER_RPM
    assert trace["spindle_torque"][-1] == pytest.approx(cutting + friction, rel=1e-3)


def test_more_feed_more_torque_and_no_feed_no_cut(calm: SimulatedMachine) -> None:
    traces = [calm.run(cutting_inputs(300, feed=feed), calm.rest())[0] for feed in (0, 600, 1200)]
    torques = [trace["spindle_torque"][-1] for trace in traces]
    air = calm.run(cutting_inputs(300, depth=0.0), calm.rest())[0]["spindle_torque"][-1]
    assert torques[0] == pytest.approx(air, rel=1e-9)
    assert torques[0] < torques[1] < torques[2]


@pytest.mark.parametrize("rpm", [3000.0, 20000.0, -12000.0])
def test_start_up_stays_within_the_limits_and_reaches_the_speed(calm: SimulatedMachine, rpm: float) -> None:
    trace, after = calm.run(DriveInputs.held([[rpm, 0, 0, 0]] * 6, 50), calm.rest())
    physics, spindle = trace.physics, calm.parameters.spindle
    torque = np.abs(physics.spindle_torque)
    assert torque.max() <= spindle.torque_limit
    assert torque.max() > 0.95 * spindle.torque_limit
    # The limit is read at the start of a step, the power holds for its mean speed.
    assert (physics.spindle_torque * physics.spindle_speed).max() <= spindle.power_limit * 1.1
    assert after.number("spindle_speed") == pytest.approx(rpm * RAD_PER_RPM, rel=1e-3)


def test_braking_feeds_power_back(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[18000.0, 0, 0, 0]] * 5 + [[0, 0, 0, 0]] * 8, 50), calm.rest())
    assert trace["spindle_power"].min() < -0.5 * calm.parameters.spindle.braking_power_limit / 1000
    assert trace["spindle_torque"][-1] == pytest.approx(0.0, abs=1e-6)


def test_current_is_proportional_to_torque_below_field_weakening(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[9000.0, 0, 0, 0], [3000.0, 0, 0, 0]], 100), calm.rest())
    moving = np.abs(trace["spindle_torque"]) > 0.1
    ratio = trace["spindle_torque"][moving] / trace["spindle_current"][moving]
    np.testing.assert_allclose(ratio, calm.parameters.spindle.torque_constant, rtol=1e-9)


def test_field_weakening_needs_more_current_for_the_same_torque(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[18000.0, 0, 0, 0]] * 10, 50), calm.rest())
    constant = trace["spindle_torque"][-1] / trace["spindle_current"][-1]
    spindle = calm.parameters.spindle
    assert constant == pytest.approx(spindle.torque_constant * spindle.weakening_speed / 18000.0, rel=1e-3)


def test_reported_power_is_torque_times_speed_plus_losses(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(cutting_inputs(600), calm.rest())
    spindle, speed = calm.parameters.spindle, 9000 * RAD_PER_RPM
    current = trace["spindle_current"][-1]
    copper = 1.5 * spindle.resistance * (current**2 + spindle.magnetising_current**2)
    iron = spindle.hysteresis * speed + spindle.eddy * speed**2
    expected = (trace["spindle_torque"][-1] * speed + copper + iron) / 1000
    assert trace["spindle_power"][-1] == pytest.approx(expected, rel=1e-3)


def test_a_standing_spindle_skipped_as_a_whole_gives_what_single_steps_give() -> None:
    machine = SimulatedMachine(silent(machine_named("spinner_620")))
    inputs = DriveInputs.held([[0, 0, 0, 0], [4000, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [2000, 0, 0, 0]], 100)
    whole, _ = machine.run(inputs, machine.rest())
    state, rows = machine.rest(), []
    for index in range(len(inputs)):
        trace, state = machine.run(inputs[index : index + 1], state)
        rows.append(trace.sensors)
    np.testing.assert_array_equal(whole.sensors, np.concatenate(rows))
