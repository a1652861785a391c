"""What speaks against trusting a forecast, and from which value on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crossfeed.model.sensors.model import SensorModel
from crossfeed.scenarios.history import History, read_history
from crossfeed.scenarios.measures import disagreement, doubt_about, warnings_about, warnings_of
from crossfeed.scenarios.plan import PlannedCommands
from tests.evaluation.small_machine import CONTEXT, HORIZONS
from tests.scenarios.conftest import Place, make_model

RANGE = {"spindle_speed": [0.0, 3000.0], "feed_x": [0.0, 800.0]}


@pytest.fixture
def history(place: Place) -> History:
    return read_history(place.table, place.opened.model, at=30.0)


def said(history: History, speed: float = 0.0, feed: float = 0.0, rows: int = 2, ranges: object = RANGE) -> list[str]:
    """The warnings about a plan that asks for this once."""
    commands = np.zeros((rows, 2))
    commands[0] = speed, feed
    return warnings_of(PlannedCommands("plan", "array", None, commands), history, {"command_range": ranges})


@pytest.mark.parametrize(
    ("speed", "words"),
    [
        (3002.0, ""),
        (3004.0, "spindle_speed reaches 3,004 rpm"),
        (-2.0, ""),
        (-4.0, "spindle_speed falls to -4.00 rpm"),
        (4500.0, "lies between 0 and 3,000 rpm: 50% of that range outside"),
        (-1500.0, "lies between 0 and 3,000 rpm: 50% of that range outside"),
    ],
)
def test_a_command_is_outside_from_a_thousandth_of_its_range_on(history: History, speed: float, words: str) -> None:
    found = said(history, speed=speed)
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_a_range_of_a_single_value_has_no_parts(history: History) -> None:
    one = RANGE | {"spindle_speed": [0.0, 0.0]}
    assert said(history, ranges=one) == []
    (found,) = said(history, speed=1.0, ranges=one)
    assert "any distance outside" in found


def test_without_a_trained_range_the_history_says_what_is_usual(history: History) -> None:
    known = replace(history, command_low=np.array([0.0, 0.0]), command_high=np.array([100.0, 100.0]))
    (found,) = said(known, feed=150.0, ranges=None)
    assert "in the rows of the history's table it lies between 0 and 100 mm/min: 50%" in found


@pytest.mark.parametrize(
    ("feed", "low", "high", "warned"),
    [
        (-0.7, 0.0, 800.0, False),
        (-0.9, 0.0, 800.0, True),
        (-0.9, -0.7, 800.0, True),
        (-0.9, -0.9, 800.0, False),
        (-0.9, 0.0, 0.0, False),
    ],
)
def test_a_feed_is_turned_round_where_no_feed_ever_was(
    history: History, feed: float, low: float, high: float, warned: bool
) -> None:
    found = said(history, feed=feed, ranges=RANGE | {"feed_x": [low, high]})
    assert any("moves feed_x backwards as well" in text for text in found) == warned
    assert not any("moves" in text for text in said(history, speed=-100.0)), "a spindle may turn both ways"


def test_plans_are_measured_up_to_256_rows(history: History) -> None:
    assert said(history, rows=256) == []
    assert "the plan has 257 rows" in said(history, rows=257)[0]


def test_a_model_hardly_uses_the_commands_below_two_per_cent(history: History) -> None:
    assert warnings_about(history, {"shuffled_command_ratio": 1.02}) == []
    assert "a factor of 1.019" in warnings_about(history, {"shuffled_command_ratio": 1.019})[0]
    idle = warnings_about(replace(history, idle={"feed_y": 0.0}), {})
    assert idle == ["the history has no feed_y; it is taken as 0 throughout"]


def test_a_machine_with_one_feed_along_the_path_was_told_that_it_has_no_feed_y(history: History) -> None:
    """What never moved where the model learned is not missed by its forecasts."""
    standing = replace(history, idle={"feed_y": 0.0})
    assert warnings_about(standing, {"command_range": {"feed_y": [0.0, 0.0]}}) == []
    moved = warnings_about(standing, {"command_range": {"feed_y": [0.0, 800.0]}})
    assert moved == ["the history has no feed_y; it is taken as 0 throughout"]
    hundred = replace(history, idle={"feed_override": 100.0})
    assert len(warnings_about(hundred, {"command_range": {"feed_override": [0.0, 0.0]}})) == 1


@pytest.fixture(scope="module")
def asked(place: Place) -> tuple:
    model = make_model(place.table, members=3)
    with torch.no_grad():
        for parameter in model.parameters():  # fresh heads say nothing, all of them the same
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    history = read_history(place.table, model, at=30.0)
    commands = np.tile([3000.0, 800.0], (HORIZONS[-1], 1))
    return model, history, PlannedCommands("plan", "array", None, commands)


def test_it_is_said_from_the_usual_disagreement_on(asked: tuple) -> None:
    model, history, plan = asked
    assert isinstance(model, SensorModel)
    found = disagreement(model, history, plan.commands, CONTEXT)
    assert found > 1e-3
    for usual, said in ((0.99 * found, True), (1.01 * found, False), (0.0, False)):
        model.disagreement_threshold.fill_(usual)
        warnings = doubt_about(model, history, plan)
        assert bool(warnings) == said
    model.disagreement_threshold.fill_(0.5 * found)
    (words,) = doubt_about(model, history, plan)
    assert f"the 3 members of the model disagree about this plan by {found:.2g} standard deviations" in words
    assert doubt_about(model, history, plan.first(HORIZONS[-1] - 1)) == [], "a plan shorter than what was learned"


def test_only_the_rows_and_sensors_that_a_forecast_uses_count(asked: tuple) -> None:
    model, history, plan = asked
    found = disagreement(model, history, plan.commands, CONTEXT)
    sensors, commands = history.sensors.copy(), history.commands.copy()
    sensors[:-CONTEXT], commands[:-CONTEXT] = 7.0, 9.0
    earlier = replace(history, sensors=sensors, commands=commands)
    assert disagreement(model, earlier, plan.commands, CONTEXT) == pytest.approx(found, rel=1e-5)
    each = []
    for column in range(3):
        one = np.full_like(history.sensors, np.nan)
        one[:, column] = history.sensors[:, column]
        each.append(disagreement(model, replace(history, sensors=one), plan.commands, CONTEXT))
    assert np.isfinite(each).all()
    assert len({round(value, 6) for value in each}) == 3
