"""The live forecaster says what the batch forecast says, and re-encodes only what it must."""

from typing import Any

import numpy as np
import pytest

from crossfeed.errors import ConfigError, TableError
from crossfeed.model.live import LiveForecaster
from crossfeed.model.world_model import WorldModel
from tests.model import toy

NAMES = toy.SCHEMA.sensor_names + toy.SCHEMA.command_names
PLAN = {"feed_0": np.full(4, 120.0), "feed_1": np.linspace(-60.0, -40.0, 4)}


def _rows(count: int) -> list[dict[str, float | None]]:
    random = np.random.default_rng(0)
    rows: list[dict[str, float | None]] = [dict(zip(NAMES, random.normal(3.0, 2.0, size=7))) for _ in range(count)]
    for index, row in enumerate(rows):
        del row["current_1"]
        if index % 3 == 0:
            row["current_2"] = None
    return rows


def _history(rows: list[dict[str, float | None]]) -> dict[str, Any]:
    return {name: [float("nan") if row.get(name) is None else row[name] for row in rows] for name in NAMES}


def _built(kind: str) -> WorldModel:
    return toy.sensor_model() if kind == "sensors" else toy.model(toy.method({"model.instance_norm.kind": kind}))


def _count_rows(model: WorldModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    read = model.read

    def counting(x: Any, *rest: Any) -> Any:
        counts.append(x.shape[1])
        return read(x, *rest)

    monkeypatch.setattr(model, "read", counting)
    return counts


@pytest.mark.parametrize("kind", ["none", "pure", "floored", "blended", "split", "centred", "sensors"])
def test_live_forecasts_equal_batch_forecasts(kind: str) -> None:
    model = _built(kind)
    live, rows = LiveForecaster(model), _rows(11)
    for number, row in enumerate(rows):
        live.push(row)
        if number >= 7:
            wanted = model.forecast(_history(rows[: number + 1]), PLAN, [1, 3])
            found = live.forecast(PLAN, [1, 3])
            shown = [found.sensors.index(name) for name in found.measured]
            np.testing.assert_allclose(found.mean[:, shown], wanted.mean[:, shown], rtol=1e-4, atol=1e-4)
            spreads = found.standard_deviation[:, shown], wanted.standard_deviation[:, shown]
            np.testing.assert_allclose(*spreads, rtol=1e-4)
            assert found.measured == wanted.measured


@pytest.mark.parametrize("silent_from", [10, 20])
def test_a_sensor_that_falls_silent_or_comes_back_is_not_read_as_before(silent_from: int) -> None:
    model, rows = toy.sensor_model(), _rows(28)
    for row in rows[silent_from:20] if silent_from < 20 else rows[:20]:
        del row["current_0"]
    held, fresh = LiveForecaster(model, tolerance=1e6), LiveForecaster(model)
    changes = 17 if silent_from < 20 else 20  # the first window that shows other sensors than the one before
    for number, row in enumerate(rows[: changes + 1]):
        held.push(row)
        if not held.missing_rows:
            found = held.forecast(PLAN)
        if number > changes - model.config.context:
            fresh.push(row)
    wanted = fresh.forecast(PLAN)
    assert found.measured == wanted.measured
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-4)


def test_without_instance_normalisation_a_new_row_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _built("none")
    counts, live = _count_rows(model, monkeypatch), LiveForecaster(model)
    for row in _rows(11):
        live.push(row)
        if not live.missing_rows:
            live.forecast(PLAN)
    assert counts == [8, 1, 1, 1]


def test_exact_centring_encodes_the_whole_window_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _built("centred")
    counts, live = _count_rows(model, monkeypatch), LiveForecaster(model)
    for row in _rows(10):
        live.push(row)
        if not live.missing_rows:
            live.forecast(PLAN)
    assert counts == [8, 8, 8]


@pytest.mark.parametrize("kind", ["none", "centred", "sensors"])
def test_another_plan_for_the_same_rows_encodes_nothing_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = _built(kind), _rows(9)
    live, encoded = LiveForecaster(_built(kind)), 0
    context = live.model.context

    def counting(*parts: Any) -> Any:
        nonlocal encoded
        encoded += 1
        return context(*parts)

    monkeypatch.setattr(live.model, "context", counting)
    other = {name: values * 1.5 for name, values in PLAN.items()}
    for number, row in enumerate(rows):
        live.push(row)
        if live.missing_rows:
            continue
        for plan in (PLAN, other, PLAN):
            wanted = model.forecast(_history(rows[: number + 1]), plan)
            shown = [wanted.sensors.index(name) for name in wanted.measured]
            found = live.forecast(plan).mean[:, shown]
            np.testing.assert_allclose(found, wanted.mean[:, shown], rtol=1e-4, atol=1e-4)
    assert encoded == 2
    live.reset()
    for row in rows[:8]:
        live.push(row)
    live.forecast(PLAN)
    assert encoded == 3


def test_a_tolerance_holds_the_statistics_until_they_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _built("centred")
    counts, live = _count_rows(model, monkeypatch), LiveForecaster(model, tolerance=0.05)
    still = dict.fromkeys(NAMES, 3.0)
    for step in range(12):
        live.push(still | {"current_0": 3.0 + (0.001 * step if step < 10 else 5.0)})
        if not live.missing_rows:
            live.forecast(PLAN)
    assert counts == [8, 1, 1, 8, 8]


def test_missing_rows_commands_and_sensors_are_named() -> None:
    live = LiveForecaster(_built("centred"))
    live.push(_rows(1)[0])
    with pytest.raises(TableError, match="Push 7 more"):
        live.forecast(PLAN)
    with pytest.raises(TableError, match="lacks the commands feed_1"):
        live.push({"current_0": 1.0, "feed_0": 1.0})
    with pytest.raises(TableError, match="infinite"):
        live.push({"current_0": float("inf"), "feed_0": 1.0, "feed_1": 1.0})
    with pytest.raises(TableError, match="'warm'"):
        live.push({"current_0": "warm", "feed_0": 1.0, "feed_1": 1.0})  # type: ignore[dict-item]
    with pytest.raises(TableError, match="current_0 is more than"):
        live.push({"current_0": 1e39, "feed_0": 1.0, "feed_1": 1.0})
    live.reset()
    for _ in range(8):
        live.push({"feed_0": 1.0, "feed_1": 1.0})
    with pytest.raises(TableError, match="None of the rows"):
        live.forecast(PLAN)
    with pytest.raises(ConfigError, match="tolerance"):
        LiveForecaster(_built("centred"), tolerance=-1.0)
