"""Copies of programs with changed feeds: every feed as wanted, every path as it was, or no copy at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.control.course import Course
from crossfeed.control.decision import Decision
from crossfeed.control.write_program import _rewritten, changed_program
from crossfeed.errors import ProgramError
from crossfeed.programs.bundled import bundled_programs
from crossfeed.programs.parse import parse_program, read_program
from crossfeed.schema import canonical

HELIX = bundled_programs()["contour_helix"]
COURSE = Course.of(read_program(HELIX), canonical(), 1.0)


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
