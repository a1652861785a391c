"""Promises come due on the rows they were made for, and only there."""

from hypothesis import given
from hypothesis import strategies as st

from crossfeed.live.snapshot import ChannelForecast
from crossfeed.studio.moments import ENOUGH, IntervalRecord


def interval(low: float, high: float, horizons: int = 1) -> ChannelForecast:
    return ChannelForecast(*((value,) * horizons for value in ((low + high) / 2.0, low, high)))


@given(st.lists(st.tuples(st.floats(-1.0, 1.0), st.booleans()), min_size=1, max_size=60))
def test_every_promise_is_counted_once_for_each_horizon_that_was_measured(rows: list[tuple[float, bool]]) -> None:
    interval_record, horizons = IntervalRecord(), (1, 2, 4)
    due = inside = 0
    for row, (value, measured) in enumerate(rows):
        interval_record.observe(row, {"power": value if measured else None})
        made = [horizon for horizon in horizons if row - horizon >= 0] if measured else []
        due += len(made)
        inside += len(made) if -0.5 <= value <= 0.5 else 0
        interval_record.promise(row, horizons, {"power": interval(-0.5, 0.5, 3)})
    found = interval_record.content().get("power", {"forecasts": 0, "inside90": 0.0})
    assert found["forecasts"] == due
    assert round(found["inside90"] * due) == inside


def test_a_light_waits_for_enough_and_turns_red_when_intervals_fail() -> None:
    interval_record = IntervalRecord()
    for row in range(3 * ENOUGH):
        interval_record.observe(row, {"power": 2.0, "torque": 0.0})
        interval_record.promise(row, (1,), dict.fromkeys(("power", "torque"), interval(-0.5, 0.5)))
        if row == ENOUGH // 2:
            assert interval_record.light("power").colour == "amber"
    assert interval_record.light("power").colour == "red"
    assert " % of " in interval_record.light("power").sentence, "the share and the interval had two ways of per cent"
    assert interval_record.light("torque").colour == "green"


def test_a_gap_breaks_promises_without_counting_them() -> None:
    interval_record = IntervalRecord()
    interval_record.promise(0, (1,), {"power": interval(0.0, 1.0)})
    interval_record.forget()
    interval_record.observe(1, {"power": 5.0})
    assert interval_record.content() == {}
