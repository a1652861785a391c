"""What is to be said of several plans is said once."""

import pytest

from crossfeed.scenarios.result import merged_warnings


def test_warnings_that_were_nearly_equal_were_printed_once_for_every_plan() -> None:
    warnings = {
        "slow": ["feed_x falls to -1,500 mm/min, 8% outside", "the plan has 300 rows"],
        "right": [],
        "fast": ["feed_x falls to -2,500.5 mm/min, 12% outside", "the plan has 300 rows"],
    }
    assert merged_warnings(warnings) == [
        "slow, fast: feed_x falls to -2,500.5 to -1,500 mm/min, 8% to 12% outside",
        "slow, fast: the plan has 300 rows",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("line 12: G5 is unknown", "line 14: G5 is unknown"),
        ("calls were skipped: CYCLE81 x3", "calls were skipped: CYCLE83 x3"),
        ("spindle_2_speed reaches 300 rpm", "spindle_1_speed reaches 300 rpm"),
        ("spindle_speed reaches 300 rpm", "spindle_speed falls to 300 rpm"),
    ],
)
def test_warnings_about_different_things_stay_apart(first: str, second: str) -> None:
    assert merged_warnings({"a": [first], "b": [second]}) == [f"a: {first}", f"b: {second}"]


def test_a_plan_is_named_once_and_many_plans_are_counted() -> None:
    assert merged_warnings({"a": ["line 3: 2 turns", "line 3: 4 turns"]}) == ["a: line 3: 2 to 4 turns"]
    assert merged_warnings({f"plan {number}": ["too long"] for number in range(40)}) == ["40 plans: too long"]
    assert merged_warnings({}) == []
