"""Sampling: any rate gives the same path, means are exact, bins end where they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ProgramError
from crossfeed.programs.plan import MotionLimits, plan
from crossfeed.programs.trajectory import PATH
from crossfeed.schema import Channel, canonical
from tests.programs.nc import parse
from tests.programs.test_plan import MOVES, NO_WAIT

PART = (
    'T="MILL" M6',
    "G0 X10 Y5 Z2 S8000 M3",
    "G1 Z-1 F500",
    "X40 F1500",
    "G3 X40 Y25 I0 J10",
    "G2 X40 Y25 I0 J5 Z-3 TURN=1",
    "G4 F1.3",
    "G0 Z20",
    "M5",
    "T2 M6",
    "G0 X0 Y0",
)


@pytest.mark.parametrize("how", ["instant", "mean"])
def test_trace_has_one_row_per_bin(how) -> None:
    trajectory = plan(parse(*PART))
    trace = trajectory.sample(50, how)
    assert len(trace) == int(np.ceil(trajectory.duration * 50))
    for values in (trace.spindle_speed, trace.path_feed, trace.cutting, trace.rapid, trace.tool, trace.line):
        assert values.shape == trace.time.shape
    assert trace.feed.shape == trace.position.shape == (len(trace), 3)
    assert np.allclose(trace.time, np.arange(1, len(trace) + 1) / 50)


@settings(max_examples=60)
@given(MOVES, st.floats(0.05, 700))
def test_mean_feeds_add_up_to_the_path_at_any_rate(moves: list[str], rate: float) -> None:
    trajectory = plan(parse("S1000 M3 F900 G1 X1", *moves))
    trace = trajectory.sample(rate, "mean")
    assert np.allclose(np.cumsum(trace.feed, axis=0) / rate / 60.0, trace.position, atol=1e-6)


@settings(max_examples=40)
@given(MOVES)
def test_instant_feeds_are_the_slope_of_the_position(moves: list[str]) -> None:
    trajectory = plan(parse("S1000 M3 F900 G1 X1", *moves))
    fine = trajectory.sample(1000)
    mean = trajectory.sample(1000, "mean")
    # Within one bin the speed changes by at most acceleration / rate, except where a corner turns it.
    close = np.abs(fine.feed[:, 0] - mean.feed[:, 0]) <= 5_000 / 1000 * 60 + 1e-6
    assert close.mean() > 0.9


def test_mean_of_fine_bins_is_the_coarse_bin() -> None:
    trajectory = plan(parse(*PART))
    fine, coarse = trajectory.sample(100, "mean"), trajectory.sample(1, "mean")
    channels = (*canonical().commands, Channel(name=PATH, quantity="feed", unit="m/min"))
    means, padded = coarse.commanded(channels), np.zeros((len(coarse) * 100, len(channels)))
    padded[: len(fine)] = fine.commanded(channels)
    assert np.allclose(padded.reshape(-1, 100, len(channels)).mean(axis=1), means, atol=1e-6)


@pytest.mark.parametrize("how", ["instant", "mean"])
def test_the_feed_along_the_path_is_that_of_all_axes_together(how) -> None:
    trace = plan(parse("S1 M3 F2000", "G1 X10", "G1 Y30", "G3 X0 Y40 I-10 J0")).sample(200, how)
    together = np.linalg.norm(trace.feed, axis=1)
    inside = np.isclose(together, trace.path_feed, rtol=1e-3, atol=0.5)
    assert inside.mean() > 0.95  # a bin with a corner in it goes further along the path than it gets
    assert (trace.path_feed - together).min() > -1e-3 * trace.path_feed.max()
    assert trace.path_feed.max() == pytest.approx(2000.0, rel=1e-3)


def test_axes_rest_where_a_machine_tells_only_its_feed_along_the_path() -> None:
    trace = plan(parse("S1 M3 F2000", "G1 X10 Y30 Z5")).sample(10, "mean")
    known = canonical().commands
    path = Channel(name=PATH, quantity="feed", unit="mm/s")
    rows = trace.commanded((known[0], path, *known[2:]))
    assert np.allclose(rows[:, 1], trace.path_feed / 60.0)
    assert not rows[:, 2:].any()
    assert np.array_equal(trace.commanded((*known, path))[:, :4], trace.commanded(known))


def test_position_visits_the_programmed_ends() -> None:
    program = parse(*PART)
    positions = plan(program).sample(2000).position
    for move in program.moves:
        assert np.linalg.norm(positions - np.array(move.end), axis=1).min() < 0.5


def test_arc_stays_on_its_circle() -> None:
    trace = plan(parse("S1 M3 F2000", "G0 X10", "G3 X10 Y0 I-10 J0"), NO_WAIT).sample(500)
    assert np.allclose(np.linalg.norm(trace.position[trace.cutting][:, :2], axis=1), 10.0)
    assert trace.feed[trace.cutting, 1].min() < -1900 < 1900 < trace.feed[trace.cutting, 1].max()


def test_flags_tools_and_lines() -> None:
    trajectory = plan(parse(*PART), MotionLimits(tool_change=2.0))
    trace = trajectory.sample(200)
    assert trajectory.tools == ("MILL", "T2")
    assert set(trace.line) == {1, 2, 3, 4, 5, 6, 7, 8, 10, 11}
    assert set(trace.tool[trace.line >= 10]) == {1}
    assert not trace.cutting[trace.line == 7].any()
    assert trace.cutting[trace.line == 5].all()
    assert trace.rapid[trace.line == 11].all()
    assert not (trace.cutting & trace.rapid).any()
    assert trace.spindle_speed[trace.line == 7].min() == 8000
    assert trace.spindle_speed[trace.line == 10].max() == 0


def test_reversed_spindle_is_negative() -> None:
    assert plan(parse("G1 X10 S500 M4 F600")).sample(10).spindle_speed.min() == -500


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e12])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(ProgramError):
        plan(parse(*PART)).sample(rate)


def test_unknown_way_of_sampling_is_refused() -> None:
    with pytest.raises(ProgramError, match="'instant' or 'mean'"):
        plan(parse(*PART)).sample(1, "last")


@settings(max_examples=40)
@given(MOVES, st.integers(1, 11))
def test_path_length_is_additive(moves: list[str], cut: int) -> None:
    whole = parse("S1000 M3 F900 G1 X1", *moves)
    first = parse("S1000 M3 F900 G1 X1", *moves[:cut])
    rest = [move for move in whole.moves if move.line > 1 + cut]
    assert sum(move.length for move in whole.moves) == pytest.approx(
        sum(move.length for move in first.moves) + sum(move.length for move in rest)
    )


@settings(max_examples=40)
@given(MOVES, st.data())
def test_numbering_comments_and_spacing_change_nothing(moves: list[str], data: st.DataObject) -> None:
    lines = ["S1000 M3 F900 G1 X1", *moves]
    dressed = []
    for index, line in enumerate(lines):
        text = data.draw(st.sampled_from([line, line.replace(" ", ""), line.replace(" ", "   "), line.lower()]))
        head = data.draw(st.sampled_from(["", f"N{10 * index} ", f"N{10 * index}", "  "]))
        tail = data.draw(st.sampled_from(["", " ; G0 X99", " (to X99)", "\t"]))
        dressed.append(head + text + tail)
    assert parse(*dressed).blocks == parse(*lines).blocks
