"""Restoring a state and playing on: the same bits under the same commands, another future only after a change."""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import MachineError, StorageError
from crossfeed.sim.physics.catalogue import machine_named, random_machine
from crossfeed.sim.physics.dynamics import SimulationState
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.rollout import SimulatedMachine, counterfactual
from tests.sim.physics.conftest import cutting_inputs


def busy_inputs(steps: int, seed: int = 0) -> DriveInputs:
    """Commands that jump every 25 steps, cut and air, so that every memory of the machine is stirred."""
    draw = np.random.default_rng(seed)
    rows = -(-steps // 25)
    commands = np.column_stack([draw.choice((0, 4000, 12000, 20000), rows), draw.uniform(-20000, 20000, (rows, 3))])
    return cutting_inputs(rows * 25).with_commands(commands)[:steps]


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 1499), max_size=4, unique=True), seed=st.integers(0, 5))
def test_a_run_in_pieces_equals_the_run_in_one_piece_bit_by_bit(cuts: list[int], seed: int) -> None:
    machine = SimulatedMachine(random_machine(seed))
    inputs = busy_inputs(1500, seed)
    whole, end = machine.run(inputs, machine.rest(seed))
    state, parts = machine.rest(seed), []
    edges = [0, *sorted(cuts), 1500]
    for start, stop in pairwise(edges):
        trace, state = machine.run(inputs[start:stop], state)
        parts.append(trace.sensors)
    np.testing.assert_array_equal(np.concatenate(parts), whole.sensors)
    assert state.step == end.step
    for name, values in end.memory.items():
        np.testing.assert_array_equal(state.memory[name], values, err_msg=name)


def test_long_runs_that_are_computed_in_pieces_inside_equal_short_ones() -> None:
    machine = SimulatedMachine(machine_named("spinner_630"), time_step=0.002)
    inputs = busy_inputs(40_000)
    whole, _ = machine.run(inputs, machine.rest(1))
    first, state = machine.run(inputs[:12_345], machine.rest(1))
    second, _ = machine.run(inputs[12_345:], state)
    np.testing.assert_array_equal(whole.sensors, np.concatenate([first.sensors, second.sensors]))
    assert len(whole.physics.spindle_power) == 40_000


def test_a_saved_and_restored_state_goes_on_bit_by_bit(noisy: SimulatedMachine, tmp_path: Path) -> None:
    inputs = busy_inputs(1000)
    _, middle = noisy.run(inputs[:500], noisy.rest(7))
    middle.save(tmp_path / "state.npz")
    restored = SimulationState.load(tmp_path / "state.npz")
    kept, _ = noisy.run(inputs[500:], middle)
    again, _ = noisy.run(inputs[500:], restored)
    np.testing.assert_array_equal(kept.sensors, again.sensors)
    np.testing.assert_array_equal(kept.time, again.time)


def test_running_never_changes_the_state_it_starts_from(noisy: SimulatedMachine) -> None:
    start = noisy.rest(2)
    before = deepcopy(start.memory)
    noisy.run(busy_inputs(300), start)
    for name, values in before.items():
        np.testing.assert_array_equal(start.memory[name], values)


@settings(max_examples=15)
@given(change=st.integers(0, 900), seed=st.integers(0, 5))
def test_other_commands_change_the_trace_only_from_the_change_on(change: int, seed: int) -> None:
    machine = SimulatedMachine(machine_named("spinner_620"))
    inputs = busy_inputs(1000, seed)
    commands = inputs.commands.copy()
    commands[change:, 0] = 7777.0
    commands[change:, 1] += 3000.0
    factual, altered = counterfactual(machine, machine.rest(seed), inputs, commands)
    np.testing.assert_array_equal(factual.sensors[:change], altered.sensors[:change])
    assert (factual.sensors[change:] != altered.sensors[change:]).any()


def test_both_futures_meet_the_same_noise(noisy: SimulatedMachine) -> None:
    inputs = DriveInputs.idle(500)
    commands = np.tile([6000.0, 0, 0, 0], (10, 1))
    factual, altered = counterfactual(noisy, noisy.rest(1), inputs, commands)
    # Nothing moves along x and y in either future, so only the common noise is left there.
    np.testing.assert_array_equal(factual["x_torque"], altered["x_torque"])
    assert altered["spindle_power"][-1] > factual["spindle_power"][-1] + 0.3


def test_commands_at_one_hertz_are_held_within_the_second(noisy: SimulatedMachine) -> None:
    rows = np.array([[8000.0, 600.0, 0, 0], [8000.0, 1200.0, 0, 0], [0, 0, 0, 0]])
    inputs = cutting_inputs(150).with_commands(rows)
    np.testing.assert_array_equal(inputs.commands, np.repeat(rows, 50, axis=0))
    trace, _ = noisy.run(inputs, noisy.rest())
    seconds = trace.resample(1.0)
    np.testing.assert_allclose(seconds.time, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(seconds.commands, rows)
    np.testing.assert_allclose(seconds.sensors[1], trace.sensors[50:100].mean(axis=0))


@settings(max_examples=10, deadline=None)
@given(start=st.integers(0, 500), seed=st.integers(0, 5))
def test_unchanged_commands_from_a_restored_state_repeat_the_run_bit_by_bit(start: int, seed: int) -> None:
    machine = SimulatedMachine(machine_named("spinner_630"))
    inputs = busy_inputs(1000, seed)
    whole, _ = machine.run(inputs, machine.rest(seed))
    state = machine.rest(seed)
    if start:
        _, state = machine.run(inputs[:start], state)
    factual, altered = counterfactual(machine, state, inputs[start:], inputs[start:].commands)
    np.testing.assert_array_equal(factual.sensors, whole.sensors[start:])
    np.testing.assert_array_equal(altered.sensors, whole.sensors[start:])


def test_engagement_scheduled_in_time_would_cut_stock_that_a_slower_feed_has_not_reached(
    calm: SimulatedMachine,
) -> None:
    inputs = DriveInputs.joined([cutting_inputs(300, depth=1.0), cutting_inputs(200, depth=3.0)])
    slower = np.tile([9000.0, 720.0, 0, 0], (10, 1))
    _, altered = counterfactual(calm, calm.rest(), inputs, slower)
    steady, _ = calm.run(cutting_inputs(500, depth=1.0, feed=720.0), calm.rest())
    np.testing.assert_array_equal(altered.sensors, steady.sensors)
    _, planned = counterfactual(calm, calm.rest(), inputs, slower * [1, 5 / 3, 0, 0])
    assert planned.physics.cutting_torque[-1] > 2.5 * altered.physics.cutting_torque[-1]


def test_the_chip_load_follows_the_new_commands_in_a_steady_cut(calm: SimulatedMachine) -> None:
    inputs = cutting_inputs(500, speed=9000.0, feed=1200.0)
    slower = np.tile([9000.0, 600.0, 0, 0], (10, 1))
    factual, altered = counterfactual(calm, calm.rest(), inputs, slower)
    ratio = altered.physics.cutting_torque[-1] / factual.physics.cutting_torque[-1]
    assert ratio == pytest.approx(0.5 ** (1 - 0.23), rel=1e-3)


def test_other_seeds_give_other_noise_from_the_same_moment(noisy: SimulatedMachine) -> None:
    state = noisy.rest(1)
    one, _ = noisy.run(DriveInputs.idle(50), state)
    other, _ = noisy.run(DriveInputs.idle(50), replace(state, seed=2))
    assert not np.array_equal(one.sensors, other.sensors)
    np.testing.assert_allclose(one.sensors.mean(axis=0)[:10], other.sensors.mean(axis=0)[:10], atol=0.1)


def test_a_state_of_another_machine_is_refused(noisy: SimulatedMachine) -> None:
    with pytest.raises(MachineError, match="does not belong to spinner_620"):
        noisy.run(DriveInputs.idle(5), SimulatedMachine(machine_named("spinner_630")).rest())
    with pytest.raises(MachineError, match="does not belong"):
        noisy.run(DriveInputs.idle(5), SimulatedMachine(machine_named("spinner_620"), time_step=0.01).rest())


def test_files_that_are_no_state_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"not a zip file")
    with pytest.raises(MachineError, match="no saved simulation state"):
        SimulationState.load(broken)
    np.savez(tmp_path / "other.npz", header=np.array("{}"))
    with pytest.raises(MachineError, match="no saved simulation state"):
        SimulationState.load(tmp_path / "other.npz")
    with pytest.raises(StorageError):
        SimulationState.load(tmp_path / "missing.npz")


def test_inputs_that_are_no_commands_are_refused(noisy: SimulatedMachine) -> None:
    with pytest.raises(MachineError, match="shape"):
        DriveInputs.held([[1.0, 2.0]], 50)
    with pytest.raises(MachineError, match="no number"):
        DriveInputs.held([[np.nan, 0, 0, 0]], 50)
    with pytest.raises(MachineError, match="spread evenly"):
        DriveInputs.idle(100).with_commands(np.zeros((7, 4)))
    with pytest.raises(MachineError, match="nothing to run"):
        noisy.run(DriveInputs.idle(0), noisy.rest())
    with pytest.raises(MachineError, match="seed"):
        noisy.rest(seed=-1)
    with pytest.raises(MachineError, match="cannot be resampled"):
        noisy.run(DriveInputs.idle(10), noisy.rest())[0].resample(0.03)
    with pytest.raises(MachineError, match="time step"):
        SimulatedMachine(machine_named("spinner_620"), time_step=0.5)


def test_a_step_ends_a_whole_number_of_steps_after_the_beginning() -> None:
    machine = SimulatedMachine(machine_named("spinner_620"))
    first, state = machine.run(busy_inputs(60)[:40], machine.rest(1))
    second, _ = machine.run(busy_inputs(60)[40:], state)
    time = np.concatenate([first.time, second.time])
    np.testing.assert_allclose(time, np.arange(1, 61) * machine.time_step, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_no_generator_takes_is_refused(seed: int) -> None:
    machine = SimulatedMachine(random_machine(0))
    assert machine.rest(2**64 - 1) is not None
    with pytest.raises(MachineError, match=f"The seed {seed} cannot be used"):
        machine.rest(seed)
