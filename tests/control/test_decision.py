"""Act where it is surely better and safe; leave alone and say why everywhere else."""

from dataclasses import replace

import numpy as np
import pytest

from crossfeed.control.outlook import Outlook
from crossfeed.control.planner import PlannerConfig, plan_ahead, plan_whole
from crossfeed.control.score import Score
from crossfeed.control.task import read_task
from crossfeed.schema import canonical
from tests.control.conftest import known_outlook


def decided(course, law, torque, limit, **changes):
    task = read_task(None, {"limits": [f"spindle_torque<={limit}"], **changes})
    outlook = known_outlook(course, torque)
    decision, _ = plan_whole(outlook, law, task, task.limits_of(canonical()), canonical(), PlannerConfig())
    return decision, Score(outlook, law, task, task.limits_of(canonical()), canonical())


def test_far_from_the_limit_it_goes_as_fast_as_allowed(course, law):
    decision, _ = decided(course, law, torque=2.0, limit=40)
    assert decision.acts
    assert decision.feed_T[course.cutting].max() == pytest.approx(1.2, abs=0.01)


def test_no_choice_brings_a_limit_into_danger(course, law):
    decision, score = decided(course, law, torque=9.0, limit=10)
    assert score.passed(decision.feed_T, decision.spindle_T).max() <= 0.0
    assert 1.0 < decision.feed_T.max() < 1.12


def test_where_the_program_itself_is_in_danger_it_slows_down(course, law):
    decision, score = decided(course, law, torque=11.0, limit=10)
    assert any(choice.verdict == "slower" for choice in decision.choices)
    before = score.passed(np.ones(len(course)), np.ones(len(course))).sum()
    assert score.passed(decision.feed_T, decision.spindle_T).sum() < 0.5 * before


def test_slowing_down_that_does_not_keep_the_limit_is_left(course, law):
    """A finishing program lost time at a peak that was passed all the same."""
    decision, _ = decided(course, law, torque=30.0, limit=10)
    assert not decision.acts
    assert any("slower would not keep it" in choice.why for choice in decision.choices)


def test_nobody_slows_down_for_a_mere_possibility(course, law):
    """A finishing program became twice as long because the 95 % quantile of its forecast lay above a tight limit."""
    task = read_task(None, {"limits": ["spindle_torque<=10"]})
    outlook = known_outlook(course, 9.5)
    wide = np.random.default_rng(2).standard_normal(outlook.paths["spindle_torque"].shape)
    outlook = Outlook.sampled(course, {**outlook.paths, "spindle_torque": 7.0 + 4.0 * wide})
    decision, _ = plan_whole(outlook, law, task, task.limits_of(canonical()), canonical(), PlannerConfig())
    assert course.taken(decision.feed_T, decision.spindle_T).sum() <= course.seconds + 1e-9


def test_an_unsure_gain_leaves_the_program_alone(course, law):
    """Energy alone counts, and the forecast does not know its sign."""
    task = read_task(None, {"objective": {"minimise": "energy", "within": "1000 s"}, "limits": ["spindle_torque<=40"]})
    outlook = known_outlook(course, 2.0, samples=60)
    noise = np.random.default_rng(0).standard_normal(outlook.paths["spindle_power"].shape)
    outlook = replace(outlook, paths={**outlook.paths, "spindle_power": 30.0 * noise})
    decision, _ = plan_whole(outlook, law, task, task.limits_of(canonical()), canonical(), PlannerConfig())
    unsure = [choice for choice in decision.choices if choice.why.startswith("the gain is not sure")]
    assert unsure
    for choice in unsure:
        assert choice.gain.low <= 0.0


def test_members_that_disagree_are_not_believed(course, law):
    task = read_task(None, {"limits": ["spindle_torque<=40"]})
    outlook = replace(known_outlook(course, 2.0), doubt_T=np.full(len(course), 9.0))
    decision, _ = plan_whole(outlook, law, task, task.limits_of(canonical()), canonical(), PlannerConfig())
    assert not decision.acts
    assert (decision.feed_T == 1.0).all()


def test_a_tool_to_be_left_alone_is_left_alone(course, law):
    decision, _ = decided(course, law, 2.0, 40, leave=["SCHAFT_D12_N_AP30"])
    assert (decision.feed_T == 1.0).all()


def test_mppi_and_icem_agree_on_an_easy_stretch(course, law):
    task = read_task(None, {"limits": ["spindle_torque<=40"]})
    outlook = known_outlook(course, 2.0)
    totals = []
    for method in ("icem", "mppi"):
        config = PlannerConfig.model_validate({"search": {"method": method, "seconds": 1e6}})
        planned = plan_ahead(outlook, law, task, task.limits_of(canonical()), canonical(), config)
        totals.append(course.taken(planned.decision.feed_T, planned.decision.spindle_T).sum())
    assert totals[0] == pytest.approx(totals[1], rel=0.02)


def test_a_spindle_that_was_sped_up_in_the_cut_passed_the_limit(course, law):
    """What it takes to turn faster came on top of the cut; below a limit the spindle is left alone."""
    free = {"spindle": {"min": "90 %", "max": "110 %"}}
    decision, _ = decided(course, law, 2.0, 40, **free)
    assert (decision.spindle_T == 1.0).all()
    assert decision.acts
    task = read_task(None, {**free, "feed": {"min": 1.0, "max": 1.0}})
    unlimited, _ = plan_whole(known_outlook(course, 2.0), law, task, (), canonical(), PlannerConfig())
    assert np.ptp(unlimited.spindle_T) > 0.0


def test_an_entry_was_not_slowed_down_because_the_second_before_it_was_in_danger_anyway(course, law):
    """A spindle still running up beside the entry counted against a slower plan, which did not touch it."""
    task = read_task(None, {"limits": ["spindle_torque<=10"]})
    outlook = known_outlook(course, 8.0)
    place = int(np.flatnonzero(course.cutting)[2])
    middle, high = outlook.middle["spindle_torque"].copy(), outlook.high["spindle_torque"].copy()
    high[place - 1], middle[place], high[place] = 80.0, 10.4, 10.8
    outlook = replace(outlook, middle={"spindle_torque": middle}, high={"spindle_torque": high})
    decision, _ = plan_whole(outlook, law, task, task.limits_of(canonical()), canonical(), PlannerConfig())
    assert decision.feed_T[place] < 1.0


def test_seconds_beside_a_place_in_danger_are_not_made_faster(course, law):
    """Single seconds went to 110 % in between places of which a limit may be passed as written."""
    task = read_task(None, {"limits": ["spindle_torque<=10"]})
    outlook = known_outlook(course, 3.0)
    high = outlook.high["spindle_torque"].copy()
    high[np.flatnonzero(course.cutting)[::4]] = 30.0
    outlook = replace(outlook, high={"spindle_torque": high})
    decision, _ = plan_whole(outlook, law, task, task.limits_of(canonical()), canonical(), PlannerConfig())
    for choice in decision.choices:
        inside = slice(choice.first, choice.last + 1)
        if (high[inside] > 10.0)[course.cutting[inside]].any():
            assert choice.verdict == "as written"
