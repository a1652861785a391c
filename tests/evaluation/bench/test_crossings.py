"""From how many minutes on a model is better than the fleet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import ConfigError
from crossfeed.evaluation.bench.result import ALL, crossing, in_words, parse_minutes, spoken

FLEET = [(0.0, 0.3), (1.0, 0.3), (10.0, 0.2), (100.0, 0.2)]


def test_the_crossing_lies_where_the_lines_meet_over_the_logarithm() -> None:
    found = crossing("tide", FLEET, [(1.0, 0.4), (10.0, 0.3), (100.0, 0.1)])
    assert found is not None
    assert (found.after, found.by) == (10.0, 100.0)
    assert found.about == pytest.approx(10.0**1.5)
    assert found.words == "tide overtakes the fleet between 10 and 100 minutes (about 32)"


def test_from_no_own_logs_at_all_the_lines_meet_over_the_minutes_themselves() -> None:
    found = crossing("tide", [(0.0, 0.3), (10.0, 0.2)], [(0.0, 0.4), (10.0, 0.17)])
    assert found is not None
    assert (found.after, found.by) == (0.0, 10.0)
    assert found.about == pytest.approx(10.0 * 0.1 / 0.13)


def test_a_model_that_falls_back_has_crossed_only_where_it_stays_ahead() -> None:
    found = crossing("tide", FLEET, [(1.0, 0.2), (10.0, 0.3), (100.0, 0.1)])
    assert found is not None
    assert (found.after, found.by) == (10.0, 100.0)


def test_never_and_from_the_beginning_are_said() -> None:
    never = crossing("tide", FLEET, [(1.0, 0.4), (100.0, 0.3)])
    always = crossing("persistence", FLEET, [(0.0, 0.1), (1.0, 0.1)])
    assert never is not None
    assert never.by is None
    assert never.words == "tide does not overtake the fleet within 100 minutes"
    assert always is not None
    assert always.after is None
    assert always.by == 0.0
    assert crossing("tide", FLEET, []) is None


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 10.0, 100.0]), st.floats(0.01, 1.0)), unique_by=lambda x: x[0]))
def test_after_the_crossing_the_model_is_always_ahead(own: list[tuple[float, float]]) -> None:
    found = crossing("tide", FLEET, own)
    if found is None or found.by is None:
        return
    assert all(error < dict(FLEET)[minutes] for minutes, error in own if minutes >= found.by)
    assert found.about is not None
    assert (found.after or 0.0) <= found.about <= found.by


def test_minutes_come_in_order_and_each_once() -> None:
    assert parse_minutes("10, 0,all,1,10") == (0.0, 1.0, 10.0, ALL)
    assert parse_minutes([3, "all"]) == (3.0, ALL)
    assert [in_words(one) for one in (0.5, 3.0, ALL)] == ["0.5", "3", "all"]


@pytest.mark.parametrize("words", ["ten", "-1", "nan", "inf", "", " , "])
def test_words_that_are_no_minutes_are_refused(words: str) -> None:
    with pytest.raises(ConfigError, match="minutes"):
        parse_minutes(words)


def test_a_curve_of_no_minutes_does_not_speak_of_overtaking_within_them() -> None:
    found = crossing("persistence", [(0.0, 0.2)], [(0.0, 0.4)])
    assert found is not None
    assert found.words == "persistence is behind the fleet before any own logs"


def test_a_run_after_1_minutes() -> None:
    assert [spoken(one) for one in (0.0, 1.0, 12.553, ALL)] == ["0 minutes", "1 minute", "12.6 minutes", "all own logs"]
