"""A job under override schedules: the same path and the same chips, in another time."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import MachineError
from crossfeed.programs.parse import parse_program
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import MATERIALS
from crossfeed.sim.physics.jobs import (
    Job,
    Motion,
    OverrideSchedule,
    Playback,
    motion_limits,
    overridden,
    play,
    play_under,
    prepare,
)
from crossfeed.sim.physics.rollout import SimulatedMachine

ALUMINIUM, STEP, SECOND = MATERIALS["aluminium"], 0.02, 50
TEXT = """G17 G90 G94
T1 M6 (END MILL 10)
G0 X0 Y0 Z5 S8000 M3
G1 Z-2 F600
X60 F1200
G4 F2
Y40
X0
G0 Z50
T2 M6 (DRILL 6)
G0 X20 Y20 Z2 S3000 M3
G95 G1 Z-12 F0.1
G94
G0 Z50
M5
M30
"""


@pytest.fixture(scope="module")
def job() -> Job:
    return prepare(
        parse_program(TEXT, "frame"),
        motion_limits(machine_named("spinner_620")),
        {"T1": "END MILL 10", "T2": "DRILL 6"},
    )


def bits(playback: Playback) -> list[bytes]:
    inputs = [getattr(playback.inputs, field.name).tobytes() for field in fields(playback.inputs)]
    return [*inputs, *(getattr(playback, name).tobytes() for name in ("position", "line", "tool", "override"))]


def volume(playback: Playback) -> float:
    inputs = playback.inputs
    return float((inputs.depth * inputs.width * np.linalg.norm(inputs.feed, axis=1)).sum() / 60 * STEP)


def test_at_100_percent_every_bit_is_that_of_the_plain_job(job: Job) -> None:
    played = play_under(job, OverrideSchedule.of(), ALUMINIUM, STEP)
    assert bits(played) == bits(play(job, ALUMINIUM, STEP, steps=len(played)))
    assert len(played) * STEP == pytest.approx(job.seconds, abs=2 * STEP)
    assert set(played.motion.tolist()) == {motion.value for motion in Motion}


@settings(max_examples=20, deadline=None)
@given(factor=st.floats(0.2, 2.0))
def test_a_whole_job_removes_the_same_volume_in_its_own_time(factor: float, job: Job) -> None:
    plain = play_under(job, OverrideSchedule.of(), ALUMINIUM, STEP)
    played = play_under(job, OverrideSchedule.of(feed=factor), ALUMINIUM, STEP)
    assert volume(played) == pytest.approx(volume(plain), rel=0.02)
    feeding = (job.motion >= Motion.FEED).sum() / 100
    expected = job.seconds - feeding + feeding / factor
    assert len(played) * STEP == pytest.approx(expected, abs=0.2)
    cut = [(one.inputs.depth > 0).sum() for one in (played, plain)]
    assert cut[0] / cut[1] == pytest.approx(1 / factor, rel=0.02)
    travelled = played.inputs.feed.sum(axis=0) / 60 * STEP
    np.testing.assert_allclose(travelled, job.position[-1] - job.position[0], atol=4.0)
    np.testing.assert_allclose(played.position[-1], job.position[-1], atol=1e-6)


@pytest.mark.parametrize("seconds", [1, 3, 10])
@pytest.mark.parametrize("at", [9, 14, 16])
def test_a_feed_hold_delays_everything_by_as_long_as_it_lasts(job: Job, at: int, seconds: int) -> None:
    plain = play_under(job, OverrideSchedule.of(), ALUMINIUM, STEP)
    assert plain.motion[at * SECOND] == Motion.FEED
    held = OverrideSchedule.of(feed=[*[1.0] * at, *[0.0] * seconds, 1.0])
    played = play_under(job, held, ALUMINIUM, STEP)
    start, stop = at * SECOND, (at + seconds) * SECOND
    assert bits(played[:start]) == bits(plain[:start])
    assert bits(played[stop:]) == bits(plain[start:])
    assert not played.inputs.feed[start:stop].any()
    assert (played.inputs.spindle_speed[start:stop] == 8000).all()
    assert (played.inputs.depth[start:stop] == plain.inputs.depth[start - 1]).all()


def test_a_held_cut_costs_no_cutting_torque(job: Job, calm: SimulatedMachine) -> None:
    held = OverrideSchedule.of(feed=[*[1.0] * 10, *[0.0] * 4, 1.0])
    trace, _ = calm.run(play_under(job, held, ALUMINIUM, STEP).inputs, calm.rest())
    assert trace.physics.cutting_torque[9 * SECOND : 10 * SECOND].min() > 0
    assert trace.physics.cutting_torque[11 * SECOND : 14 * SECOND].max() < 1e-6
    assert trace.physics.cutting_torque[14 * SECOND + 5 : 15 * SECOND].min() > 0


def test_dwells_and_tool_changes_take_their_planned_time(job: Job) -> None:
    slow = play_under(job, OverrideSchedule.of(feed=0.4, rapid=0.5), ALUMINIUM, STEP)
    plain = play_under(job, OverrideSchedule.of(), ALUMINIUM, STEP)
    standing = [(one.motion == Motion.STANDING).sum() for one in (slow, plain)]
    assert standing[0] == pytest.approx(standing[1], abs=4)
    rapids = [(one.motion == Motion.RAPID).sum() for one in (slow, plain)]
    assert rapids[0] / rapids[1] == pytest.approx(2.0, rel=0.05)
    frozen = play_under(job, OverrideSchedule.of(feed=0.0), ALUMINIUM, STEP, steps=2000)
    first = int(np.flatnonzero(plain.motion != Motion.STANDING)[0])
    assert np.abs(frozen.inputs.feed).max() < 1e-6
    np.testing.assert_array_equal(frozen.line[:first], plain.line[:first])
    np.testing.assert_array_equal(frozen.position[first:], np.tile(plain.position[first - 1], (2000 - first, 1)))


def test_a_feed_per_revolution_follows_the_spindle(job: Job) -> None:
    plain = play_under(job, OverrideSchedule.of(), ALUMINIUM, STEP)
    slow = play_under(job, OverrideSchedule.of(spindle=0.5), ALUMINIUM, STEP)
    drilling = [one.motion == Motion.FEED_PER_REVOLUTION for one in (slow, plain)]
    assert drilling[0].sum() / drilling[1].sum() == pytest.approx(2.0, rel=0.02)
    per_turn = [
        np.abs(one.inputs.feed[now, 2]).max() / one.inputs.spindle_speed[now].max()
        for one, now in zip((slow, plain), drilling)
    ]
    assert per_turn[0] == pytest.approx(per_turn[1], rel=1e-6)
    milling = [(one.motion == Motion.FEED).sum() for one in (slow, plain)]
    assert milling[0] == pytest.approx(milling[1], abs=3)


@settings(max_examples=20, deadline=None)
@given(change=st.integers(0, 25), seed=st.integers(0, 1000))
def test_later_overrides_never_change_what_came_before(change: int, seed: int, job: Job) -> None:
    factors = np.random.default_rng(seed).choice([0.0, 0.3, 0.6, 1.0, 1.2], (3, 2, 30))
    factors[:, 1, :change] = factors[:, 0, :change]
    one, two = (play_under(job, OverrideSchedule.of(*factors[:, arm]), ALUMINIUM, STEP, 1500) for arm in (0, 1))
    assert bits(one[: change * SECOND]) == bits(two[: change * SECOND])


def test_a_job_can_be_overridden_from_any_moment_on(job: Job) -> None:
    whole = play_under(job, OverrideSchedule.of(feed=[*[1.0] * 9, 0.6]), ALUMINIUM, STEP)
    later = overridden(play(job, ALUMINIUM, STEP, steps=3000)[9 * SECOND :], OverrideSchedule.of(feed=0.6), STEP, 1000)
    np.testing.assert_allclose(later.inputs.commands, whole.inputs.commands[450:1450], rtol=1e-9, atol=1e-6)
    np.testing.assert_array_equal(later.inputs.depth, whole.inputs.depth[450:1450])


def test_schedules_that_are_none_are_refused(job: Job) -> None:
    with pytest.raises(MachineError, match="Divide percentages"):
        OverrideSchedule.of(feed=80)
    with pytest.raises(MachineError, match="spindle override goes from nan"):
        OverrideSchedule.of(spindle=[np.nan])
    with pytest.raises(MachineError, match="shape"):
        OverrideSchedule.of(feed=[1.0, 0.5], spindle=[1.0, 1.0, 1.0])
    with pytest.raises(MachineError, match="shape"):
        OverrideSchedule.of(feed=[])
    with pytest.raises(MachineError, match="above 0 s"):
        OverrideSchedule.of(period=0.0)
    with pytest.raises(MachineError, match="do not fit"):
        play_under(job, OverrideSchedule.of(period=0.03), ALUMINIUM, STEP)
    with pytest.raises(MachineError, match="never ends: it is held at line"):
        play_under(job, OverrideSchedule.of(feed=0.0), ALUMINIUM, STEP)
    with pytest.raises(MachineError, match="nothing to override"):
        overridden(play(job, ALUMINIUM, STEP, steps=10)[:0], OverrideSchedule.of(), STEP)
