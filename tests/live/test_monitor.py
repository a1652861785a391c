"""The monitor on a file that grows."""

import asyncio
import json
from pathlib import Path

import pytest

from crossfeed.errors import LogError
from crossfeed.live.monitor import Monitor
from crossfeed.live.mtconnect import MtconnectSource
from crossfeed.live.open_source import GrowingFile, SourceOptions, open_source
from crossfeed.live.snapshot import Snapshot
from crossfeed.logs.declaration import LogFormat
from crossfeed.sim.servers.mtconnect_agent import MtconnectAgent
from crossfeed.sim.servers.serve import SimulatedFeed
from tests.evaluation.small_machine import CONTEXT
from tests.live.conftest import LIMIT_S, Shop, within
from tests.live.servers import free_port


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
    assert json.loads(json.dumps(second.to_dict()))["machine"] == "mill"
    assert set(second.lights) == set(shop.table.schema.sensor_names)


class LateMachine(GrowingFile):
    """Not there before its file is, as a server that is switched on later."""

    async def open(self) -> LogFormat:
        if not self.path.exists():
            raise LogError("There is no machine here.")
        return await super().open()


def test_a_machine_that_was_switched_on_later_was_never_heard(shop: Shop, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    lines = shop.header() + shop.lines(0, CONTEXT + 2)

    async def work() -> tuple[Snapshot, Snapshot]:
        monitor = Monitor(shop.opened, LateMachine(log, shop.mapping), waits_for_source=True)
        running = asyncio.create_task(monitor.run())
        waiting = await _until(monitor, lambda s: s.verdict.colour == "red")
        log.write_text(lines, encoding="utf-8")
        heard = await _until(monitor, lambda s: s.forecast)
        running.cancel()
        return waiting, heard

    waiting, heard = within(LIMIT_S, work)
    assert "tried again" in waiting.verdict.sentence
    assert waiting.lights == {}
    assert heard.machine == "mill"
    assert "tried again" not in heard.verdict.sentence


def test_without_patience_a_machine_that_is_not_there_is_an_error(shop: Shop) -> None:
    agent = MtconnectAgent(SimulatedFeed("spinner_620"), free_port())
    monitor = Monitor(shop.opened, MtconnectSource(agent.address))
    with pytest.raises(LogError, match="no MTConnect agent"):
        within(LIMIT_S, monitor.run)
    assert monitor.snapshot().verdict.colour == "red"
