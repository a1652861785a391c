"""The monitor on a file that grows."""

import asyncio
import json
from pathlib import Path

from crossfeed.live.monitor import Monitor
from crossfeed.live.snapshot import Snapshot
from crossfeed.live.sources import SourceOptions, open_source
from tests.evaluation.small_machine import CONTEXT
from tests.live.conftest import LIMIT_S, Shop, within


async def _until(monitor: Monitor, wanted: "object") -> Snapshot:
    async for snapshot in monitor.updates():
        if wanted(snapshot):  # type: ignore[operator]
            return snapshot
    raise AssertionError("the monitor ended")


def test_a_forecast_follows_every_row_and_says_that_the_command_is_held(shop: Shop, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(shop.header() + shop.lines(0, CONTEXT + 2), encoding="utf-8")

    async def work() -> tuple[Snapshot, Snapshot]:
        monitor = Monitor(shop.opened, open_source(f"file:{log}", SourceOptions(mapping=shop.mapping)))
        running = asyncio.create_task(monitor.run())
        first = await _until(monitor, lambda s: s.forecast)
        with log.open("a", encoding="utf-8") as file:
            file.write(shop.lines(CONTEXT + 2, CONTEXT + 4))
        second = await _until(monitor, lambda s: s.counters.rows >= CONTEXT + 4 and s.forecast_age is not None)
        running.cancel()
        return first, second

    first, second = within(LIMIT_S, work)
    assert first.machine == "mill"
    assert first.plan.kind == "held"
    assert "held" in first.plan.sentence
    assert second.recent.times[-1] == first.recent.times[-1] + 2
    assert second.forecast != first.forecast
    for name, said in second.forecast.items():
        assert len(said.median) == len(second.horizons)
        assert all(low <= middle <= high for low, middle, high in zip(said.low, said.median, said.high)), name
    assert json.loads(json.dumps(second.as_dict()))["machine"] == "mill"
    assert set(second.lights) == set(shop.table.schema.sensor_names)
