"""Changed commands on a planned path: the tool meets the stock of the place it has reached, not of the second."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import MachineError
from crossfeed.programs.parse import parse_program
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import MATERIALS
from crossfeed.sim.physics.inputs import DriveInputs, steps_met, travel
from crossfeed.sim.physics.jobs import motion_limits, play, prepare
from crossfeed.sim.physics.rollout import SimulatedMachine, counterfactual
from tests.sim.physics.conftest import cutting_inputs

SECOND = 50
TEXT = """G17 G90 G94
T1 M6 (END MILL 10)
G0 X0 Y0 Z5 S8000 M3
G1 Z-2 F600
X60 F1200
G4 F2
Y40
G0 Z50
T2 M6 (END MILL 6)
G0 X10 Y10 Z5 S12000 M3
G1 Z-4 F400
X50 F900
G0 Z50
M30
"""


@pytest.fixture(scope="module")
def planned() -> DriveInputs:
    """A program with rapids, cuts, a dwell in the cut and a tool change."""
    job = prepare(
        parse_program(TEXT, "two tools"),
        motion_limits(machine_named("spinner_620")),
        {"T1": "END MILL 10", "T2": "END MILL 6"},
    )
    return play(job, MATERIALS["steel"], 0.02, steps=int(job.seconds * SECOND)).inputs


def stepped(steps: int = 1000) -> DriveInputs:
    """A steady feed through stock that grows deeper with every step, so that the depth tells the place."""
    return replace(cutting_inputs(steps), depth=np.arange(1.0, steps + 1.0))


def bits(inputs: DriveInputs) -> list[bytes]:
    return [getattr(inputs, field.name).tobytes() for field in fields(inputs)]


def engagement(inputs: DriveInputs) -> np.ndarray:
    return np.column_stack(
        [getattr(inputs, field.name) for field in fields(inputs) if field.name not in ("spindle_speed", "feed")]
    )


def test_the_plan_itself_meets_its_own_engagement_bit_by_bit(planned: DriveInputs) -> None:
    travelled = travel(planned, planned.commands)
    assert bits(travelled) == bits(planned)
    assert len(np.unique(planned.diameter)) > 1
    assert (planned.depth > 0).any()
    assert not planned.feed.any(axis=1).all()


@settings(max_examples=25, deadline=None)
@given(start=st.integers(0, 1000), spindle=st.floats(0.0, 1.5))
def test_another_spindle_speed_leaves_the_engagement_as_it_was(
    start: int, spindle: float, planned: DriveInputs
) -> None:
    ahead = planned[start:]
    travelled = travel(ahead, ahead.commands * [spindle, 1, 1, 1])
    np.testing.assert_array_equal(steps_met(ahead, travelled), np.arange(len(ahead)))
    np.testing.assert_array_equal(engagement(travelled), engagement(ahead))


@pytest.mark.parametrize("factor", [0.1, 0.25, 0.6, 1.0, 1.5, 2.0])
def test_feeds_at_a_factor_reach_that_part_of_the_path(factor: float) -> None:
    path = stepped(2000)
    travelled = travel(path, path.commands[:1000] * [1, factor, factor, factor])
    np.testing.assert_array_equal(travelled.feed[:, 0], 1200.0 * factor)
    expected = np.ceil(factor * np.arange(1, 1001) - 1e-6)
    np.testing.assert_array_equal(travelled.depth, expected)


@pytest.mark.parametrize("factor", [0.4, 0.6, 1.3])
def test_the_chip_load_of_a_steady_cut_follows_the_feed(factor: float, calm: SimulatedMachine) -> None:
    inputs = cutting_inputs(500, speed=9000.0, feed=1200.0)
    factual, altered = counterfactual(calm, calm.rest(), inputs, inputs.commands * [1, factor, factor, factor])
    chip_loads = [
        physics.axis_velocity[0, -1] / (physics.spindle_speed[-1] / (2 * np.pi) * 3)
        for physics in (altered.physics, factual.physics)
    ]
    assert chip_loads[0] / chip_loads[1] == pytest.approx(factor, rel=1e-3)
    torque = altered.physics.cutting_torque[-1] / factual.physics.cutting_torque[-1]
    assert torque == pytest.approx(factor ** (1 - 0.23), rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(at=st.integers(1, 1400), held=st.integers(1, 200))
def test_a_hold_delays_the_engagement_by_as_long_as_it_lasts(at: int, held: int, planned: DriveInputs) -> None:
    speed = planned.spindle_speed[at - 1]
    hold = np.tile([speed, 0.0, 0.0, 0.0], (held, 1))
    travelled = travel(planned, np.concatenate((planned.commands[:at], hold, planned.commands[at:])))
    assert bits(travelled[:at]) == bits(planned[:at])
    moving = at + np.flatnonzero(np.abs(planned.feed[at:]).max(axis=1) > 1e-3)
    np.testing.assert_array_equal(steps_met(planned, travelled)[held + moving], moving)
    np.testing.assert_array_equal(engagement(travelled)[held + moving], engagement(planned)[moving])


def test_a_hold_in_the_cut_keeps_the_engagement_and_cuts_nothing(calm: SimulatedMachine) -> None:
    path = cutting_inputs(1000)
    _, state = calm.run(path[:500], calm.rest())
    commands = np.concatenate((np.tile([9000.0, 0, 0, 0], (6, 1)), np.tile([9000.0, 1200.0, 0, 0], (4, 1))))
    factual, altered = counterfactual(calm, state, path[500:], commands)
    travelled = travel(path[500:], np.repeat(commands, SECOND, axis=0))
    assert (travelled.depth > 0).all()
    assert altered.physics.cutting_torque[50:300].max() < 1e-6
    np.testing.assert_allclose(altered.physics.spindle_speed[100:300], 9000 * np.pi / 30, rtol=1e-3)
    assert altered.physics.cutting_torque[-1] == pytest.approx(factual.physics.cutting_torque[-1], rel=1e-3)


def test_what_follows_a_slow_stretch_comes_later_and_is_all_there() -> None:
    path = stepped(1000)
    slow = path.commands[:400] * [1, 0.5, 0.5, 0.5]
    whole = travel(path, np.concatenate((slow, path.commands[200:])))
    np.testing.assert_array_equal(whole.depth[400:], np.arange(201.0, 1001.0))
    removed = (whole.depth * whole.feed[:, 0]).sum() / (path.depth * path.feed[:, 0]).sum()
    assert removed == pytest.approx(1.0, abs=1e-3)


def test_faster_commands_arrive_in_what_lies_beyond(calm: SimulatedMachine) -> None:
    near, far = cutting_inputs(500, depth=1.0), cutting_inputs(500, depth=4.0)
    doubled = near.commands * [1, 2, 2, 2]
    _, alone = counterfactual(calm, calm.rest(), near, doubled)
    known, _ = calm.run(travel(DriveInputs.joined([near, far]), doubled), calm.rest())
    np.testing.assert_array_equal(alone.sensors[:250], known.sensors[:250])
    ratio = known.physics.cutting_torque[-1] / alone.physics.cutting_torque[-1]
    assert ratio == pytest.approx(4.0, rel=1e-2)


def test_a_longer_stand_than_planned_waits_at_the_next_move(planned: DriveInputs) -> None:
    standing = np.abs(planned.feed).max(axis=1) < 1e-6
    assert standing[:10].all()
    first = int(np.flatnonzero(~standing)[0])
    met = steps_met(planned, DriveInputs.idle(first + 200))
    np.testing.assert_array_equal(met[: first + 1], [*range(first), first - 1])
    assert met.max() == first - 1


@settings(max_examples=20, deadline=None)
@given(change=st.integers(0, 900), seed=st.integers(0, 1000))
def test_later_commands_never_move_the_tool_earlier(change: int, seed: int, planned: DriveInputs) -> None:
    draw = np.random.default_rng(seed)
    commands = planned.commands[:1000] * draw.uniform(0, 2, (1000, 1))
    other = commands.copy()
    other[change:] = draw.uniform(-20000, 20000, (1000 - change, 4))
    one, two = travel(planned, commands), travel(planned, other)
    assert bits(one[:change]) == bits(two[:change])
    assert (np.diff(steps_met(planned, two)) >= 0).all()


def test_a_path_without_steps_and_commands_without_numbers_are_refused(planned: DriveInputs) -> None:
    with pytest.raises(MachineError, match="no path"):
        travel(planned[:0], planned.commands)
    with pytest.raises(MachineError, match="no number"):
        travel(planned, planned.commands * np.nan)
