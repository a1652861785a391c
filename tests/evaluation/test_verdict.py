"""The lights: what makes a channel green, what takes the green away, what makes it red."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.evaluation.statistics import Interval
from crossfeed.evaluation.verdict import ChannelScores, CommandUse, FalsePlan, judge_channel, judge_channels
from tests.front.report import material


def scores(
    low: float | None = 0.1, estimate: float | None = 0.2, coverage: float | None = 0.9, constant: bool = False
) -> ChannelScores:
    intervals = {"skill_rmse": Interval(estimate, low, None if low is None else 0.3)}
    inside = {} if coverage is None else {"coverage90": Interval(coverage)}
    return ChannelScores({}, {}, "A", constant, {**intervals, **inside})


LISTENS = Interval(1.2, 1.1, 1.3)
DEAF = Interval(1.0, 0.99, 1.01)


@pytest.mark.parametrize(
    ("given", "command", "light", "reason"),
    [
        (scores(), LISTENS, "good", "surely better"),
        (scores(), None, "good", "surely better"),
        (scores(low=-0.1), LISTENS, "fair", "could be chance"),
        (scores(low=None), LISTENS, "fair", "too few runs"),
        (scores(estimate=0.0, low=-0.2), LISTENS, "bad", "last value"),
        (scores(coverage=0.80), LISTENS, "fair", "somewhat too sure"),
        (scores(coverage=0.60), LISTENS, "bad", "far too sure"),
        (scores(coverage=0.995), LISTENS, "fair", "wider than needed"),
        (scores(coverage=None), LISTENS, "fair", "no intervals"),
        (scores(), DEAF, "fair", "not for what-ifs"),
        (scores(constant=True), LISTENS, "unknown", "does not move"),
        (scores(estimate=None), LISTENS, "unknown", "does not move"),
    ],
)
def test_a_light_has_its_reason(given: ChannelScores, command: Interval | None, light: str, reason: str) -> None:
    found = judge_channel("current", given, command)
    assert found.light == light
    assert any(reason in words for words in found.reasons)


def test_a_channel_whose_mean_would_do_as_well_was_trusted() -> None:
    flat = replace(scores(), metrics={"r2": -0.07, "rmse": 0.5})
    found = judge_channel("z_current", flat, LISTENS)
    assert found.light == "bad"
    assert any("R² -0.07" in words for words in found.reasons)
    assert judge_channel("z_current", replace(scores(), metrics={"r2": 0.2}), LISTENS).light == "good"


def test_a_rival_that_was_ahead_was_not_spoken_of() -> None:
    given = replace(scores(), metrics={"r2": 0.8, "rmse": 0.5})
    behind = judge_channel("power", given, LISTENS, {"ridge": 0.6})
    assert behind.light == "good"
    assert "all baselines that were run" in behind.reasons[0]
    ahead = judge_channel("power", given, LISTENS, {"ridge": 0.4, "trees": 0.45, "drift": 0.9})
    assert ahead.light == "fair"
    assert ahead.reasons == ("ridge is as good or better (RMSE 0.4, this model 0.5)",)
    lights = judge_channels({"power": given, "speed": given}, None, {"ridge": {"power": 0.4, "speed": None}}).channels
    assert [one.light for one in lights] == ["fair", "good"]


@pytest.mark.parametrize(
    ("channels", "light", "answer"),
    [
        ({"a": scores(), "b": scores()}, "good", "Yes, on all 2 channels that move."),
        ({"a": scores(), "b": scores(constant=True)}, "good", "Yes, on all 1 channels that move."),
        (
            {"a": scores(), "b": scores(low=-0.1), "c": scores(coverage=0.5), "d": scores(coverage=0.6)},
            "fair",
            "Yes on 1 of 4 channels: a; with care on b; not on c and d.",
        ),
        ({"b": scores(low=-0.1), "c": scores(coverage=0.5)}, "fair", "Only with care on b; not on c."),
        ({"c": scores(coverage=0.5)}, "bad", "No: on none of the 1 channels."),
        ({"d": scores(constant=True)}, "fair", "Cannot be said: no channel of the target moved."),
        ({}, "fair", "Cannot be said: no channel of the target moved."),
    ],
)
def test_the_answer_says_where(channels: dict[str, ChannelScores], light: str, answer: str) -> None:
    found = judge_channels(channels, None)
    assert (found.light, found.answer) == (light, answer)


def test_a_channel_without_a_ratio_of_its_own_is_judged_by_that_of_all() -> None:
    shuffled = FalsePlan("", 1.0, DEAF, DEAF, DEAF, 0, 5)
    use = CommandUse(10, 1.0, {"shuffled": shuffled}, {"a": LISTENS})
    lights = {one.channel: one.light for one in judge_channels({"a": scores(), "b": scores()}, use).channels}
    assert lights == {"a": "good", "b": "fair"}


@given(low=st.none() | st.floats(-1, 1), estimate=st.floats(-1, 1), coverage=st.floats(0, 1), ratio=st.floats(0.5, 2))
def test_no_channel_is_green_without_skill_coverage_and_commands(
    low: float | None, estimate: float, coverage: float, ratio: float
) -> None:
    found = judge_channel("a", scores(low, estimate, coverage), Interval(ratio))
    green = low is not None and low > 0 and estimate > 0 and 0.85 <= coverage <= 0.98 and ratio >= 1.02
    assert (found.light == "good") == green
    assert found.reasons


def test_the_known_law_of_the_small_machine_is_trusted_where_it_is_right() -> None:
    content: dict[str, Any] = material.evaluation()["verdict"]["run"]
    assert {one["channel"] for one in content["channels"]} == {"current", "power", "temperature"}
    for one in content["channels"]:
        assert one["skill"]["estimate"] > 0
        assert one["command"]["estimate"] > 1.02
