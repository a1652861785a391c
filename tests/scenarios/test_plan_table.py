"""A plain file is read as the thorough reader reads it; everything else is left to that reader."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import LogError, SchemaError, TableError
from crossfeed.scenarios.history import History, read_history
from crossfeed.scenarios.plan import read_plans
from crossfeed.scenarios.plan_table import _converted, columns_of_file, plan_columns
from tests.evaluation.small_machine import SCHEMA
from tests.scenarios.conftest import Place

PLAN = {"time": [1.0, 2.0, 3.0], "spindle_speed": [0.0, 1000.0, 3000.0], "feed_x": [0.0, 200.0, 800.0]}
NUMBERS = st.one_of(
    st.integers(-(10**9), 10**9).map(str),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:.6f}"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
)


@pytest.fixture
def history(place: Place) -> History:
    return read_history(place.table, place.opened.model, at=30.0)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    frame = pl.DataFrame({name: PLAN[name] for name in ("feed_x", "time", "spindle_speed")})
    frame.write_csv(tmp_path / "plan.csv")
    frame.write_parquet(tmp_path / "plan.parquet")
    for name in ("plan.csv", "plan.parquet"):
        commands = plan_columns(columns_of_file(tmp_path / name), SCHEMA, 1.0, name)
        np.testing.assert_array_equal(commands, np.stack([PLAN["spindle_speed"], PLAN["feed_x"]], 1))


def test_declared_units_are_converted() -> None:
    columns = {"time [ms]": [500, 1500], "spindle_speed [deg/s]": [6000.0, 0.0], "feed_x [m/min]": [0.2, 0.8]}
    commands = plan_columns(columns, SCHEMA, 1.0, "plan")
    np.testing.assert_allclose(commands, [[1000.0, 200.0], [0.0, 800.0]])
    with pytest.raises(SchemaError, match="'kW' cannot be turned into 'mm/min'"):
        plan_columns({"spindle_speed": [1.0], "feed_x [kW]": [1.0]}, SCHEMA, 1.0, "plan")


@given(factor=st.floats(0.1, 100.0), rows=st.integers(1, 30))
def test_a_plan_means_the_same_in_every_unit(factor: float, rows: int) -> None:
    feeds = np.linspace(1.0, factor, rows)
    here = plan_columns({"spindle_speed": feeds, "feed_x": feeds}, SCHEMA, 1.0, "plan")
    there = plan_columns({"spindle_speed [1/min]": feeds, "feed_x [mm/s]": feeds / 60.0}, SCHEMA, 1.0, "plan")
    np.testing.assert_allclose(here, there, rtol=1e-12)


def test_what_a_log_or_a_planned_program_holds_besides_is_ignored() -> None:
    besides = {
        "machine": ["m"] * 3,
        "current": [1.0] * 3,
        "current__std": [0.1] * 3,
        "cutting": [0] * 3,
        "line": [1] * 3,
    }
    assert plan_columns(PLAN | besides, SCHEMA, 1.0, "plan").shape == (3, 2)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"spindle_speed": [1.0]}, "lacks the commands feed_x"),
        (PLAN | {"feedx": [1.0] * 3}, "unknown column 'feedx'.*Call it 'feed_x'"),
        (PLAN | {"colour": [1.0] * 3}, "unknown column 'colour'"),
        (PLAN | {"feed_x [mm/s]": [1.0] * 3}, "the columns 'feed_x' and 'feed_x \\[mm/s\\]'"),
        (PLAN | {"feed_x": [1.0, None, 3.0]}, r"lacks feed_x in row 2 \(2 s\)"),
        (PLAN | {"feed_x": [1.0, float("inf"), 3.0]}, "lacks feed_x in row 2"),
        (PLAN | {"feed_x": ["fast", "slow", "fast"]}, "holds something that is no number"),
        (PLAN | {"feed_x": [1.0]}, "have 1 and 3 rows"),
        ({"spindle_speed": [], "feed_x": []}, "have 0 rows"),
        (PLAN | {"time": [0.1, 0.2, 0.3]}, "rows every 0.1 s.*rows every 1 s, the period"),
        (PLAN | {"time": [1.0, 2.0, 4.0]}, "from 2 s in row 2 to 4 s in the next"),
        (PLAN | {"time": [3.0, 2.0, 1.0]}, "rows every -1 s"),
        (PLAN | {"time": [1.0, None, 3.0]}, "no time in row 2"),
        (PLAN | {"feed_x": [[1.0], [1.0], [1.0]]}, "has 2 dimensions"),
    ],
)
def test_a_bad_plan_is_refused_with_its_column_and_row(columns: dict[str, list[float]], said: str) -> None:
    with pytest.raises(TableError) as found:
        plan_columns(columns, SCHEMA, 1.0, "plan")
    import re

    assert re.search(said, str(found.value), re.DOTALL)


def test_files_that_hold_no_plan_are_refused(history: History, tmp_path: Path) -> None:
    two = pl.DataFrame(PLAN | {"session": ["a", "a", "b"]})
    two.write_parquet(tmp_path / "two.parquet")
    with pytest.raises(TableError, match="holds 2 sessions"):
        read_plans([tmp_path / "two.parquet"], history)
    with pytest.raises(TableError, match="There is no plan"):
        read_plans([tmp_path / "nowhere.csv"], history)
    broken = write(tmp_path / "broken.parquet", "no parquet")
    with pytest.raises(TableError, match="cannot be read"):
        read_plans([broken], history)
    with pytest.raises(LogError, match="is empty"):
        read_plans([write(tmp_path / "empty.csv", "")], history)


def test_frames_mappings_and_arrays_are_plans_too(history: History) -> None:
    array = np.stack([PLAN["spindle_speed"], PLAN["feed_x"]], 1)
    plans = read_plans({"frame": pl.DataFrame(PLAN), "mapping": PLAN, "array": array}, history)
    assert [plan.name for plan in plans] == ["frame", "mapping", "array"]
    for plan in plans:
        np.testing.assert_array_equal(plan.commands, array)
    with pytest.raises(TableError, match=r"\(rows, 2\), columns spindle_speed, feed_x"):
        read_plans([np.zeros((3, 5))], history)
    with pytest.raises(TableError, match="No plan was given"):
        read_plans([], history)


def test_names_stay_apart_and_plans_can_be_shortened(history: History, tmp_path: Path) -> None:
    pl.DataFrame(PLAN).write_csv(tmp_path / "plan.csv")
    plans = read_plans([tmp_path / "plan.csv", tmp_path / "plan.csv", "table"], history, seconds=2.0)
    assert [(plan.name, len(plan)) for plan in plans] == [("plan.csv", 2), ("plan.csv (2)", 2), ("table", 2)]
    assert plans[2].truth is not None
    np.testing.assert_array_equal(plans[2].truth, history.following_sensors[:2])
    with pytest.raises(TableError, match="has no row"):
        read_plans(["table"], history, seconds=0.2)


def test_the_end_of_a_session_is_followed_by_nothing(place: Place) -> None:
    with pytest.raises(TableError, match="No commands follow session 'session5' of mill at 59 s"):
        read_plans(["table"], read_history(place.table, place.opened.model))


def test_a_german_plan_file_showed_the_words_of_the_library(tmp_path: Path) -> None:
    path = write(tmp_path / "plan.csv", "sep=;\ntime;spindle_speed;feed_x\n1,0;1.234,5;10,5\n2,0;2.000;20\n")
    commands = plan_columns(columns_of_file(path), SCHEMA, 1.0, "plan")
    np.testing.assert_allclose(commands, [[1234.5, 10.5], [2000.0, 20.0]])
    damaged = write(tmp_path / "plan.csv", 'time;spindle_speed;feed_x\n1,0;"12;3\n')
    with pytest.raises(LogError, match="opens in line 2"):
        columns_of_file(damaged)


def test_a_frame_was_called_the_plan_plan() -> None:
    for columns in ({**PLAN, "nose": PLAN["feed_x"]}, {**PLAN, "feed_x": [float("nan")] * len(PLAN["feed_x"])}):
        with pytest.raises(TableError, match=r"The plan (has the unknown|lacks feed_x)"):
            plan_columns(columns, SCHEMA, 1.0, "plan")


def test_a_row_may_be_early_or_late_by_a_hundredth_of_a_period() -> None:
    for off, refused in ((0.009, False), (0.011, True), (-0.009, False), (-0.011, True)):
        columns = {**PLAN, "time": [1.0, 2.0, 3.0 + off]}
        if refused:
            with pytest.raises(TableError, match="from 2 s in row 2 to"):
                plan_columns(columns, SCHEMA, 1.0, "plan")
        else:
            assert len(plan_columns(columns, SCHEMA, 1.0, "plan")) == 3
    with pytest.raises(TableError, match=r"has rows every 0\.5 s(.|\n)*--rate 4"):
        plan_columns({**PLAN, "time": [1.0, 1.5, 2.004]}, SCHEMA, 0.25, "plan")
    with pytest.raises(TableError, match=r"lacks spindle_speed in row 3 \(0\.75 s\), one of 2 entries"):
        plan_columns({"spindle_speed": [1.0, 2.0, np.nan], "feed_x": [1.0, 2.0, np.inf]}, SCHEMA, 0.25, "plan")


def test_units_with_an_offset_are_converted_with_it() -> None:
    assert _converted(np.array([293.15, 300.0]), "K", "degC") == pytest.approx([20.0, 26.85])


def test_an_at_sign_in_the_name_of_a_folder_asks_for_no_overrides(history: History, tmp_path: Path) -> None:
    (tmp_path / "shop@home").mkdir()
    frame = pl.DataFrame(PLAN)
    frame.write_csv(tmp_path / "shop@home" / "plan.csv")
    (plan,) = read_plans([tmp_path / "shop@home" / "plan.csv"], history)
    assert plan.name == "plan.csv"
    np.testing.assert_array_equal(plan.commands, np.stack([PLAN["spindle_speed"], PLAN["feed_x"]], 1))
