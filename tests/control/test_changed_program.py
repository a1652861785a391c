"""Copies of programs with changed feeds: every feed as wanted, every path as it was, or no copy at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.control.advise import _rewritten, changed_program
from crossfeed.control.score import Decision
from crossfeed.control.timeline import Timeline
from crossfeed.errors import ProgramError
from crossfeed.programs.parse import bundled_programs, parse_program, read_program
from crossfeed.schema import canonical

HELIX = bundled_programs()["contour_helix"]
COURSE = Timeline.of(read_program(HELIX), canonical(), 1.0)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000))
def test_a_point_behind_a_number_is_part_of_the_number(tmp_path_factory, seed):
    """F955. became F987.3. and the line was lost."""
    feed_T = np.where(COURSE.feed_share_T > 0, np.random.default_rng(seed).uniform(0.5, 1.2, len(COURSE)), 1.0)
    copy = tmp_path_factory.mktemp("copy") / "copy.nc"
    made = changed_program(HELIX, copy, COURSE, Decision(feed_T, np.ones(len(COURSE)), ()))
    old, new = read_program(HELIX).moves, read_program(copy).moves
    assert made["changed_lines"] > 0
    assert [move.end for move in old] == [move.end for move in new]
    assert all(0.49 <= b.feed / a.feed <= 1.21 for a, b in zip(old, new) if a.feed)
    assert copy.read_text().count("crossfeed:") == made["changed_lines"]


def test_the_original_is_never_the_copy():
    ones = np.ones(len(COURSE))
    with pytest.raises(ProgramError, match="would replace"):
        changed_program(HELIX, HELIX, COURSE, Decision(ones, ones, ()))


def test_as_written_the_copy_is_the_same_text(tmp_path):
    ones = np.ones(len(COURSE))
    changed_program(HELIX, tmp_path / "copy.nc", COURSE, Decision(ones, ones, ()))
    assert (tmp_path / "copy.nc").read_text() == HELIX.read_text()


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.26, 1.5])
def test_every_factor_is_written_and_only_a_factor_of_one_is_none(factor):
    text = ["G90 G94 S3000 M3", "G1 X10. F100.", "X20."]
    program = parse_program("\n".join(text), "lines")
    lines, changed, left = _rewritten(text, program, {2: factor, 3: factor}, ".nc")
    assert (changed, left) == (int(factor != 1.0), [])
    feeds = [move.feed for move in parse_program("\n".join(lines), "lines").moves]
    assert feeds == pytest.approx([100.0 * factor] * 2)


def copied(lines: list[str], feeds: dict[int, float], tmp_path, ending: str = ".mpf") -> tuple[list[str], dict]:
    """A program whose places in some lines were given another feed: its copy, and what is told of it."""
    original = tmp_path / f"original{ending}"
    original.write_text("\n".join(lines) + "\n")
    timeline = Timeline.of(read_program(original), canonical(), 1.0)
    feed_T = np.array([feeds.get(line, 1.0) for line in timeline.line_T.tolist()])
    copy = tmp_path / f"copy{ending}"
    made = changed_program(original, copy, timeline, Decision(feed_T, np.ones(len(timeline)), ()))
    return copy.read_text().splitlines(), made


def test_feeds_are_written_where_they_begin_to_differ_and_where_they_end(tmp_path):
    lines = ["G90 G94 S3000 M3", "G0 X0 Y0 Z2", "G1 Z-1 F100 ; in", "X100 (along) F=600", "Y40", "X0", "Y0"]
    text, made = copied(lines, {4: 0.8, 6: 0.5}, tmp_path)
    assert text == [
        *lines[:3],
        "X100 (along) F480 ; crossfeed: F=600 -> F480",
        "Y40 F600 ; crossfeed: F600 in force -> F600",
        "X0 F300 ; crossfeed: F600 in force -> F300",
        "Y0 F600 ; crossfeed: F600 in force -> F600",
    ]
    assert made == {"file": "copy.mpf", "changed_lines": 4, "left_lines": []}


@pytest.mark.parametrize(
    ("ending", "note"),
    [(".nc", "(crossfeed: F100 -> F80)"), (".iso", "(crossfeed: F100 -> F80)"), (".mpf", "; crossfeed: F100 -> F80")],
)
def test_a_note_is_a_comment_of_the_control(ending, note, tmp_path):
    text, _ = copied(["G90 G94 S3000 M3", "G0 X0 Z2", "G1 X90 F100"], {3: 0.8}, tmp_path, ending)
    assert text[2] == f"G1 X90 F80 {note}"


def test_a_line_keeps_the_lowest_of_its_feeds_and_a_short_one_goes_on_as_the_one_before(tmp_path):
    lines = ["G90 G94 S3000 M3", "G0 X0 Z2", "G1 X100 F600", "X100.05", "Y100", "M30"]
    original = tmp_path / "original.mpf"
    original.write_text("\n".join(lines) + "\n")
    timeline = Timeline.of(read_program(original), canonical(), 1.0)
    assert 4 not in timeline.line_T
    own = np.flatnonzero(timeline.line_T == 3)
    feed_T = np.ones(len(timeline))
    feed_T[own] = 0.9
    feed_T[own[2]] = 0.7
    changed_program(original, tmp_path / "copy.mpf", timeline, Decision(feed_T, np.ones(len(timeline)), ()))
    assert [move.feed for move in read_program(tmp_path / "copy.mpf").moves if move.feed] == [420.0, 420.0, 600.0]


@pytest.mark.parametrize(("factor", "written"), [(1.004, False), (0.996, False), (1.006, True), (0.994, True)])
def test_a_feed_nearer_than_half_a_per_cent_is_not_worth_a_word(factor, written, tmp_path):
    _, made = copied(["G90 G94 S3000 M3", "G0 X0 Z2", "G1 X90 F1000"], {3: factor}, tmp_path)
    assert made["changed_lines"] == int(written)


def test_feeds_for_each_turn_and_of_cycles_stay_and_are_told(tmp_path):
    lines = ["G90 G94 S3000 M3", "G0 X0 Z2", "G1 X90 F600", "G95 X0 F0.2", "G94 X90 F600", "X0"]
    text, made = copied(lines, {3: 0.8, 4: 0.8, 6: 1.0}, tmp_path)
    assert made["left_lines"] == [4]
    assert text[3] == lines[3]
    assert text[4:] == ["G94 X90 F600", "X0"]


@pytest.mark.parametrize(
    "line",
    [
        "N30 G1 X90 F600 ; F900 (not this one)",
        "N30 G1 X90 F600 (F900)",
        'N30 G1 X90 F600 ; MSG("F900")',
    ],
)
def test_a_word_in_a_comment_is_no_word(line, tmp_path):
    text, _ = copied(["G90 G94 S3000 M3", "G0 X0 Z2", line], {3: 0.5}, tmp_path)
    assert text[2] == line.replace("F600", "F300") + " ; crossfeed: F600 -> F300"


def test_a_feed_above_a_hundred_thousand_is_written_without_its_tenths(tmp_path):
    text, made = copied(["G90 G94 S3000 M3", "G0 X0 Z2", "G1 X900 F200001"], {3: 0.7}, tmp_path)
    assert text[2] == "G1 X900 F140001 ; crossfeed: F200001 -> F140001"
    assert made["changed_lines"] == 1
