"""The stock model: what is cut once is gone, and the chip cross-section is depth times width."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from crossfeed.sim.physics.cutting import _MOST_CELLS, Engagement, _Block, engage, tool_named
from crossfeed.sim.physics.parameters import Floats

TOOL = tool_named("SCHAFT_D10_N_AP30")


def line(start: tuple[float, float, float], end: tuple[float, float, float], spacing: float = 0.3) -> Floats:
    """A straight feed move, sampled."""
    length = float(np.linalg.norm(np.subtract(end, start)))
    share = np.linspace(0, 1, int(length / spacing) + 1)[:, None]
    path: Floats = np.array(start) + share * (np.array(end) - np.array(start))
    return path


def mill(*paths: Floats, cutting: bool = True) -> Engagement:
    """Mill paths out of a block of 80 x 60 mm, with a rapid sample between them."""
    away = np.array([[0.0, 0.0, 50.0]])
    corners = (np.array([[0.0, 0.0, -1e-4]]), np.array([[80.0, 60.0, -1e-4]]))
    pieces = [piece for path in (*corners, *paths) for piece in (away, path)]
    feed = np.concatenate([np.full(len(piece), cutting and piece is not away) for piece in pieces])
    position = np.concatenate(pieces)
    met = engage(position, feed, np.zeros(len(position), dtype=np.intp), [TOOL], stock_top=0.0)
    return Engagement(met.depth[4:][feed[4:]], met.width[4:][feed[4:]])


def middle(engagement: Engagement, path: Floats) -> tuple[float, float]:
    """Median depth and width over the last path, where the tool is fully inside."""
    inner = slice(-len(path) + len(path) // 3, -len(path) // 3)
    return float(np.median(engagement.depth[inner])), float(np.median(engagement.width[inner]))


def test_a_slot_is_as_deep_as_programmed_and_as_wide_as_the_tool() -> None:
    slot = line((0, 30, -3), (80, 30, -3))
    depth, width = middle(mill(slot), slot)
    assert depth == pytest.approx(3.0, rel=0.1)
    assert width == pytest.approx(10.0, rel=0.1)


def test_a_second_pass_meets_only_its_step_over() -> None:
    first, second = line((0, 30, -2), (80, 30, -2)), line((0, 34, -2), (80, 34, -2))
    depth, width = middle(mill(first, second), second)
    assert depth * width == pytest.approx(2.0 * 4.0, rel=0.2)


def test_the_same_path_again_cuts_air() -> None:
    slot = line((0, 30, -3), (80, 30, -3))
    engagement = mill(slot, slot)
    assert engagement.depth[-len(slot) // 2 :].max() == 0.0


def test_the_next_layer_meets_only_its_own_depth() -> None:
    first, second = line((0, 30, -2), (80, 30, -2)), line((0, 30, -5), (80, 30, -5))
    depth, width = middle(mill(first, second), second)
    assert depth == pytest.approx(3.0, rel=0.1)
    assert width == pytest.approx(10.0, rel=0.15)


def test_a_plunge_cuts_the_area_of_its_hole() -> None:
    plunge = line((40, 30, -0.1), (40, 30, -12))
    depth, width = middle(mill(plunge), plunge)
    assert depth * width == pytest.approx(np.pi * 10**2 / 4, rel=0.12)


def test_rapid_moves_and_moves_above_the_stock_meet_nothing() -> None:
    slot = line((0, 30, -3), (80, 30, -3))
    assert mill(slot, cutting=False).depth.sum() == 0.0
    assert mill(line((0, 30, 2), (80, 30, 2))).depth.sum() == 0.0


def test_the_tool_enters_and_leaves_the_block() -> None:
    slot = line((-20, 30, -3), (100, 30, -3))
    engagement = mill(slot)
    section = engagement.depth * engagement.width
    inside = np.flatnonzero(section > 0)
    first, last = slot[inside[0], 0], slot[inside[-1], 0]
    # The path spans the block, so the block begins where the path does; it ends at the farthest corner.
    assert first == pytest.approx(-20, abs=3)
    assert last == pytest.approx(100, abs=3)
    assert np.median(section) == pytest.approx(30.0, rel=0.15)


def test_the_volume_that_is_cut_is_the_volume_that_is_missing() -> None:
    slot = line((0, 30, -3), (80, 30, -3), spacing=0.1)
    engagement = mill(slot)
    section = engagement.depth * engagement.width
    removed = float(section.mean()) * 80.0
    assert removed == pytest.approx(3.0 * (10.0 * 80.0), rel=0.06)


def test_a_face_mill_that_runs_off_the_stock_enters_it_gradually() -> None:
    face = tool_named("PLAN_D50_N_AP4")
    corners = [(-40, 0, -1), (140, 0, -1), (140, 40, -1), (-40, 40, -1), (-40, 80, -1), (140, 80, -1)]
    path = np.concatenate([line(start, end) for start, end in pairwise(corners)])
    kinds = np.zeros(len(path), dtype=np.intp)
    met = engage(path, np.full(len(path), True), kinds, [face], stock_top=0.0)
    section = met.depth * met.width
    assert section[0] < 0.1
    assert 20.0 < section.max() < 1.3 * 50.0


@pytest.mark.parametrize(
    ("name", "note", "diameter", "teeth", "assumed"),
    [
        ("SCHAFT_D8_N_AP20", "", 8.0, 3, False),
        ("BOHRER_D3.3_VHM", "", 3.3, 2, False),
        ("PLAN_D50_N_AP4", "", 50.0, 6, False),
        ("ENTFRAESER_D8_90GRAD", "", 8.0, 4, False),
        ("T3", "END MILL 12", 12.0, 3, False),
        ("T2", "BALL END MILL 6", 6.0, 2, False),
        ("T4", "", 10.0, 3, True),
        ("T5", "DRILL", 10.0, 2, True),
    ],
)
def test_tools_are_read_from_their_names(name: str, note: str, diameter: float, teeth: int, assumed: bool) -> None:
    tool = tool_named(name, note)
    assert (tool.diameter, tool.teeth, tool.assumed) == (diameter, teeth, assumed)
    assert 0 < tool.deepest <= 1.5 * diameter


def test_a_large_part_gets_coarser_cells_and_a_small_one_does_not() -> None:
    large, small = (_Block(np.zeros(2), np.array([side, 3000.0]), 0.0, 0.5) for side in (8000.0, 2.0))
    assert large.heights.size == pytest.approx(_MOST_CELLS, rel=0.01)
    assert (small.cell, small.heights.shape) == (0.5, (5, 6001))


def test_a_tool_beside_the_block_removes_nothing() -> None:
    block = _Block(np.zeros(2), np.array([80.0, 60.0]), 0.0, 0.5)
    before = block.heights.copy()
    for x, y in ((-200.0, 30.0), (280.0, 30.0), (40.0, -200.0), (40.0, 260.0)):
        assert block.remove(x, y, -3.0, 5.0) == (0.0, 0)
    assert np.array_equal(block.heights, before)


def test_a_face_mill_meets_the_same_stock_wherever_the_part_lies() -> None:
    """A single pass: the block is as wide as the path, and no corner of it lies beside the path."""
    face, path = replace(TOOL, diameter=50.0), line((0, 0, -1), (120, 0, -1))
    told = []
    for shift in ((0.0, 0.0, 0.0), (300.0, -700.0, 0.0), (-800.0, 450.0, 0.0)):
        met = engage(path + shift, np.full(len(path), True), np.zeros(len(path), dtype=np.intp), [face], stock_top=0.0)
        told.append(np.column_stack([met.depth, met.width]))
    assert told[0].max() > 0.0
    for moved in told[1:]:
        np.testing.assert_allclose(moved, told[0], rtol=0.05, atol=0.05)
