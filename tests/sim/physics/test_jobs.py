"""Jobs: a program in time, played at any override without losing its path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.programs.parse import parse_program
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import MATERIALS
from crossfeed.sim.physics.jobs import Job, motion_limits, play, play_for, prepare
from crossfeed.sim.physics.production import open_shop

ALUMINIUM = MATERIALS["aluminium"]
TEXT = """G17 G90 G94
T1 M6 (END MILL 10)
G0 X0 Y0 Z5 S8000 M3
G1 Z-2 F600
X60 F1200
Y40
X0
Y0
G0 Z50
M5
M30
"""


@pytest.fixture(scope="module")
def job() -> Job:
    return prepare(parse_program(TEXT, "frame"), motion_limits(machine_named("spinner_620")), {"T1": "END MILL 10"})


def test_a_job_cuts_where_the_path_is_below_the_stock_top(job: Job) -> None:
    engaged = job.engagement.depth > 0
    assert engaged.any()
    assert job.cutting[engaged].all()
    assert (job.position[engaged, 2] < 0).all()
    assert not job.remarks


@settings(max_examples=20)
@given(override=st.floats(0.3, 1.2))
def test_an_override_stretches_the_cut_and_keeps_the_path(override: float, job: Job) -> None:
    step = 0.005
    cutting = job.cutting.sum() / 100
    seconds = job.seconds - cutting + cutting / override
    played = play(job, ALUMINIUM, step, override, int(np.ceil(seconds / step)) + 2)
    travelled = played.inputs.feed.sum(axis=0) / 60 * step
    np.testing.assert_allclose(travelled, job.position[-1] - job.position[0], atol=2.0)
    np.testing.assert_allclose(played.position[-1], job.position[-1], atol=1e-6)
    assert (played.inputs.feed[-1] == 0).all()
    assert played.inputs.spindle_speed[-1] == 0
    fastest = np.abs(played.inputs.feed[played.inputs.depth > 0]).max()
    assert fastest == pytest.approx(1200 * override, rel=0.01)


def test_without_override_the_commands_are_those_of_the_planner(job: Job) -> None:
    played = play(job, ALUMINIUM, 0.01, steps=len(job.feed))
    np.testing.assert_allclose(played.inputs.feed, job.feed, atol=1e-6)
    np.testing.assert_array_equal(played.inputs.spindle_speed, job.spindle_speed)


@pytest.mark.parametrize("factor", [0.4, 0.95, 1.3, 2.2, 5.0])
def test_any_time_is_filled_with_passes_at_overrides_of_30_to_120_percent(job: Job, factor: float) -> None:
    seconds = round(job.seconds * factor)
    played = play_for(job, ALUMINIUM, seconds, 0.02, np.random.default_rng(0))
    assert len(played.inputs) == round(seconds / 0.02)
    assert played.override.min() >= 0.3
    assert played.override.max() <= 1.2
    if factor > 0.9:
        standing = (played.inputs.spindle_speed == 0).mean()
        assert standing < 0.75


def test_a_tool_without_a_known_diameter_is_reported() -> None:
    job = prepare(parse_program(TEXT, "frame"), motion_limits(machine_named("spinner_620")))
    assert job.remarks == ["tool 'T1' does not tell its diameter: 10 mm and 3 teeth are assumed"]


def test_two_shops_with_the_same_limits_share_jobs_that_nobody_may_change() -> None:
    shops = [open_shop(machine_named("spinner_620"), {"PLA_COVER"}) for _ in range(2)]
    assert shops[0].jobs["PLA_COVER"] is shops[1].jobs["PLA_COVER"]
    for values in (shops[0].jobs["PLA_COVER"].feed, shops[0].jobs["PLA_COVER"].engagement.depth):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0
    slower = machine_named("spinner_620").model_copy(
        update={"spindle": machine_named("spinner_620").spindle.model_copy(update={"inertia": 1.0})}
    )
    assert open_shop(slower, {"PLA_COVER"}).jobs["PLA_COVER"].seconds > shops[0].jobs["PLA_COVER"].seconds
