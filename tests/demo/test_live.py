"""After the demo: machine B behind OPC UA with the locked model beside it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossfeed.demo import results as demo_live
from crossfeed.errors import ConfigError
from crossfeed.live.monitor import Monitor
from crossfeed.live.open_source import open_source
from crossfeed.studio import service as studio
from crossfeed.studio.moments import MonitoredMachine


def test_a_demo_without_a_lock_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="locked no model"):
        demo_live.locked_model(tmp_path)


def test_the_locked_model_is_served_beside_a_machine_behind_opc_ua(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("asyncua", reason="needs the extra 'live'")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "lock.json").write_text(json.dumps({"run": "best"}))
    asked: dict[str, Any] = {}
    monkeypatch.setattr(demo_live, "make_service", lambda model, _, **given: asked.update(given, model=model))
    monkeypatch.setattr(demo_live, "start", lambda _, **__: None)
    demo_live.show_live(tmp_path, port=0, open_page=False)
    assert asked["model"] == tmp_path / "study" / "runs" / "best" / "model.safetensors"
    live: studio.LiveSetup = asked["live"]
    assert live.companion is not None
    assert (live.programs or tmp_path).joinpath("face_pocket.mpf").is_file()

    async def heard() -> set[str]:
        """What a real client hears from the real server."""
        source, names = open_source(live.address), set()
        ready = asyncio.Event()
        machine = asyncio.create_task(live.companion(ready.set))  # type: ignore[misc]
        try:
            await ready.wait()
            await source.open()
            async for arrival in source.arrivals():
                names.add(getattr(arrival, "channel", ""))
                if {"spindle_power", "spindle_speed", "x_torque"} <= names:
                    return names
        finally:
            await source.close()
            machine.cancel()
            await asyncio.gather(machine, return_exceptions=True)
        return names

    async def within() -> set[str]:
        return await asyncio.wait_for(heard(), 60.0)

    assert "x_torque" in asyncio.run(within())


def test_a_companion_begins_before_the_machine_is_heard_and_ends_with_it() -> None:
    told: list[str] = []

    class Quiet:
        async def run(self) -> None:
            told.append("heard")

        async def updates(self) -> Any:
            await asyncio.Event().wait()
            yield

    async def companion(ready: Callable[[], None]) -> None:
        told.append("there")
        ready()
        try:
            await asyncio.Event().wait()
        finally:
            told.append("gone")

    monitor: Monitor = Quiet()  # type: ignore[assignment]
    asyncio.run(MonitoredMachine(None, monitor, companion).run())  # type: ignore[arg-type]
    assert told == ["there", "heard", "gone"]
