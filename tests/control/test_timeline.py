"""Programs in places: knobs change how long a place takes, never where it leads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.control.score import reachable
from crossfeed.control.task import read_task
from crossfeed.control.timeline import Timeline, slewed
from crossfeed.errors import ProgramError, SchemaError
from crossfeed.programs.parse import parse_program
from crossfeed.schema import canonical
from tests.control.conftest import PROGRAM

TASK = read_task(None, {})
COURSE = Timeline.of(parse_program(PROGRAM, "small"), canonical(), 1.0)
FACTORS = st.lists(st.floats(0.5, 1.2), min_size=len(COURSE), max_size=len(COURSE)).map(np.array)


@given(FACTORS)
def test_overrides_keep_the_path(feed_T):
    commands, position = COURSE.commanded(feed_T, np.ones(len(COURSE)))
    assert commands[:, 1:].sum(axis=0) == pytest.approx(COURSE.commands_TA[:, 1:].sum(axis=0), abs=1e-6)
    assert position[-1] == pytest.approx(len(COURSE))
    assert (np.diff(position) > -1e-9).all()


@given(FACTORS)
def test_only_feed_moves_take_another_time(feed_T):
    taken = COURSE.taken(feed_T, np.ones(len(COURSE)))
    share = COURSE.feed_share_T
    assert taken == pytest.approx(1.0 - share + share / feed_T)
    assert (taken[share == 0.0] == 1.0).all()


@given(FACTORS)
def test_no_knob_is_turned_faster_than_allowed(feed_T):
    ones = np.ones(len(COURSE))
    for feed, spindle in (
        slewed(COURSE, feed_T, ones, TASK, (1.0, 1.0)),
        reachable(COURSE, feed_T, ones, TASK, (1.0, 1.0)),
    ):
        lasted = np.append(1.0, COURSE.taken(feed, spindle)[:-1])
        steps = np.abs(np.diff(np.append(1.0, feed)))
        assert (steps <= TASK.slew * lasted + 1e-9).all()


@given(FACTORS)
def test_reachable_knobs_stay_below_the_wanted_ones_after_the_start(feed_T):
    feed, _ = reachable(COURSE, feed_T, np.ones(len(COURSE)), TASK, (0.5, 1.0))
    assert (feed <= feed_T + 1e-9).all()


def test_blocks_and_tools_begin_new_knots():
    by_block = COURSE.knots(read_task(None, {"resolution": "block"}), 4)
    assert ((np.diff(by_block) == 1) == (np.diff(COURSE.line_T) != 0)).all()
    by_second = COURSE.knots(TASK, 4)
    assert np.bincount(by_second).max() <= 4


def test_a_program_that_was_not_understood_is_refused():
    text = PROGRAM.replace("N80 Y6.", "N80 Y=SOMETHING_UNKNOWN")
    with pytest.raises(ProgramError, match="was not understood"):
        Timeline.of(parse_program(text, "strange"), canonical(), 1.0)


def test_a_skipped_subprogram_is_no_known_motion():
    text = PROGRAM.replace("N80 Y6.", "N80 POCKET_OF_MINE(3,4)")
    with pytest.raises(ProgramError, match="not understood"):
        Timeline.of(parse_program(text, "strange"), canonical(), 1.0)


def test_a_move_under_way_goes_on_until_another_begins():
    along = np.flatnonzero((COURSE.commands_TA[:, 1] > 550.0) & COURSE.cutting)  # X60. F600
    later = COURSE.rows(int(along[0]) + 1, len(COURSE))
    now = COURSE.commands_TA[along[0]]
    going = later.under_way(now)
    count = len(along) - 1
    assert going[:count].all()
    assert not going[count + 1 :].any()
    # A knob makes no other move of it; a rapid, another direction, another speed and a standstill do.
    assert (later.under_way(now * [1.0, 1.2, 1.2, 1.2])[:count]).all()
    for factor in (1.0 / 2.4, 2.4):  # from the lowest knob to the highest one
        assert (later.under_way(now * [1.0, factor, factor, factor])[:count]).all()
    for other in (
        now * [1.0, 2.6, 1.0, 1.0],
        now * [1.0, 1.0 / 2.6, 1.0, 1.0],
        now * [1.0, 20.0, 1.0, 1.0],
        now * [1.0, -1.0, 1.0, 1.0],
        now * [0.8, 1.0, 1.0, 1.0],
        0.0 * now,
    ):
        assert not later.under_way(other).any()


@pytest.mark.parametrize("period", [0.5, 1.0, 2.0])
def test_a_log_has_as_many_rows_as_periods_pass(period):
    timeline = Timeline.of(parse_program(PROGRAM, "small"), canonical(), period)
    ones = np.ones(len(timeline))
    commands, position = timeline.commanded(ones, ones)
    assert len(commands) == len(position) == len(timeline)
    assert commands == pytest.approx(timeline.commands_TA, abs=1e-6)


def test_a_model_with_other_commands_than_a_program_tells_is_refused():
    program, schema = parse_program(PROGRAM, "small"), canonical()
    spindle = [channel for channel in schema.commands if channel.name == "spindle_speed"]
    axes = tuple(channel for channel in schema.commands if channel.name != "spindle_speed")
    with pytest.raises(SchemaError, match="without a spindle"):
        Timeline.of(program, schema.model_copy(update={"commands": axes}), 1.0)
    coolant = axes[0].model_copy(update={"name": "coolant"})
    with pytest.raises(SchemaError, match="does not tell the commands coolant"):
        Timeline.of(program, schema.model_copy(update={"commands": (*spindle, coolant)}), 1.0)


def test_a_log_has_a_row_every_second_unless_it_says_otherwise():
    commands = np.array(
        [[0.0, 0.0, 0.0, 0.0], [900.0, 300.0, 400.0, 0.0], [900.0, 12_000.0, 0.0, 0.0], [900.0, 0.5, 0.0, 0.0]]
    )
    logged = Timeline.of_log(canonical(), commands)
    assert (logged.period, logged.seconds) == (1.0, 4.0)
    assert Timeline.of_log(canonical(), commands, 0.5).seconds == 2.0
    assert logged.feed_share_T.tolist() == [0.0, 1.0, 0.0, 0.0], "what is as fast as a rapid is one"
