"""One pass along the plan tells what all members say together and what each of them expects."""

import numpy as np
import pytest
import torch

from crossfeed.model.sensors.model import SensorModel
from crossfeed.scenarios.rollout import mean_rollout
from tests.control.conftest import CONTEXT, HORIZONS, logged, small_model


def asked(rows):
    table = logged()
    model = small_model(table)
    x, a = model.normaliser.transform_sensors(table.sensors), model.normaliser.transform_commands(table.commands)
    parts = (x[None, :CONTEXT], a[None, :CONTEXT], a[None, CONTEXT : CONTEXT + rows])
    return model, [torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in parts]


@pytest.mark.parametrize("rows", [3, HORIZONS[-1], HORIZONS[-1] + 5])
def test_with_or_without_members_the_same_is_said(rows):
    model, parts = asked(rows)
    alone, together = mean_rollout(model, *parts), mean_rollout(model, *parts, members=True)
    torch.testing.assert_close(alone.distribution.mean, together.distribution.mean)
    torch.testing.assert_close(alone.distribution.quantile(0.9), together.distribution.quantile(0.9))
    assert together.member_EBTC.shape == (2, 1, rows, len(model.schema.sensors))
    assert (together.apart > 0.0).any()
    assert (alone.apart == 0.0).all()


def test_members_were_decoded_a_second_time(monkeypatch):
    """Every stretch of the plan was asked for twice: once by all members together, once by each."""
    model, parts = asked(HORIZONS[-1])
    calls, say = [], SensorModel.member_mixtures
    monkeypatch.setattr(SensorModel, "member_mixtures", lambda *each: (calls.append(1), say(*each))[1])
    mean_rollout(model, *parts, members=True)
    assert len(calls) == 1
