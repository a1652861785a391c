"""Learning beside the machine: it helps where the machine differs, keeps a journal, and is taken back when it hurts."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from crossfeed.evaluation.adaptation.online import OnlineConfig
from crossfeed.evaluation.metrics import LEVELS
from crossfeed.evaluation.opened_model import open_model
from crossfeed.live.learning import JOURNAL, LEARNED, LiveLearner, TrackedIntervals, _widened
from crossfeed.live.snapshot import Row
from crossfeed.model.distribution import Gaussian
from crossfeed.model.forecast import Forecast
from tests.live.conftest import Shop


def _rows(shop: Shop, count: int) -> list[Row]:
    table = shop.table
    names = (*table.schema.sensor_names, *table.schema.command_names)
    values = np.concatenate([table.sensors, table.commands], axis=1)[:60]
    found = []
    for number in range(count):
        row = [None if np.isnan(value) else float(value) for value in values[number % 60]]
        found.append(Row(1000.0 + number, dict(zip(names, row, strict=True)), number == 0))
    return found


def _journal(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / JOURNAL).read_text(encoding="utf-8").splitlines()]


def test_an_untrained_model_learns_the_machine_and_the_locked_one_is_not_touched(shop: Shop, tmp_path: Path) -> None:
    opened = shop.opened
    before = {name: value.clone() for name, value in opened.model.state_dict().items()}
    learner = LiveLearner(opened, tmp_path, OnlineConfig(mode="all", learning_rate=5e-3, every=4, steps=4))
    rows = _rows(shop, 90)
    for end in range(1, len(rows) + 1):
        learner.observe(rows[:end])
    learner.close()
    assert learner.updates > 0
    assert learner.ratio is not None
    assert learner.ratio < 0.98
    assert all(torch.equal(value, before[name]) for name, value in opened.model.state_dict().items())
    events = [line["event"] for line in _journal(tmp_path)]
    assert events[0] == "start"
    assert events[-1] == "end"
    assert "update" in events
    assert "adapted_live" in open_model(tmp_path / LEARNED, "cpu").provenance


def test_the_guard_goes_back_to_the_locked_model_when_learning_hurts(shop: Shop, tmp_path: Path) -> None:
    opened = shop.opened
    learner = LiveLearner(opened, tmp_path, OnlineConfig(mode="all", learning_rate=0.5, every=4, steps=4))
    rows = _rows(shop, 90)
    for end in range(1, len(rows) + 1):
        learner.observe(rows[:end])
        if learner.returns:
            break
    assert learner.returns == 1
    for name, value in learner.model.state_dict().items():
        assert torch.equal(value, opened.model.state_dict()[name]), name
    assert _journal(tmp_path)[-1]["event"] == "guard"


def test_tracked_intervals_widen_until_they_hold_what_they_promise(shop: Shop) -> None:
    schema = shop.table.schema
    draw = np.random.default_rng(0)
    tracked = TrackedIntervals((1, 2), 1.0)
    rows: list[Row] = []
    inside = []
    wide: Forecast | None = None
    for number in range(300):
        values: dict[str, float | None] = {name: float(draw.normal()) * 5.0 for name in schema.sensor_names}
        rows.append(Row(float(number), values, number == 0))
        shape = (2, len(schema.sensors))
        said = Gaussian(torch.zeros(shape, dtype=torch.float64), torch.ones(shape, dtype=torch.float64))
        if number > 100 and wide is not None:
            low, high = wide.quantiles((0.05, 0.95))
            inside.append(low[0, 0] <= values[schema.sensor_names[0]] <= high[0, 0])
        wide = tracked.widen(rows[-1], Forecast((1, 2), schema.sensor_names, schema.sensor_names, said), rows)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.06)


def test_tracked_widths_are_counted_in_predicted_deviations() -> None:
    """All tests had forecasts with a deviation of one, where a product and a quotient are the same."""
    said = Gaussian(torch.full((1, 1), 3.0).double(), torch.full((1, 1), 4.0).double())
    width_LHC = np.linspace(0.5, 2.5, len(LEVELS))[:, None, None]
    wide = _widened(said, width_LHC)
    for level, width in zip(sorted(LEVELS), width_LHC.ravel(), strict=True):
        assert wide.quantile(0.5 - level / 2.0).item() == pytest.approx(3.0 - 4.0 * width)
        assert wide.quantile(0.5 + level / 2.0).item() == pytest.approx(3.0 + 4.0 * width)
    assert (wide.median.item(), wide.mean.item()) == (3.0, 3.0)


def test_nothing_is_learned_after_the_end(shop: Shop, tmp_path: Path) -> None:
    learner = LiveLearner(shop.opened, tmp_path, OnlineConfig(mode="all", learning_rate=5e-3, every=4, steps=4))
    rows = _rows(shop, 60)
    learner.close()
    before = len(_journal(tmp_path))
    assert not any(learner.observe(rows[:end]) for end in range(1, len(rows) + 1))
    assert (learner.updates, len(_journal(tmp_path))) == (0, before)
