"""The clock of users' own logs: stamps, dates, zones, or rows that are counted."""

import numpy as np
import polars as pl
import pytest

from crossfeed.errors import ConfigError
from crossfeed.logs.clock import find_clock
from crossfeed.logs.pipeline import ingest


def test_time_stamps_in_text_and_in_parquet(described, log) -> None:
    frame = pl.read_csv(log).with_columns(pl.from_epoch("t", time_unit="ms"))
    written = frame.with_columns(pl.col("t").dt.strftime("%d.%m.%Y %H:%M:%S%.3f"))
    written.write_csv(log)
    wanted = ingest(described(time={"column": "t"}), log)
    stated = ingest(described(time={"column": "t", "format": "%d.%m.%Y %H:%M:%S%.3f"}), log)
    frame.write_parquet(log.with_suffix(".parquet"))
    parquet = ingest(described(time={"column": "t"}), log.with_suffix(".parquet"))
    assert wanted.fingerprint() == stated.fingerprint() == parquet.fingerprint()


def test_a_log_without_a_clock_could_not_be_described(described, log) -> None:
    counted = described(time={"every": "500 ms"}, segmentation={"keep": {"State": 3}})
    table = ingest(counted, log)
    assert [(g.run, len(g)) for g in table.groups] == [("shift", 51)]  # 100 rows, the first of them ends at 0 s
    np.testing.assert_array_equal(table.time, np.arange(51.0))


def test_rows_are_counted_without_drift_as_with_a_clock(described, log) -> None:
    frame = pl.read_csv(log).with_columns(t=pl.int_range(pl.len()) * 2)
    frame.write_csv(log)
    read, counted = (ingest(described(time=time), log) for time in ({"column": "t", "unit": "ms"}, {"every": "2 ms"}))
    np.testing.assert_array_equal(read.time, counted.time)
    np.testing.assert_array_equal(read.sensors, counted.sensors)


def test_counted_rows_of_two_files_and_two_runs_stay_apart(described, log) -> None:
    log.with_name("next.csv").write_text(log.read_text())
    table = ingest(described(time={"every": "0.5 s"}), log.parent)
    assert [(g.run, len(g)) for g in table.groups] == [("next", 61), ("shift", 61)]  # one ends at 0 s
    table = ingest(described(time={"every": "0.5 s"}, run={"column": "Part"}), log.parent)
    # A part goes on in the second file: no row is taken for a repetition, and no session spans both files.
    names = [("a", "a-001", 31), ("a", "a-002", 31), ("b", "b-001", 31), ("b", "b-002", 31)]
    assert [(g.run, g.session, len(g)) for g in table.groups] == names


def test_date_and_time_in_two_columns_of_a_zone(described, log) -> None:
    frame = pl.read_csv(log)
    local = pl.from_epoch(frame["t"] + 1719820800000, time_unit="ms")
    frame.with_columns(
        local.dt.strftime("%d.%m.%Y").alias("Datum"), local.dt.strftime("%H:%M:%S,%3f").alias("Zeit")
    ).write_csv(log, separator=";")
    table = ingest(described(time={"column": "Zeit", "date": "Datum", "zone": "Europe/Berlin"}), log)
    assert table.time[0] == np.datetime64("2024-07-01T06:00:00", "s").astype(int)
    assert [len(group) for group in table.groups] == [31, 31]


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ({"column": "t", "unit": "ms", "zone": "Europe/Berlin"}, "belong to time stamps in text"),
        ({"column": "t", "zone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"column": "t", "date": "t"}, "are the same"),
    ],
)
def test_a_clock_that_contradicts_itself_is_refused(described, time, message) -> None:
    with pytest.raises(ConfigError, match=message):
        described(time=time)


def test_the_first_entry_that_is_no_time_is_told(described, log) -> None:
    text = log.read_text().replace("\n500,", "\nsoon,")
    log.write_text(text)
    table = ingest(described(time={"column": "t", "unit": "ms"}), log)
    assert table.manifest["counts"]["dropped_rows"] == {"no readable time": 1}
    frame = pl.read_csv(text.encode(), infer_schema=False)
    stamps = pl.from_epoch(frame["t"].cast(pl.Int64, strict=False), time_unit="ms").dt.strftime("%Y-%m-%d %H:%M:%S%.3f")
    frame.with_columns(stamps.fill_null("soon").alias("t")).write_csv(log)
    told = ingest(described(time={"column": "t"}), log).manifest["findings"]
    assert "shift.csv: the first entry of 't' that is no time is 'soon'" in told


def test_a_clock_put_back_in_autumn_asks_for_its_zone(described, log) -> None:
    hour = [f"2024-10-27 02:{second // 60:02d}:{second % 60:02d}" for second in range(3600)]
    pl.DataFrame({"t": hour * 2, "Load": 1.0, "Power": 1.0, "n": 1.0}).write_csv(log)
    repairs = ingest(described(time={"column": "t"}), log).manifest["repairs"]
    assert repairs["clock put back as when summer time ends: name its time zone in the mapping"] == 1
    table = ingest(described(time={"column": "t", "zone": "Europe/Berlin"}), log)
    assert (len(table), table.manifest["repairs"]) == (7200, {})


def counted(values: object, name: str = "Zähler") -> tuple[str, float | None, bool] | None:
    """Unit, step and certainty of a column of numbers, or None where it is no clock."""
    found = find_clock(pl.DataFrame({"Last": np.sin(np.arange(len(values))), name: values}))  # type: ignore[arg-type]
    return None if found is None else (found.entries["unit"], found.step, found.sure)


ROWS = np.arange(200.0)


@pytest.mark.parametrize(
    ("values", "name", "found"),
    [
        (0.5 * ROWS, "Zähler", ("s", 0.5, False)),
        (0.5 * ROWS, "time", ("s", 0.5, True)),
        (1.0 * ROWS, "time", ("s", 1.0, False)),  # rows may be counted as well
        (4.9 * ROWS, "time", ("s", 4.9, True)),
        (5.0 * ROWS, "time", ("ms", 0.005, False)),
        (5.0 * ROWS, "time [s]", ("s", 5.0, True)),
        (2.0 * ROWS, "t [min]", ("min", 120.0, True)),
        (1.0 * ROWS, "CYCLE", ("2 ms", 0.002, False)),
        (2.0 * ROWS, "CYCLE", ("s", 2.0, True)),
        (1.01e9 + ROWS, "stamp", ("s", 1.0, True)),
        (0.99e9 + ROWS, "stamp", ("s", 1.0, False)),
        (4.19e9 + ROWS, "stamp", ("s", 1.0, True)),
        (4.21e9 + 7.0 * ROWS, "stamp", ("ms", 0.007, False)),
        (1.01e12 + 7.0 * ROWS, "stamp", ("ms", 0.007, True)),
        (4.19e12 + 7.0 * ROWS, "stamp", ("ms", 0.007, True)),
        (4.21e12 + 7.0 * ROWS, "stamp", ("ms", 0.007, False)),
        (1.01e15 + 7e3 * ROWS, "stamp", ("us", 0.007, True)),
        (4.19e15 + 7e3 * ROWS, "stamp", ("us", 0.007, True)),
    ],
)
def test_what_a_counter_counts_is_told_by_its_name_and_its_size(values, name, found) -> None:
    unit, step, sure = counted(values, name)
    assert (unit, pytest.approx(step), sure) == found


def test_a_clock_hardly_ever_goes_back_and_mostly_goes_on() -> None:
    steps = np.ones(200)
    for backwards, is_one in ((2, True), (3, False)):
        steps[:] = 1.0
        steps[1 : 1 + backwards] = -0.5
        assert (counted(np.append(0.0, np.cumsum(steps)), "time") is not None) == is_one
    for standing, is_one in ((100, True), (101, False)):
        steps[:] = 1.0
        steps[:standing] = 0.0
        assert (counted(np.append(0.0, np.cumsum(steps)), "time") is not None) == is_one
    assert counted([1.0, 2.0], "time") is None
    assert counted([1.0, 2.0, 3.0], "time") is not None


def test_what_is_not_called_a_clock_has_to_count_evenly() -> None:
    steps = np.ones(200)
    for uneven, is_one in ((20, True), (21, False)):
        steps[:] = 1.0
        steps[:uneven] = 1.2
        assert (counted(np.append(0.0, np.cumsum(steps))) is not None) == is_one
        assert counted(np.append(0.0, np.cumsum(steps)), "my clock") is not None
        steps[:uneven] = 1.09
        assert counted(np.append(0.0, np.cumsum(steps))) is not None


def test_a_column_called_like_a_clock_comes_first() -> None:
    frame = pl.DataFrame({"Zähler": ROWS, "my time": 2.0 * ROWS, "Zeit [s]": 3.0 * ROWS, "date": 4.0 * ROWS})
    for name in ("Zeit [s]", "date", "my time", "Zähler"):
        found = find_clock(frame)
        assert found is not None
        assert found.columns == (name,)
        frame = frame.drop(name)


@pytest.mark.parametrize(("bad", "found"), [(6, True), (7, False)])
def test_nine_in_ten_stamps_have_to_be_times(bad: int, found: bool) -> None:
    stamps = ["soon"] * bad + [f"2024-03-12 08:00:{second:02d}" for second in range(60 - bad)] + [None] * 60
    clock = find_clock(pl.DataFrame({"Zeit": stamps}))
    assert (clock is not None) == found
    assert clock is None or (clock.step, clock.local) == (1.0, True)


def test_a_day_and_a_time_of_day_stand_in_two_columns() -> None:
    hours = [f"8:{minute:02d}:30,5" for minute in range(0, 60, 2)]
    clock = find_clock(pl.DataFrame({"Uhrzeit": hours, "Datum": ["12.03.2024"] * 30}))
    assert clock is not None
    assert (clock.entries, clock.step) == ({"column": "Uhrzeit", "date": "Datum"}, 120.0)
    assert find_clock(pl.DataFrame({"Uhrzeit": [*hours[:-1], "8"], "Datum": ["12.03.2024"] * 30})) is None
