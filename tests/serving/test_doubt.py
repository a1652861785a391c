"""A plan is unlike what was learned where members disagree more than usual, and only a whole plan is judged."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crossfeed.model.sensors.model import SensorModel
from crossfeed.serving.history import read_history
from crossfeed.serving.plan import PlannedCommands
from crossfeed.serving.warnings import disagreement, doubt_about
from tests.evaluation.small_machine import CONTEXT, HORIZONS
from tests.serving.conftest import Place, make_model


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
