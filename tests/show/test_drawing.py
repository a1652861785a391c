"""Drawings: marks on round numbers, everything inside the frame, gaps stay gaps, nothing foreign reaches the page."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.show.drawing import (
    HEIGHT,
    LONGEST_NAME,
    WIDTH,
    PanelDrawer,
    draw,
    panel_drawer,
    shortened,
    without_common_start,
)
from crossfeed.show.figures import XY, Band, Bars, Dot, Dots, Figure, Line, Panel, save_figure

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


def panel_svg(panel: Panel) -> str:
    with panel_drawer() as one:
        return str(one.draw(panel))


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def series(svg: str, name: str) -> str:
    """What is drawn of one series."""
    return "".join(re.findall(rf'<g class="series" data-name="{name}"[^>]*>(.*?)</g>', svg))


def test_whole_numbers_from_0_to_11_were_marked_in_steps_of_two_and_a_half() -> None:
    svg = panel_svg(XY("epochs", "epoch", "loss", (Line("a", list(range(12)), [0.5] * 12),)))
    marked = [text for text in texts(svg) if re.fullmatch(r"[0-9.]+", text)]
    assert {"0", "2", "4", "10"} <= set(marked)
    assert "2.5" not in marked


@settings(max_examples=15, deadline=None)
@given(st.lists(st.one_of(st.none(), NUMBERS), min_size=1, max_size=12))
def test_lines_are_drawn_inside_the_panel_and_gaps_stay_gaps(values: list[float | None]) -> None:
    line = Line("a", list(range(len(values))), values)
    svg = panel_svg(XY("title", "x", "y", (line,), level=(0.0, "zero"), moment=1.0))
    assert "nan" not in svg.lower()
    paths = re.findall(r' d="([^"]*)"', series(svg, "a"))
    for x, y in re.findall(r"[ML] (-?[0-9.]+) (-?[0-9.]+)", " ".join(paths)):
        assert -1 <= float(x) <= WIDTH + 1
        assert -1 <= float(y) <= HEIGHT + 1
    drawn = "".join("x" if value is None else "o" for value in values).split("x")
    assert len(re.findall(r"M [^M]*L", " ".join(paths))) == sum(len(one) > 1 for one in drawn)
    assert series(svg, "a").count("<use") == sum(len(one) == 1 for one in drawn), "a lone point is a dot"


def test_a_common_factor_of_small_numbers_stood_on_the_title() -> None:
    svg = panel_svg(XY("Learning rate", "epoch", "rate", (Line("a", [0, 1, 2], [6e-6, 3e-6, 0.0]),)))
    assert {"2e−06", "4e−06"} <= set(texts(svg))
    assert not any("1e" in text for text in texts(svg))


def test_every_kind_of_mark_is_drawn_in_the_colours_of_the_page() -> None:
    panel = XY(
        "all", "x", "y", (Line("s", [0, 1, 2], [0, 1, 0], 1, "step"), Line("p", [0, 1], [1, 1], 2, "points"),
                          Line("h", [0, 1], [0, 1], 4, "marked")),
        (Band("b", [0, 1], [0, 0], [1, 1], 3, True),), (Bars("t", [0.0, 1.0, 2.0], [0.5, None]),),
    )  # fmt: skip
    svg = panel_svg(panel)
    for name, colour in (("s", 1), ("p", 2), ("h", 4), ("b", 3), ("t", 0)):
        assert f"var(--c{colour})" in series(svg, name), name
    assert series(svg, "p").count("<use") == 2
    assert series(svg, "h").count("<use") == 2
    assert "0 to 1.000: 0.500" in svg, "a bar tells its value"
    assert not re.search(r"#[0-9a-f]{6}", re.sub(r"#[pm][0-9a-f]+", "", svg)), "colours come from the style sheet"
    assert "font-family" not in svg


def test_a_value_beyond_the_limits_is_an_arrow_at_the_edge() -> None:
    dots = (Dot(1.0, 0.5, 9.0), Dot(50.0), Dot(None))
    svg = panel_svg(Dots("t", "x", ("near", "far", "none"), (("s", 0, dots),), limits=(0.0, 4.0)))
    assert "far, s: 50.00" in svg, "the true value is told when one points at it"
    assert "near, s: 1.000 (0.500 to 9.000)" in svg
    assert "none, s" not in svg


def test_names_of_users_are_text_and_never_formulas_or_tags() -> None:
    evil = '<script>alert(1)</script> $x^2$ "quoted" id="s0"'
    for panel in (
        XY(evil, evil, evil, (Line(evil, [0, 1], [0, 1]),), level=(0.5, evil)),
        Dots(evil, evil, (evil, "b"), ((evil, 0, (Dot(1.0), Dot(2.0))),)),
    ):
        svg = panel_svg(panel)
        assert "<script" not in svg
        assert "&lt;script" in svg
        assert any("$" in text for text in texts(svg))
        parser = HTMLParser()
        parser.feed(svg)


def test_a_panel_without_a_single_number_is_still_a_panel() -> None:
    for panel in (XY("t", "x", "y", (Line("a", [], []),)), Dots("t", "x", (), ())):
        assert panel_svg(panel).startswith("<svg")


def test_a_panel_is_the_same_after_another_was_drawn_on_the_same_axes() -> None:
    first = XY("one", "x", "y", (Line("a", [0, 1], [0, 1]),), level=(0.5, "half"), moment=0.5)
    other = XY("two", "seconds", "kW", (Line("b", [0, 9], [-5, 5]),), (Band("c", [0, 9], [-5, 0], [0, 5]),), low=True)
    with panel_drawer() as fresh:
        alone = without_ids(fresh, first)
    with panel_drawer() as used:
        used.draw(other)
        assert without_ids(used, first) == alone


def without_ids(one: PanelDrawer, panel: Panel) -> str:
    return re.sub(r"[pm][0-9a-f]{10}", "", str(one.draw(panel)))


def test_two_drawings_on_a_page_share_no_name() -> None:
    panels = [XY(title, "x", "y", (Line("a", [0, 1], [0, 1], style="marked"),)) for title in ("one", "two")]
    with panel_drawer() as one:
        names = [set(re.findall(r' id="([^"]+)"', str(one.draw(panel)))) for panel in panels]
    assert names[0]
    assert not names[0] & names[1]


def test_equal_panels_are_drawn_once() -> None:
    panel = XY("one", "x", "y", (Line("a", [0, 1], [0, 1]),))
    with panel_drawer() as one:
        first = one.draw(panel)
        assert one.draw(XY("one", "x", "y", (Line("a", [0, 1], [0, 1]),))) is first


def test_a_figure_as_a_file_has_all_panels_and_its_legend(tmp_path: Path) -> None:
    from matplotlib.image import imread

    panels = (
        XY("one", "x", "y", (Line("a", [0, 1], [0, 1], 1),)),
        XY("two", "x", "y", (Line("a", [0, 1], [1, 0], 1),), low=True),
    )
    figure = Figure("f", "caption", panels, (("a $", 1, "line"), ("b", 0, "band"), ("c", 2, "points")))
    save_figure(draw(figure), tmp_path / "f.png")
    pixels = np.asarray(imread(tmp_path / "f.png"))
    assert pixels.shape[1] == 2 * int(2 * WIDTH)
    assert pixels.shape[0] > 2 * HEIGHT
    orange = np.isclose(pixels[..., :3], np.array([213, 94, 0]) / 255.0, atol=0.01).all(-1)
    foot = pixels.shape[0] - 2 * 24
    assert orange[:foot, : int(2 * WIDTH)].any()
    assert orange[:foot, int(2 * WIDTH) :].any()
    assert orange[foot:].any(), "the legend has its key"


@pytest.mark.parametrize(
    ("names", "shown"),
    [(["m/a", "m/b"], ["a", "b"]), (["m/a", "n/b"], ["m/a", "n/b"]), (["m/a"], ["m/a"]), (["a", "b"], ["a", "b"])],
)
def test_a_machine_that_all_runs_share_is_not_repeated(names: list[str], shown: list[str]) -> None:
    assert without_common_start(names) == shown


@given(st.text(max_size=60))
def test_a_long_name_gives_way_in_its_middle(name: str) -> None:
    short = shortened(name, LONGEST_NAME)
    assert len(short) <= LONGEST_NAME
    assert short[:5] == name[:5]
    assert short[-5:] == name[-5:] or len(name) < 5
