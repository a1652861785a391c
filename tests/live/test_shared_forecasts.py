"""Machines share a pass of the model, and none of them can tell: the numbers are those it would have alone."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import TableError
from crossfeed.live import monitor as monitor_module
from crossfeed.live.monitor import DueWindow, Monitor, SharedForecasts, forecast_together
from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.live.trust import ForecastSummary
from crossfeed.model.live import LiveForecaster, packed
from crossfeed.model.world_model import WorldModel
from tests.live.conftest import LIMIT_S, Shop, within
from tests.model import toy

MODELS = {
    "sensors": packed(toy.sensor_model()),
    "jepa": packed(toy.model(toy.method({"model.instance_norm.kind": "centred"}))),
}


def _due(model: WorldModel, seed: int, absent: set[str]) -> DueWindow:
    draw = np.random.default_rng(seed)
    forecaster = LiveForecaster(model)
    names = toy.SCHEMA.sensor_names + toy.SCHEMA.command_names
    for _ in range(model.config.context):
        row = dict(zip(names, draw.normal(3.0, 2.0, size=len(names)).tolist(), strict=True))
        forecaster.push({name: value for name, value in row.items() if name not in absent})
    return DueWindow(forecaster, draw.normal(0.0, 50.0, size=(4, 2)))


@settings(max_examples=20)
@given(
    network=st.sampled_from(sorted(MODELS)),
    absent=st.lists(st.sets(st.sampled_from(toy.SCHEMA.sensor_names), max_size=4), min_size=1, max_size=6),
)
def test_windows_that_share_a_pass_get_the_numbers_they_would_get_alone(network: str, absent: list[set[str]]) -> None:
    windows = [_due(MODELS[network], seed, gone) for seed, gone in enumerate(absent)]
    for window, found in zip(windows, forecast_together(windows), strict=True):
        alone = window.forecaster.forecast(window.commands)
        wanted = ForecastSummary.of(alone.distribution)
        assert found.forecast.measured == alone.measured
        shown = [alone.sensors.index(name) for name in alone.measured]
        np.testing.assert_allclose(found.forecast.mean[:, shown], alone.mean[:, shown], rtol=1e-4, atol=1e-4)
        for name in ("median", "low", "high", "own_crps"):
            pair = (getattr(summary, name)[:, shown] for summary in (found.summary, wanted))
            np.testing.assert_allclose(*pair, rtol=1e-3, atol=1e-3)
        single = forecast_together([window])[0]
        assert (found.doubt is None) == (single.doubt is None) == (network == "jepa")
        if found.doubt is not None and single.doubt is not None:
            assert found.doubt == pytest.approx(single.doubt, rel=1e-3)


def test_a_bad_window_fails_alone_and_one_that_is_not_complete_gets_nothing() -> None:
    model = MODELS["sensors"]
    good, bad = _due(model, 0, set()), _due(model, 1, set())
    bad.commands[0, 0] = 1e12

    async def work() -> list[Any]:
        shared = SharedForecasts(model)
        asked = (lambda: good, lambda: bad, lambda: None, lambda: good)
        return await asyncio.gather(*(shared.ask(prepare) for prepare in asked), return_exceptions=True)

    first, spoiled, nothing, last = within(LIMIT_S, work)
    assert isinstance(spoiled, TableError)
    assert nothing is None
    np.testing.assert_allclose(first.summary.median, last.summary.median, rtol=1e-4, atol=1e-4)


def test_monitors_that_are_due_together_go_through_the_model_together(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.csv"
    log.write_text(shop.header() + shop.lines(0, 20), encoding="utf-8")
    options, opened = SourceOptions(mapping=shop.mapping), shop.opened
    sizes: list[int] = []
    arrived = threading.Semaphore(0)
    whole = monitor_module.forecast_together

    def counting(windows: Any) -> Any:
        sizes.append(len(windows))
        return whole(windows)

    monkeypatch.setattr(monitor_module, "forecast_together", counting)

    async def work() -> list[Any]:
        shared = SharedForecasts(opened.model)
        # The thread of the pass is held until all have asked, as by a pass that takes long.
        holding = asyncio.create_task(shared.ask(lambda: arrived.acquire(timeout=LIMIT_S) and None))
        ask = shared.ask
        waiting = 0

        async def counted(prepare: Any) -> Any:
            nonlocal waiting
            waiting += 1
            if waiting == 3:
                arrived.release()
            return await ask(prepare)

        monkeypatch.setattr(shared, "ask", counted)
        monitors = [Monitor(opened, open_source(f"file:{log}", options), forecasts=shared) for _ in range(3)]
        running = [asyncio.create_task(monitor.run()) for monitor in monitors]
        found = []
        for monitor in monitors:
            async for snapshot in monitor.updates():
                if snapshot.forecast:
                    found.append(snapshot.forecast)
                    break
        await holding
        for task in running:
            task.cancel()
        return found

    first, *others = within(LIMIT_S, work)
    assert max(sizes) >= 2
    for other in others:
        for name, said in other.items():
            np.testing.assert_allclose(said.median, first[name].median, rtol=1e-4, atol=1e-4)
