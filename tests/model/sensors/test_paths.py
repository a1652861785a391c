"""Sampled paths under one plan: what is shared changes nothing, and rows between the trained horizons wait."""

from dataclasses import replace

import pytest
import torch

from crossfeed.model.distribution import Mixture
from crossfeed.model.interface import Plan
from crossfeed.model.sensors.model import SensorModel
from crossfeed.windows.windows import WindowBatch
from tests.model.sensors.contexts import encode
from tests.model.sensors.small import SENSORS, stirred, windows


def followed(model: SensorModel, batch: WindowBatch, member: int, rows: int, channels: list[int]) -> Mixture:
    """What one member says of the windows under the plan of the first of them."""
    read = model.read(batch.x_BKC, batch.m_BKC, model.level(batch.x_BKC, batch.m_BKC))
    with torch.no_grad():
        said = model.member(member).decode_paths(
            read, batch.a_BKA[0], batch.future_a_BTA[0, :rows], torch.tensor(channels)
        )
    assert isinstance(said, Mixture)
    return said


def under_the_first_plan(batch: WindowBatch) -> WindowBatch:
    """The same windows after the same commands and under the same plan."""
    same = {name: getattr(batch, name)[:1].expand_as(getattr(batch, name)) for name in ("a_BKA", "future_a_BTA")}
    return replace(batch, **same)


@pytest.mark.parametrize("rows", [1, 3, 4])
def test_many_paths_under_one_plan_are_followed_as_each_would_be_forecast(rows: int) -> None:
    model, batch = stirred(members=3), under_the_first_plan(windows(size=5))
    model.variance_inflation_H.copy_(torch.tensor([1.0, 1.5, 2.5]))
    asked, slots = tuple(range(1, rows + 1)), {1: 0, 2: 1, 3: 2, 4: 2}
    with torch.no_grad():
        _, alone = model.member_mixtures(encode(model, batch), Plan.under(batch.future_a_BTA, asked))
    wider_H = model.variance_inflation_H[[slots[row] for row in asked]][:, None, None]
    for member in range(model.members):
        said = followed(model, batch, member, rows, list(range(SENSORS)))
        torch.testing.assert_close(said.mean_M, alone[member].mean_M, rtol=0, atol=1e-9)
        torch.testing.assert_close(said.weight_M, alone[member].weight_M, rtol=0, atol=1e-9)
        torch.testing.assert_close(said.scale_M, alone[member].scale_M * wider_H, rtol=0, atol=1e-9)


def test_a_sensor_that_nobody_asks_for_is_followed_as_if_it_were_absent() -> None:
    model, batch = stirred(), under_the_first_plan(windows(presence=1.0))
    hidden = batch.m_BKC.clone()
    hidden[..., 1] = False
    said = followed(model, batch, 0, 4, [0, *range(2, SENSORS)])
    without = followed(model, replace(batch, m_BKC=hidden), 0, 4, list(range(SENSORS)))
    kept = without[..., [0, *range(2, SENSORS)]]
    torch.testing.assert_close(said.mean_M, kept.mean_M, rtol=0, atol=1e-9)
    torch.testing.assert_close(said.scale_M, kept.scale_M, rtol=0, atol=1e-9)


def test_a_row_between_trained_horizons_is_that_of_the_next_one_after_waiting() -> None:
    """The embedding of a horizon between the trained ones covered 79 % where 90 % were claimed."""
    model, batch = stirred(members=2), windows()
    waited = torch.cat([batch.a_BKA[:, -1:], batch.future_a_BTA[:, :3]], 1)
    with torch.no_grad():
        three = model.decode(encode(model, batch), Plan.under(batch.future_a_BTA, (3,))).distribution
        four = model.decode(encode(model, batch), Plan.under(waited, (4,))).distribution
    torch.testing.assert_close(three.mean, four.mean)
