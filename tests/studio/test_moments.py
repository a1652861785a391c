"""A live machine beside the service: its rows reach the page and the what-ifs."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.live.monitor import Monitor
from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.studio.engine import ready_to_answer
from crossfeed.studio.moments import MonitoredMachine, TableMoments, TableReplay, live_content
from crossfeed.studio.requests import PlanRequest, RefusalError, WhatIfRequest
from crossfeed.studio.service import Service
from crossfeed.studio.settings import Keys, ServeSettings
from tests.evaluation.small_machine import CONTEXT
from tests.live.conftest import LIMIT_S, Shop, shop, within

pytest.importorskip("prometheus_client", reason="needs the extra 'serve'")

__all__ = ["shop"]


def test_a_what_if_starts_from_the_newest_live_row_and_intervals_are_counted(shop: Shop, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(shop.header() + shop.lines(0, CONTEXT - 2), encoding="utf-8")
    opened = ready_to_answer(shop.opened)

    async def work() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        source = open_source(f"file:{log}", SourceOptions(mapping=shop.mapping))
        machine = MonitoredMachine(opened, Monitor(opened, source))
        service = Service(opened, ServeSettings(), Keys.fresh(), None, machine)
        async with service.running():
            with pytest.raises(RefusalError, match="Too few live rows"):
                service.engine.moment(WhatIfRequest())
            for row in range(CONTEXT - 2, CONTEXT + 12):
                with log.open("a", encoding="utf-8") as file:
                    file.write(shop.lines(row, row + 1))
                async for snapshot in machine.updates():
                    newest = snapshot.recent.times[-1:]
                    if newest and newest[0] >= 1.7e9 + row - 1 and (snapshot.forecast or row < CONTEXT + 2):
                        break
            asked = WhatIfRequest(plans=[PlanRequest(), PlanRequest(spindle=80.0)], samples=20)
            told = await service.long_work.do(lambda go_on: service.engine.compare(asked, go_on))
            return live_content(snapshot), told, machine.calibration()

    content, told, so_far = within(LIMIT_S, work)
    assert content["machine"] == told["history"]["machine"] == "mill"
    assert content["plan"]["kind"] == "held"
    assert next(iter(told["plans"])) == "the last command, held"
    newest = told["history"]["sensors"]["power"][-1]
    assert abs(shop.table.sensors[CONTEXT : CONTEXT + 12, 1] - newest).min() < 1e-4
    assert so_far["power"]["forecasts"] >= 1
    assert 0.0 <= so_far["power"]["inside90"] <= 1.0


def test_a_table_is_played_back_through_the_monitor_row_by_row_and_session_by_session(shop: Shop) -> None:
    opened = ready_to_answer(shop.opened)
    first = shop.table.groups[0]
    replay = TableReplay(TableMoments(shop.table, opened, "log.parquet"), speed=1000.0)
    machine = MonitoredMachine(opened, Monitor(opened, replay, follower=replay, speed=1000.0))

    async def work() -> None:
        running = asyncio.create_task(machine.run())
        seen = [machine.snapshot()]
        async for snapshot in machine.monitor.updates():
            seen.append(snapshot)
            if snapshot.counters.rows > len(first) + CONTEXT + 2 and snapshot.forecast:
                break
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        sessions = {snapshot.source.rpartition(" ")[2] for snapshot in seen if snapshot.forecast}
        assert {group.session for group in shop.table.groups[:2]} <= sessions
        for snapshot in (each for each in seen if each.forecast):
            moment = snapshot.recent.times[-1]
            history = replay.history(moment)
            told = [snapshot.recent.sensors[name][-1] for name in history.schema.sensor_names]
            np.testing.assert_array_equal(history.sensors[-1], told)  # the page finds its moment by these
            plan = replay.plan({}, moment, {}, steps=4)
            planned = np.array([plan.commands[name] for name in history.schema.command_names]).T
            logged = history.following_commands[:4]
            np.testing.assert_allclose(planned[: len(logged)], logged)
            assert ("the last one held" in plan.sentence) == (len(logged) < 4)
            assert not len(logged) or (planned[len(logged) :] == logged[-1]).all()
            assert "clock" not in snapshot.verdict.sentence

    within(LIMIT_S, work)
    assert machine.calibration()["power"]["forecasts"] > 0


def test_imports_for_the_machine_kept_the_first_page_waiting(shop: Shop) -> None:
    """What runs beside the service begins when connections are taken, not while the link is still to be printed."""

    class Noted(MonitoredMachine):
        begun = False

        async def run(self) -> None:
            self.begun = True
            await asyncio.Event().wait()

    async def work() -> tuple[bool, bool]:
        opened = shop.opened
        source = open_source("file:none.csv", SourceOptions(mapping=shop.mapping))
        machine = Noted(opened, Monitor(opened, source))
        service = Service(opened, ServeSettings(), Keys.fresh(), None, machine)
        service.taking_connections = asyncio.Event()
        async with service.running():
            await asyncio.sleep(0)
            before = machine.begun
            service.taking_connections.set()
            while not machine.begun:
                await asyncio.sleep(0)
            return before, machine.begun

    assert within(LIMIT_S, work) == (False, True)


def test_secured_machines_could_not_be_served(shop: Shop, tmp_path: Path) -> None:
    """The options of a secured OPC UA connection reach the source, and what is wrong with them is said at once."""
    model = str(shop.folder / "model.safetensors")
    address = ["serve", model, "--live", "opc.tcp://127.0.0.1:9", "--port", "0"]
    alone = CliRunner().invoke(app, [*address, "--live-security", "Basic256Sha256"])
    assert "who we are and whom we trust" in str(alone.exception)
    unknown = CliRunner().invoke(app, [*address, "--live-security", "None"])
    assert "no security policy" in str(unknown.exception)
    login = tmp_path / "login.yaml"
    login.write_text("user: a\npassword: b\n", encoding="utf-8")
    login.chmod(0o644)
    open_to_all = CliRunner().invoke(app, [*address, "--live-credentials", str(login)])
    assert "Others may read" in str(open_to_all.exception)
