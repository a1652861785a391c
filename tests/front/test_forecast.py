"""`model.forecast` takes the frames people have, and refuses what would pass silently into a wrong answer."""

from typing import Any

import numpy as np
import pandas
import polars as pl
import pytest

import crossfeed as cf
from crossfeed.errors import CrossfeedError, ForecastError, TableError
from tests.front.conftest import MEASURED, House


def _rows(house: House, first: int, last: int) -> pl.DataFrame:
    rows = house.b.to_polars().filter(session="s0")[first:last]
    return rows.select("session", "time", *MEASURED, *house.b.schema.command_names)


@pytest.fixture
def history(house: House) -> pl.DataFrame:
    return _rows(house, 0, 40)


@pytest.fixture
def plan(house: House) -> pl.DataFrame:
    return _rows(house, 40, 60)


def _refused(house: House, history: Any, plan: Any, match: str, error: type = TableError, **asked: Any) -> None:
    with pytest.raises(error, match=match) as caught:
        house.model.forecast(history, plan, **asked)
    assert isinstance(caught.value, CrossfeedError)
    assert caught.value.expected or caught.value.remedy


def _as_dict(frame: pl.DataFrame) -> dict[str, Any]:
    return {name: frame[name].to_numpy() for name in frame.columns}


@pytest.mark.parametrize("turn", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, pl.DataFrame.lazy, _as_dict])
def test_frames_of_every_make_agree(house: House, history: pl.DataFrame, plan: pl.DataFrame, turn: Any) -> None:
    wanted = house.model.forecast(history, plan)
    found = house.model.forecast(turn(history), turn(plan))
    np.testing.assert_array_equal(found.mean, wanted.mean)


def test_a_table_at_a_moment_says_the_same_as_its_rows(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    rows = house.model.forecast(history, plan)
    table = house.model.forecast(house.b, "table", session="s0", at=39.0)
    file = house.model.forecast(house.folder / "b.parquet", "table", session="s0", at=39.0)
    np.testing.assert_array_equal(table.mean, rows.mean)
    np.testing.assert_array_equal(file.mean, rows.mean)
    assert table.shown is not None
    assert table.shown.truth is not None
    assert "session s0 from 39 s on" in repr(table).splitlines()[0], "a forecast did not say where it begins"


def test_it_says_what_the_network_says(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    found = house.model.forecast(history, plan, [1, 16])
    wanted = house.model.network.forecast(history, plan, (1, 16))
    np.testing.assert_array_equal(found.mean, wanted.mean)
    assert found.horizons == (1, 16)
    assert found.measured == tuple(name for name in house.b.schema.sensor_names if name in MEASURED)


def test_units_in_brackets_are_converted(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    watts = history.with_columns((pl.col("spindle_power") * 1000).alias("spindle_power [W]")).drop("spindle_power")
    seconds = plan.with_columns((pl.col("feed_x") / 60).alias("feed_x [mm/s]")).drop("feed_x")
    wanted, found = house.model.forecast(history, plan), house.model.forecast(watts, seconds)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-4, atol=1e-4)


def test_rows_with_time_stamps_are_understood(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    wanted = house.model.forecast(history, plan)
    stamped = history.to_pandas()
    stamped.index = pandas.to_datetime(stamped.pop("time"), unit="s", origin="2026-01-01")
    np.testing.assert_array_equal(house.model.forecast(stamped, plan.drop("time")).mean, wanted.mean)


def test_a_history_without_time(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history.drop("time"), plan, "no column 'time'")


def test_a_time_that_is_missing_in_a_row(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    broken = history.with_columns(pl.when(pl.col("time") == 7.0).then(None).otherwise(pl.col("time")).alias("time"))
    _refused(house, broken, plan, "no time in row 7")


def test_a_time_that_is_text(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history.with_columns(pl.lit("noon").alias("time")), plan, "'time' of the history holds String")


def test_rows_of_two_sessions(house: House, plan: pl.DataFrame) -> None:
    rows = house.b.to_polars().filter(pl.col("session").is_in(["s0", "s1"]))
    _refused(house, rows, plan, "holds 2 runs|holds 2 sessions")


def test_rows_of_another_period(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history.with_columns(pl.col("time") * 0.5), plan, "a row every 0.5 s")


def test_a_gap_before_now(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    gap = history.with_columns(pl.when(pl.col("time") > 20.0).then(pl.col("time") + 9.0).otherwise(pl.col("time")))
    _refused(house, gap, plan.drop("time"), "after the last gap")


def test_a_gap_long_ago_does_no_harm(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    gap = history.with_columns(pl.when(pl.col("time") < 5.0).then(pl.col("time") - 9.0).otherwise(pl.col("time")))
    np.testing.assert_array_equal(house.model.forecast(gap, plan).mean, house.model.forecast(history, plan).mean)


def test_rows_out_of_order(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history.reverse(), plan, "goes back from row 1")


def test_a_row_twice(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, pl.concat([history, history[-1:]]), plan, "stands still from row 40")


def test_a_history_that_is_too_short(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history[-31:], plan, "has 31 rows")


def test_horizons_that_were_not_trained(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history, plan, "not trained for 3 rows", ForecastError, horizons=[1, 3])
    _refused(house, history, plan, "no horizon", ForecastError, horizons=[])


def test_a_plan_that_is_too_short(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history, plan[:9], "has 9 rows", ForecastError)
    assert house.model.forecast(history, plan[:9], [1, 2, 4, 8]).mean.shape[0] == 4


def test_a_plan_of_another_time(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history, plan.with_columns(pl.col("time") + 5.0), "begins at 46 s, but the history ends at 40 s")


def test_a_plan_may_count_from_its_own_beginning(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    wanted = house.model.forecast(history, plan).mean
    for start in (41.0, 40.0):
        own = plan.with_columns(pl.col("time") - start)
        np.testing.assert_array_equal(house.model.forecast(history, own).mean, wanted)


def test_a_plan_of_another_period(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history, plan.with_columns((pl.col("time") - 41.0) * 2.0), "rows every 2 s")


def test_a_plan_of_two_sessions(house: House, history: pl.DataFrame) -> None:
    two = house.b.to_polars().filter(pl.col("session").is_in(["s0", "s1"])).drop("time")
    _refused(house, history, two, "plan holds 2 sessions")


def test_unknown_columns(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history.rename({"spindle_power": "spindel_power"}), plan, "unknown column 'spindel_power'")
    _refused(house, history, plan.with_columns(feet_x=1.0), "unknown column 'feet_x'")


def test_a_command_without_a_number(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    hole = pl.when(pl.col("time") == 38.0).then(float("nan")).otherwise(pl.col("feed_x")).alias("feed_x")
    _refused(house, history.with_columns(hole), plan, "lacks values of feed_x")
    hole = pl.when(pl.col("time") == 45.0).then(None).otherwise(pl.col("feed_x")).alias("feed_x")
    _refused(house, history, plan.with_columns(hole), "lacks feed_x in row 5")


def test_infinite_readings(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, history.with_columns(spindle_power=float("inf")), plan, "infinite")


def test_a_sensor_that_is_nan_is_absent(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    without = house.model.forecast(history.drop("z_current"), plan)
    empty = house.model.forecast(history.with_columns(z_current=float("nan")), plan)
    np.testing.assert_array_equal(empty.mean, without.mean)
    assert "z_current" not in empty.measured


def test_what_is_no_frame(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    _refused(house, 7, plan, "int is no history")
    _refused(house, history, 7, "int is no plan")


def test_intervals_frames_and_pictures(house: House, history: pl.DataFrame, plan: pl.DataFrame) -> None:
    forecast = house.model.forecast(history, plan)
    low, high = forecast.interval(0.9)
    assert (low < forecast.median).all()
    assert (forecast.median < high).all()
    np.testing.assert_array_equal(high, forecast.quantile(0.95))
    frame = forecast.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.equals(forecast.to_polars().to_pandas())
    power = frame[(frame.sensor == "spindle_power") & (frame.horizon == 16)].iloc[0]
    assert (power.unit, power.seconds) == ("kW", 16.0)
    title = house.model.forecast(house.b, "table", session="s0", at=39.0).plot().texts[0]
    assert title.get_text().endswith("session s0 from 39 s on"), "a figure did not say of what it is"
    assert len(forecast.plot("spindle_power").axes) == 1 + 2, "a name was taken for thirteen sensors of a letter each"
    figure = forecast.plot()
    assert [axes.get_title(loc="left") for axes in figure.axes][:-2] == [
        f"{name.replace('_', ' ')} in {forecast.units[forecast.sensors.index(name)]}" for name in forecast.measured
    ]
    assert "spindle_power" in repr(forecast)
    assert "<table>" in forecast._repr_html_()
    with pytest.raises(CrossfeedError, match="does not show 'x_torque'"):
        forecast.plot(["x_torque"])


def test_a_model_survives_its_file(house: House, history: pl.DataFrame, plan: pl.DataFrame, tmp_path: Any) -> None:
    wanted = house.model.forecast(history, plan).mean
    for path in (house.model.save(tmp_path / "kept"), house.model.save(tmp_path / "one.safetensors")):
        np.testing.assert_array_equal(cf.load(path).forecast(history, plan).mean, wanted)
    np.testing.assert_array_equal(cf.load(tmp_path / "kept").forecast(history, plan).mean, wanted)
    assert house.model.inspect()["provenance"]["machines"] == ["mill_a"]
    assert "mill_a" in repr(house.model)
    assert "mill_a" in house.model._repr_html_()


def test_a_model_asked_for_by_a_list_is_refused_in_words() -> None:
    with pytest.raises(CrossfeedError, match="asked for by a list"):
        cf.load(["run"])  # type: ignore[arg-type]


def test_a_figure_shows_the_plan_that_the_forecast_is_made_under(
    house: House, history: pl.DataFrame, plan: pl.DataFrame
) -> None:
    forecast = house.model.forecast(history, plan)
    speed = next(one for one in forecast.shown.commands if one.label.startswith("spindle speed"))
    np.testing.assert_allclose(speed.past, history["spindle_speed"])
    np.testing.assert_allclose(speed.planned, plan["spindle_speed"][: max(forecast.horizons)])
    figure = forecast.plot(forecast.measured[:1])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [title for title in titles if title.endswith(", as planned")] == titles[1:]
    assert "path feed in mm/min, as planned" in titles


def test_a_history_without_a_command_was_forecast_without_a_word(
    house: House, history: pl.DataFrame, plan: pl.DataFrame
) -> None:
    assert "warning" not in repr(house.model.forecast(history.with_columns(machine=pl.lit("mill_a")), plan))
    told = repr(house.model.forecast(history.drop("feed_x"), plan))
    assert "warning: the history has no feed_x; it is taken as 0 throughout" in told
    assert "feed_y" not in repr(house.model.forecast(history.drop("feed_y"), plan)), "it stood still in training too"
