"""Widening after training: enough for nine in ten, never narrower, and no more than is needed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from crossfeed.logs.table import Table
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.training import reading as room
from crossfeed.training.data import TrainingData
from crossfeed.training.reading import NOMINAL, WIDENINGS, WindowReader, calibrate
from crossfeed.training.run import train
from crossfeed.windows.windows import WindowBatch, WindowSet
from tests.training.sensor_run import sensor_config, sensor_model


def with_spread(model: SensorModel, factor: float) -> SensorModel:
    """The same forecasts with another spread: what a network would say that knows its windows too well."""
    model.network.head.register_forward_hook(lambda _, __, said: replace(said, scale_M=factor * said.scale_M))
    return model


def share_inside(model: SensorModel, windows: WindowSet) -> Tensor:
    """How many of the present targets lie inside the 90 % interval, at each horizon."""
    inside_H, present_H = torch.zeros(2, len(model.horizons), dtype=torch.float64)
    reader = WindowReader(model, windows, "float32", 64, captured=False, latents=False)
    for reading in reader(torch.arange(len(windows))):
        low, high = (reading.distribution.quantile(level) for level in (0.05, 0.95))
        held_BHC = (low - 1e-5 <= reading.future_x_BHC) & (reading.future_x_BHC <= high + 1e-5)
        inside_H += (held_BHC & reading.future_m_BHC).sum((0, 2))
        present_H += reading.future_m_BHC.sum((0, 2))
    return inside_H / present_H


@pytest.fixture
def parts(table: Table) -> tuple[SensorModel, TrainingData]:
    return sensor_model(table)


def test_a_model_that_is_wide_enough_is_left_alone(parts: tuple[SensorModel, TrainingData]) -> None:
    model, data = with_spread(parts[0], 20.0), parts[1]
    model.variance_inflation_H.fill_(2.0)
    calibrate(model, data.validation)
    assert model.variance_inflation_H.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("factor", [0.5, 0.8])
def test_a_narrower_model_is_widened_until_nine_in_ten_are_held(
    parts: tuple[SensorModel, TrainingData], factor: float
) -> None:
    model, data = with_spread(parts[0], 3.0), parts[1]
    calibrate(model, data.validation)
    honest = model.variance_inflation_H.max().item()
    assert honest < WIDENINGS[-1]
    narrow = with_spread(model, factor * honest)
    narrow.variance_inflation_H.fill_(1.0)
    assert (share_inside(narrow, data.validation) < NOMINAL).any()
    calibrate(narrow, data.validation)
    assert (narrow.variance_inflation_H >= 1.0).all()
    assert narrow.variance_inflation_H.max() > 1.0
    share_H = share_inside(narrow, data.validation)
    assert (share_H >= NOMINAL - 1e-3).all()
    widened = narrow.variance_inflation_H > 1.0
    narrow.variance_inflation_H.sub_(torch.where(widened, 0.05, 0.0))
    assert (share_inside(narrow, data.validation)[widened] < NOMINAL + 1e-3).all()


def test_a_hopeless_model_gets_the_widest(parts: tuple[SensorModel, TrainingData]) -> None:
    model, data = with_spread(parts[0], 1e-4), parts[1]
    calibrate(model, data.validation)
    assert model.variance_inflation_H.tolist() == pytest.approx([3.0] * 3)
    assert WIDENINGS[-1] == pytest.approx(3.0)


def test_a_horizon_without_any_target_is_left_alone(parts: tuple[SensorModel, TrainingData]) -> None:
    """Nothing is held where nothing is measured: such a horizon was given the widest intervals of all."""
    model, data = parts
    data.validation.m_NC.zero_()
    calibrate(model, data.validation)
    assert model.variance_inflation_H.tolist() == [1.0, 1.0, 1.0]


def test_calibration_repeats_and_forgets_what_was_set_before(parts: tuple[SensorModel, TrainingData]) -> None:
    model, data = with_spread(parts[0], 0.6), parts[1]
    found = []
    for before in (1.0, 3.0, 0.1):
        torch.manual_seed(int(10 * before))
        model.variance_inflation_H.fill_(before)
        model.train()
        calibrate(model, data.validation)
        found.append(model.variance_inflation_H.tolist())
    assert found[0] == found[1] == found[2]
    assert max(found[0]) > 1.0


def test_many_windows_are_judged_by_some_of_them_from_first_to_last(
    parts: tuple[SensorModel, TrainingData], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = parts
    monkeypatch.setattr(room, "MOST_WINDOWS", 10)
    seen: list[Tensor] = []
    gather = data.validation.batch

    def watched(index_B: Tensor) -> WindowBatch:
        seen.append(index_B)
        return gather(index_B)

    monkeypatch.setattr(data.validation, "batch", watched)
    calibrate(model, data.validation)
    index_W = torch.cat(seen)
    assert len(index_W.unique()) == 10
    assert (index_W[0].item(), index_W[-1].item()) == (0, len(data.validation) - 1)


def test_weights_are_not_touched(parts: tuple[SensorModel, TrainingData]) -> None:
    model, data = parts
    before = {name: tensor.clone() for name, tensor in model.state_dict().items() if name != "variance_inflation_H"}
    calibrate(model, data.validation)
    after = model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_a_trained_model_carries_its_widening(tmp_path: Path, table: Table) -> None:
    result = train(table, sensor_config(), tmp_path / "run")
    model = WorldModel.load(result.model)
    assert isinstance(model, SensorModel)
    stored = model.variance_inflation_H.clone()
    calibrate(model, sensor_model(table)[1].validation)
    assert torch.equal(model.variance_inflation_H, stored)
