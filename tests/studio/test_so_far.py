"""Promises come due on the rows they were made for, and only there."""

from hypothesis import given
from hypothesis import strategies as st

from crossfeed.studio.so_far import ENOUGH, SoFar


@given(st.lists(st.tuples(st.floats(-1.0, 1.0), st.booleans()), min_size=1, max_size=60))
def test_every_promise_is_counted_once_for_each_horizon_that_was_measured(rows: list[tuple[float, bool]]) -> None:
    so_far, horizons = SoFar(), (1, 2, 4)
    due = inside = 0
    for row, (value, measured) in enumerate(rows):
        so_far.observe(row, {"power": value if measured else None})
        made = [horizon for horizon in horizons if row - horizon >= 0] if measured else []
        due += len(made)
        inside += len(made) if -0.5 <= value <= 0.5 else 0
        so_far.promise(row, horizons, {"power": [-0.5] * 3}, {"power": [0.5] * 3})
    found = so_far.content().get("power", {"forecasts": 0, "inside90": 0.0})
    assert found["forecasts"] == due
    assert round(found["inside90"] * due) == inside


def test_a_light_waits_for_enough_and_turns_red_when_intervals_fail() -> None:
    so_far = SoFar()
    for row in range(3 * ENOUGH):
        so_far.observe(row, {"power": 2.0, "torque": 0.0})
        names = {"power": [-0.5], "torque": [-0.5]}
        so_far.promise(row, (1,), names, {name: [0.5] for name in names})
        if row == ENOUGH // 2:
            assert so_far.light("power")["colour"] == "amber"
    assert so_far.light("power")["colour"] == "red"
    assert so_far.light("torque")["colour"] == "green"


def test_a_gap_breaks_promises_without_counting_them() -> None:
    so_far = SoFar()
    so_far.promise(0, (1,), {"power": [0.0]}, {"power": [1.0]})
    so_far.forget()
    so_far.observe(1, {"power": 5.0})
    assert so_far.content() == {}
