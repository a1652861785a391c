"""Units come from names; impossible values become null and are counted."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import SchemaError
from crossfeed.logs.declaration import LogFormat, NativeColumn, Segmentation
from crossfeed.logs.resample import to_schema_units
from crossfeed.schema import Channel, Schema, conversion

SCHEMA = Schema(
    name="three",
    sensors=(
        Channel(name="power", quantity="power", unit="kW"),
        Channel(name="temperature", quantity="temperature", unit="degC"),
    ),
    commands=(Channel(name="feed", quantity="feed", unit="mm/min"),),
)


def log_format_of(*columns: NativeColumn) -> LogFormat:
    return LogFormat("toy", "toy", "toy", SCHEMA, columns, 1.0, Segmentation(), lambda *_: iter(()))


def test_factors_and_offsets_are_derived() -> None:
    kind = log_format_of(
        NativeColumn("P", "power", "W"), NativeColumn("T", "temperature", "degF"), NativeColumn("F", "feed", "mm/s")
    )
    frame = pl.DataFrame({"power": [1500.0], "temperature": [212.0], "feed": [10.0]})
    found, repairs = to_schema_units(frame, kind)
    assert found.row(0) == pytest.approx((1.5, 100.0, 600.0))
    assert repairs == {}


@pytest.mark.parametrize(
    ("native", "wanted", "factor"), [("W", "kW", 1e-3), ("mm/s", "mm/min", 60), ("deg/s", "rpm", 1 / 6)]
)
def test_the_three_factors_of_the_study(native, wanted, factor) -> None:
    assert conversion(native, wanted).scale == pytest.approx(factor, rel=1e-12)


@given(
    value=st.floats(-1e6, 1e6),
    pair=st.sampled_from([("W", "kW"), ("mm/s", "mm/min"), ("deg/s", "rpm"), ("degF", "degC")]),
)
def test_a_conversion_and_its_inverse_give_the_value_back(value, pair) -> None:
    there, back = conversion(*pair), conversion(*reversed(pair))
    converted = value * there.scale + there.offset
    assert converted * back.scale + back.offset == pytest.approx(value, rel=1e-9, abs=1e-6)


def test_impossible_values_become_null_and_are_counted_by_reason() -> None:
    kind = log_format_of(NativeColumn("T", "temperature", "degC", (1.0, 150.0)), NativeColumn("F", "feed", "mm/min"))
    frame = pl.DataFrame({"temperature": [20.0, 0.0, 151.0, math.inf, math.nan, None], "feed": [1.0] * 5 + [math.inf]})
    found, repairs = to_schema_units(frame, kind)
    assert found["temperature"].to_list() == [20.0, None, None, None, None, None]
    assert found["feed"].to_list() == [1.0] * 5 + [None]
    assert repairs == {
        "temperature: infinite": 1,
        "temperature: outside 1 to 150 degC": 2,
        "feed: infinite": 1,
    }


def test_a_signal_that_is_zero_throughout_a_run_was_not_measured() -> None:
    kind = log_format_of(NativeColumn("P", "power", "kW", absent_if_zero=True), NativeColumn("F", "feed", "mm/min"))
    dead, _ = to_schema_units(pl.DataFrame({"power": [0.0, 0.0], "feed": [0.0, 0.0]}), kind)
    alive, _ = to_schema_units(pl.DataFrame({"power": [0.0, 0.1], "feed": [0.0, 0.0]}), kind)
    assert dead["power"].to_list() == [None, None]
    assert alive["power"].to_list() == [0.0, 0.1]


def test_a_unit_that_does_not_fit_the_quantity_is_refused() -> None:
    with pytest.raises(SchemaError, match="'P' is declared in 'mm/s', but 'power'"):
        log_format_of(NativeColumn("P", "power", "mm/s"), NativeColumn("F", "feed", "mm/min"))


def test_a_number_that_nothing_can_measure_made_every_statistic_infinite() -> None:
    kind = log_format_of(NativeColumn("P", "power", "W"), NativeColumn("F", "feed", "mm/s"))
    frame = pl.DataFrame({"power": [1e308, 1500.0], "feed": [1.0, -1e16]})
    found, repairs = to_schema_units(frame, kind)
    assert found.rows() == [(None, 60.0), (1.5, None)]
    assert repairs == {"power: 1e+15 or more, no measurement": 1, "feed: 1e+15 or more, no measurement": 1}
