"""The table on disk and in memory: exact round trips, absent is not zero, foreign files, clear refusals."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import CrossfeedError, TableError
from crossfeed.logs.table import Group, Table, manifest_path
from crossfeed.schema import canonical


def table_of(sizes=(40, 60), seed: int = 0, absent=("x_torque",)) -> Table:
    generator = np.random.default_rng(seed)
    rows = sum(sizes)
    sensors = generator.normal(size=(rows, 17))
    sensors[generator.random(sensors.shape) < 0.1] = np.nan
    for name in absent:
        sensors[:, canonical().sensor_names.index(name)] = np.nan
    stops = np.cumsum(sizes)
    groups = tuple(
        Group("m", f"s{i}", f"r{i % 2}", "p", int(stop) - size, int(stop))
        for i, (size, stop) in enumerate(zip(sizes, stops, strict=True))
    )
    time = np.arange(rows, dtype=float)
    extras = {"spindle_current__std": generator.random(rows), "x_torque__std": generator.random(rows)}
    return Table(canonical(), groups, time, sensors, generator.normal(size=(rows, 4)), 1.0, {"a": "ü"}, extras)


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), seed=st.integers(0, 9))
@settings(max_examples=25)
def test_writing_and_reading_gives_the_same_table(tmp_path_factory, sizes, seed) -> None:
    table, path = table_of(sizes, seed), tmp_path_factory.mktemp("tables") / "t.parquet"
    table.write(path)
    back = Table.read(path)
    assert back.groups == table.groups
    assert back.fingerprint() == table.fingerprint()
    np.testing.assert_array_equal(back.sensors, table.sensors)
    np.testing.assert_array_equal(back.commands, table.commands)
    np.testing.assert_array_equal(back.extras["spindle_current__std"], table.extras["spindle_current__std"])
    assert back.manifest == table.manifest == json.loads(manifest_path(path).read_text(encoding="utf-8"))


def test_absent_is_null_in_the_file_and_never_a_number(tmp_path) -> None:
    table = table_of()
    table.write(tmp_path / "t.parquet")
    column = pl.read_parquet(tmp_path / "t.parquet")["x_torque"]
    assert column.null_count() == len(table)
    assert not Table.read(tmp_path / "t.parquet").present()[canonical().sensor_names.index("x_torque")]


def test_the_fingerprint_sees_every_part_and_ignores_the_manifest() -> None:
    table = table_of()
    prints = {table.fingerprint()}
    for name in ("time", "sensors", "commands"):
        values = getattr(table, name).copy()
        values.flat[np.flatnonzero(np.isfinite(values))[3]] += 1e-9
        prints.add(Table(**(vars(table) | {name: values})).fingerprint())
    renamed = (Group("m", "other", "r0", "p", 0, 40), table.groups[1])
    prints.add(Table(**(vars(table) | {"groups": renamed})).fingerprint())
    assert len(prints) == 5
    assert Table(**(vars(table) | {"manifest": {}})).fingerprint() == table.fingerprint()


def test_selecting_groups_keeps_their_rows_together() -> None:
    table = table_of((10, 20, 30))
    part = table.select([table.groups[2], table.groups[0]])
    assert [(g.session, g.start, g.stop) for g in part.groups] == [("s2", 0, 30), ("s0", 30, 40)]
    np.testing.assert_array_equal(part.commands[:30], table.commands[30:])
    with pytest.raises(TableError, match="no group"):
        table.select([Group("m", "x", "y", "p", 0, 1)])
    with pytest.raises(TableError, match="No group"):
        table.select([])


def test_hiding_a_sensor_makes_it_absent_with_its_extras() -> None:
    table = table_of(absent=())
    hidden = table.without(["x_torque"])
    assert not hidden.present()[canonical().sensor_names.index("x_torque")]
    assert table.present().all()
    assert list(hidden.extras) == ["spindle_current__std"]
    with pytest.raises(TableError, match="no sensor 'nonsense'"):
        table.without(["nonsense"])


def test_a_foreign_table_is_understood_by_its_column_names(tmp_path) -> None:
    path = tmp_path / "foreign.parquet"
    pl.DataFrame(
        {
            "time": [0.0, 0.5, 1.0, 0.0, 0.5],
            "session": [1, 1, 1, 2, 2],
            "spindle_current": [1.0, None, np.inf, 3.0, 4.0],
            "feed_x": [1, 2, 3, 4, 5],
        }
    ).write_parquet(path)
    table = Table.read(path)
    assert [(g.machine, g.session, len(g)) for g in table.groups] == [("foreign", "1", 3), ("foreign", "2", 2)]
    assert table.period == 0.5
    assert np.isnan(table.sensors[1:3, 0]).all()
    assert table.manifest["repairs"] == {"infinite values made absent": 1}
    assert np.isnan(table.commands[:, 0]).all()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"spindle_current": [1.0], "feed_x": [1.0]}, "lacks time"),
        ({"time": [1.0], "feed_x": [1.0]}, "any sensor"),
        ({"time": [1.0], "spindle_current": [1.0]}, "any command"),
        ({"time": [1.0], "spindle_current": ["high"], "feed_x": [1.0]}, "'spindle_current'"),
        ({"time": [1.0, 1.0], "spindle_current": [1.0, 2.0], "feed_x": [1.0, 1.0]}, "never advances"),
        ({"time": pl.Series([], dtype=pl.Float64), "spindle_current": [], "feed_x": []}, "no rows"),
    ],
)
def test_a_table_that_cannot_be_understood_says_what_is_missing(tmp_path, columns, message) -> None:
    path = tmp_path / "foreign.parquet"
    pl.DataFrame(columns).write_parquet(path)
    with pytest.raises(TableError, match=message):
        Table.read(path)


def test_a_file_that_is_no_table_is_refused(tmp_path) -> None:
    (tmp_path / "text.parquet").write_text("time,spindle_current\n")
    with pytest.raises(TableError, match="cannot be read as Parquet"):
        Table.read(tmp_path / "text.parquet")
    with pytest.raises(TableError, match="no table"):
        Table.read(tmp_path / "nothing.parquet")


def test_groups_must_cover_all_rows_in_order() -> None:
    parts = vars(table_of((4, 6)))
    for groups in (parts["groups"][:1], parts["groups"][::-1], ()):
        with pytest.raises(TableError, match="group"):
            Table(**(parts | {"groups": groups}))
    with pytest.raises(TableError, match="shape"):
        Table(**(parts | {"commands": parts["commands"][:, :3]}))


def test_an_interrupted_write_leaves_the_old_table(tmp_path, monkeypatch) -> None:
    path = tmp_path / "t.parquet"
    old = table_of(seed=1)
    old.write(path)

    def disk_full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", disk_full)
    with pytest.raises(CrossfeedError, match="No space left"):
        table_of(seed=2).write(path)
    monkeypatch.undo()
    assert Table.read(path).fingerprint() == old.fingerprint()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.manifest.json", "t.parquet"]


def test_every_type_of_column_is_read_with_its_nulls_over_several_chunks(tmp_path) -> None:
    path = tmp_path / "types.parquet"
    stamps = pl.Series([0, 500, None, 1500], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))
    pl.DataFrame(
        {
            "time": stamps,
            "machine": pl.Series(["a", "a", "a", "a"], dtype=pl.Categorical),
            "session": [None, "", "x", "x"],
            "spindle_current": pl.Series([1, None, 3, 4], dtype=pl.Int16),
            "x_current": [True, None, False, True],
            "y_current": pl.Series([None] * 4, dtype=pl.Null),
            "feed_x": pl.Series([1.5, 2.5, None, 4.5], dtype=pl.Float32),
        }
    ).write_parquet(path, row_group_size=2)
    table = Table.read(path)
    names = table.schema.sensor_names
    assert [(group.session, group.start, group.stop) for group in table.groups] == [("", 0, 2), ("x", 2, 4)]
    np.testing.assert_array_equal(table.time, [0.0, 0.5, np.nan, 1.5])
    np.testing.assert_array_equal(table.sensors[:, names.index("spindle_current")], [1, np.nan, 3, 4])
    np.testing.assert_array_equal(table.sensors[:, names.index("x_current")], [1, np.nan, 0, 1])
    assert np.isnan(table.sensors[:, names.index("y_current")]).all()
    np.testing.assert_array_equal(
        table.commands[:, table.schema.command_names.index("feed_x")], [1.5, 2.5, np.nan, 4.5]
    )
