"""Tables from the frames people have in memory: by a mapping, or by columns called like channels."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from crossfeed.errors import CrossfeedError, SchemaError, TableError
from crossfeed.logs.frames import read_header
from crossfeed.logs.mapping import Mapping
from crossfeed.logs.table import Table
from crossfeed.schema import canonical

COMMANDS = canonical().command_names


def _frame(rows: int = 12, **columns: Any) -> pl.DataFrame:
    content = {"time": np.arange(rows, dtype=float), "spindle_power": np.linspace(0.5, 2.0, rows)}
    content |= {name: np.full(rows, 100.0 * number) for number, name in enumerate(COMMANDS)}
    return pl.DataFrame(content | columns)


def _as_dict(frame: pl.DataFrame) -> dict[str, Any]:
    return {name: frame[name].to_list() for name in frame.columns}


@pytest.mark.parametrize("turn", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, pl.DataFrame.lazy, _as_dict])
def test_frames_of_every_make_give_the_same_table(turn: Any) -> None:
    frame = _frame(spindle_current=[1.0, None, 3.0, *np.arange(9.0)])
    assert Table.from_frame(turn(frame)).fingerprint() == Table.from_frame(frame).fingerprint()


@settings(max_examples=20)
@given(
    sessions=st.lists(st.integers(3, 8), min_size=1, max_size=4),
    period=st.sampled_from([0.01, 0.5, 1.0, 2.0]),
    own_clock=st.booleans(),
    order=st.randoms(use_true_random=False),
)
def test_a_table_comes_back_from_its_frame(sessions: list[int], period: float, own_clock: bool, order: Any) -> None:
    draw = np.random.default_rng(len(sessions))
    parts, start = [], 1
    for number, rows in enumerate(sessions):
        clock = (np.arange(rows) + (1 if own_clock else start)) * period
        start += rows
        values = {name: draw.normal(size=rows) for name in ("spindle_power", "x_torque", *COMMANDS)}
        keys = {"session": [f"s{number}"] * rows, "run": [f"r{number % 2}"] * rows, "program": ["p"] * rows}
        parts.append(pl.DataFrame({**keys, "time": clock, **values}))
    frame = pl.concat(parts)
    table = Table.from_frame(frame, machine="mill", period=period)
    assert_frame_equal(table.to_polars().select(frame.columns), frame)
    assert [group.session for group in table.groups] == [f"s{number}" for number in range(len(sessions))]
    positions = list(range(len(frame)))
    order.shuffle(positions)
    again = Table.from_frame(frame[positions], machine="mill", period=period)
    assert sorted(len(group) for group in again.groups) == sorted(sessions)
    assert_frame_equal(again.to_polars().sort("session", "time"), table.to_polars().sort("session", "time"))


def test_units_stand_in_brackets_or_beside() -> None:
    plain = Table.from_frame(_frame())
    power = _frame()["spindle_power"] * 1000
    bracket = _frame().drop("spindle_power").with_columns(power.alias("spindle_power [W]"))
    beside = _frame().with_columns(power)
    for table in (Table.from_frame(bracket), Table.from_frame(beside, units={"spindle_power": "W"})):
        np.testing.assert_allclose(table.sensors, plain.sensors)


def test_a_time_index_of_pandas_is_the_clock() -> None:
    frame = _frame().to_pandas()
    frame.index = pandas.to_datetime(frame.pop("time"), unit="s", origin="2026-03-01").rename(None)
    table = Table.from_frame(frame)
    assert table.period == 1.0
    assert table.time[0] == pandas.Timestamp("2026-03-01").timestamp()


def test_a_gap_ends_a_session() -> None:
    time = [*range(6), *range(100, 106)]
    table = Table.from_frame(_frame(time=np.array(time, dtype=float)))
    assert [len(group) for group in table.groups] == [6, 6]


def test_faster_rows_are_averaged_over_the_period() -> None:
    table = Table.from_frame(_frame(time=np.arange(12) * 0.25 + 0.25), period=1.0)
    power = np.linspace(0.5, 2.0, 12).reshape(3, 4).mean(axis=1)
    np.testing.assert_allclose(table.sensors[:, canonical().sensor_names.index("spindle_power")], power)


MAPPING = {
    "machine": "mill_7",
    "time": {"column": "Time", "unit": "ms"},
    "columns": [
        {"native": "P", "channel": "spindle_power", "unit": "W"},
        {"native": "n", "channel": "spindle_speed", "unit": "1/min"},
        *({"constant": 0, "channel": name} for name in COMMANDS[1:]),
    ],
}


def test_mapping_objects_dicts_and_files_agree(tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(MAPPING))
    log = {"Time": np.arange(8) * 1000 + 1000, "P": np.arange(8) * 100.0, "n": np.full(8, 900.0), "remark": ["x"] * 8}
    given: list[Any] = [MAPPING, Mapping.of(MAPPING, "here"), tmp_path / "mapping.yaml", str(tmp_path / "mapping.yaml")]
    tables = [Table.from_frame(log, mapping) for mapping in given]
    assert len({table.fingerprint() for table in tables}) == 1
    assert tables[0].machines() == ("mill_7",)
    assert tables[0].to_polars()["spindle_power"].to_list() == pytest.approx([0.1 * row for row in range(8)])
    with pytest.raises(CrossfeedError, match="Both a mapping and schema or units"):
        Table.from_frame(log, MAPPING, units={"P": "W"})
    with pytest.raises(CrossfeedError, match="no column 'P'"):
        Table.from_frame({"Time": [0.0], "n": [1.0]}, MAPPING)


def test_a_mapping_that_was_read_from_a_file_forgot_the_folder_of_its_schema(tmp_path: Path) -> None:
    own = canonical().model_copy(update={"name": "own"})
    (tmp_path / "own.yaml").write_text(own.to_yaml())
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(MAPPING | {"schema": "own.yaml"}))
    log = {"Time": np.arange(8) * 1000 + 1000, "P": np.arange(8) * 100.0, "n": np.full(8, 900.0)}
    assert Table.from_frame(log, Mapping.from_yaml(tmp_path / "mapping.yaml")).schema.name == "own"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda frame: frame.rename({"spindle_power": "spindel_power"}), "'spindel_power' .is it 'spindle_power'"),
        (lambda frame: frame.drop("feed_x"), "no feed_x"),
        (lambda frame: frame.drop("time"), "no column 'time'"),
        (lambda frame: frame.drop("spindle_power"), "no sensor"),
        (lambda frame: frame.with_columns(pl.lit("high").alias("spindle_power")), "holds String"),
        (lambda frame: frame.with_columns(time=1.0), "never advances"),
        (lambda frame: frame.with_columns(pl.col("feed_x").alias("feed_x [mm/s]")), "'feed_x' and 'feed_x .mm/s.'"),
        (lambda frame: frame.with_columns(machine=pl.Series(["a", "b"] * 6)), "2 machines: a, b"),
        (lambda frame: frame[:0], "0 rows"),
        (lambda _: [1, 2, 3], "list is no frame"),
    ],
)
def test_what_is_unknown_is_said(change: Any, match: str) -> None:
    with pytest.raises(TableError, match=match) as caught:
        Table.from_frame(change(_frame()))
    assert caught.value.expected


def test_a_unit_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match="'mm'"):
        Table.from_frame(_frame(), units={"spindle_power": "mm"})
    with pytest.raises(TableError, match="unit is given for 'x_torque'"):
        Table.from_frame(_frame(), units={"x_torque": "N m"})


def test_a_table_prints_as_one() -> None:
    table = Table.from_frame(_frame(), machine="mill_7")
    assert repr(table).startswith("mill_7: 12 rows, one every 1 s, in 1 session\n")
    assert "spindle_power" in repr(table)
    assert "not measured: spindle_current" in table._repr_html_()


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [("feed_x [mm/s]", "feed_x", "mm/s"), ("feed_x", "feed_x", None), (" a[ W ] ", "a", "W"), ("a]b", "a]b", None)],
)
def test_headers_name_a_unit(header: str, name: str, unit: str | None) -> None:
    assert read_header(header) == (name, unit)


def test_an_index_of_times_is_the_clock_whatever_it_is_called() -> None:
    frame = _frame().to_pandas()
    stamps = pandas.to_datetime("2024-03-12T08:00:00Z") + pandas.to_timedelta(range(len(frame)), unit="s")
    frame = frame.drop(columns="time").set_index(stamps.rename("timestamp"))
    assert len(Table.from_frame(frame)) == len(frame)
