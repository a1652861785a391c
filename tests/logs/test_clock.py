"""Every clock in whole microseconds."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ConfigError, LogError, SchemaError
from crossfeed.logs.clock import clock_from_numbers, clock_from_text, put_back_in_autumn, require_clock, seconds


@pytest.mark.parametrize(
    "stamp",
    ["2024-03-12 08:16:30.5", " 2024-03-12T08:16:30.500Z ", "12.03.2024 08:16:30.500", "2024/03/12 08:16:30.5"],
)
def test_common_time_stamps_are_understood(stamp) -> None:
    assert clock_from_text(pl.Series([stamp])).to_list() == [1710231390500000]


def test_a_stated_format_and_a_time_zone() -> None:
    found = clock_from_text(pl.Series(["12/03/24 09:16:30 +0100", "never"]), "%d/%m/%y %H:%M:%S %z")
    assert found.to_list() == [1710231390000000, None]


def test_mixed_stamps_are_read_one_by_one() -> None:
    found = clock_from_text(pl.Series(["2024-03-12 08:16:30", "12.03.2024 08:16:31", None, "x"]))
    assert found.to_list() == [1710231390000000, 1710231391000000, None, None]


@given(cycles=st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
@settings(deadline=None)
def test_cycles_are_exact(cycles) -> None:
    assert clock_from_numbers(pl.Series(cycles), "2 ms").to_list() == [2000 * cycle for cycle in cycles]


def test_accumulated_stamps_are_rounded_to_the_microsecond() -> None:
    found = clock_from_numbers(pl.Series(np.cumsum(np.full(100_000, 0.002))), "s")
    assert found.to_list() == [2000 * (i + 1) for i in range(100_000)]


def test_what_is_no_number_has_no_time() -> None:
    found = clock_from_numbers(pl.Series([1.0, None, float("nan"), float("inf")]), "s")
    assert found.to_list() == [1_000_000, None, None, None]


@pytest.mark.parametrize(
    ("step", "wanted"), [("s", 1.0), ("ms", 1e-3), ("2 ms", 2e-3), ("0.5 min", 30.0), ("h", 3600.0)]
)
def test_steps(step, wanted) -> None:
    assert seconds(step) == pytest.approx(wanted)


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="no time step"):
        seconds("17")
    with pytest.raises(SchemaError, match="kW"):
        seconds("kW")


def test_a_log_without_any_readable_time_is_refused() -> None:
    with pytest.raises(LogError, match=r"'time' in log\.csv"):
        require_clock(clock_from_text(pl.Series(["a", "b"])), "log.csv", "time")


@pytest.mark.parametrize(
    "stamp",
    [
        "2024-03-12T09:16:30.5+01:00",
        "2024-03-12 03:46:30,500-0430",
        "2024-03-12 08:16:30.5 UTC",
        "12.03.2024 08:16:30,5",
        "20240312_081630.5",
        "12.03.24 08:16:30,500",
    ],
)
def test_offsets_and_commas_before_milliseconds(stamp) -> None:
    assert clock_from_text(pl.Series([stamp])).to_list() == [1710231390500000]


def test_stamps_with_and_without_offsets_in_one_column() -> None:
    found = clock_from_text(pl.Series(["2024-03-12 09:16:30+01:00", "2024-03-12 08:16:30"]))
    assert found.to_list() == [1710231390000000] * 2


def _told(local: list[str]) -> list[str]:
    clock = clock_from_text(pl.Series(local), zone="Europe/Berlin").cast(pl.Datetime("us"))
    return clock.dt.strftime("%H:%M").to_list()


def test_the_repeated_hour_of_october_is_told_apart_by_the_order_of_the_rows() -> None:
    day = "2024-10-27 "
    hours = ["01:50", "02:00", "02:30", "02:59", "02:00", "02:30", "02:59", "03:00"]
    assert _told([day + hour for hour in hours]) == [
        "23:50", "00:00", "00:30", "00:59", "01:00", "01:30", "01:59", "02:00"
    ]  # fmt: skip
    assert _told([day + hour for hour in ("01:59", "02:00", "02:10")]) == ["23:59", "00:00", "00:10"]
    assert _told([day + hour for hour in ("02:50", "02:59", "03:00")]) == ["01:50", "01:59", "02:00"]
    assert _told([day + "02:30"]) == ["00:30"]


def test_the_hour_that_march_leaves_out_has_no_time() -> None:
    assert _told(["2024-03-31 01:59", "2024-03-31 02:30", "2024-03-31 03:00"]) == ["00:59", None, "01:00"]


def test_an_unknown_zone_is_answered_with_its_neighbours() -> None:
    with pytest.raises(ConfigError, match="no time zone 'Europe/Berln'; did you mean Europe/Berlin"):
        clock_from_text(pl.Series(["2024-03-12 08:16:30"]), zone="Europe/Berln")


def test_the_value_that_is_no_time_stands_in_the_error() -> None:
    stamps = pl.Series(["gestern", "heute"])
    with pytest.raises(LogError, match="the first is 'gestern'"):
        require_clock(clock_from_text(stamps), "log.csv", "time", stamps)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("2024-10-27 02:59:59", "2024-10-27 02:00:00", True),  # Europe
        ("2024-11-03 01:59:59", "2024-11-03 01:00:00", True),  # North America
        ("2024-11-03 00:30:00", "2024-11-03 00:10:00", True),
        ("2024-10-27 03:30:00", "2024-10-27 02:30:00", True),  # by a whole hour
        ("2024-10-27 03:30:00", "2024-10-27 02:29:59.5", False),  # by more than an hour
        ("2024-10-27 02:30:00", "2024-10-27 02:29:30", False),  # by less than a minute: a clock was set
        ("2024-10-26 02:59:59", "2024-10-26 02:00:00", False),  # a Saturday
        ("2024-09-29 02:59:59", "2024-09-29 02:00:00", False),  # in September
        ("2024-10-27 04:30:00", "2024-10-27 04:00:00", False),  # by day
    ],
)
def test_a_clock_is_put_back_by_up_to_an_hour_on_a_sunday_night_in_autumn(before: str, after: str, found: bool) -> None:
    clock = clock_from_text(pl.Series([before, after]))
    assert put_back_in_autumn(clock).to_list() == [False, found]
