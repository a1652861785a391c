"""Learning on request, from a machine behind a real server to the page: it is told, journalled and taken back."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("fastapi", reason="needs the extra 'serve'")
pytest.importorskip("websockets", reason="needs the extra 'serve'")

from crossfeed.errors import StorageError
from crossfeed.evaluation.adaptation.online import OnlineConfig
from crossfeed.evaluation.opened_model import open_model
from crossfeed.live.learning import JOURNAL, LEARNED, LiveLearner
from crossfeed.live.monitor import Monitor
from crossfeed.live.mtconnect import MtconnectSource
from crossfeed.logs.table import Group, Table
from crossfeed.schema import canonical
from crossfeed.sim.servers.mtconnect_agent import MtconnectAgent
from crossfeed.sim.servers.serve import SimulatedFeed, serve
from crossfeed.studio.engine import ready_to_answer
from crossfeed.studio.moments import MonitoredMachine
from crossfeed.studio.service import LiveSetup, Service, make_service
from crossfeed.studio.settings import Keys, ServeSettings
from tests.live.servers import free_port
from tests.scenarios.conftest import make_model
from tests.studio.conftest import PATIENCE, running

SPEED = 30.0
Wanted = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model of what a simulated machine tells: there is much to learn."""
    steps = SimulatedFeed("spinner_620", rate_hz=1.0).steps()
    values = [next(steps).values for _ in range(300)]
    schema = canonical()
    sensors = np.array([[one[name] for name in schema.sensor_names] for one in values])
    commands = np.array([[one[name] for name in schema.command_names] for one in values])
    groups = tuple(Group("spinner_620", f"{at}", f"run {at}", "", at, at + 30) for at in range(0, 300, 30))
    table = Table(schema, groups, np.arange(300.0), sensors, commands, 1.0, {})
    path = tmp_path_factory.mktemp("learning") / "model.safetensors"
    make_model(table).save(path, {"machines": ["spinner_620"], "row_period": 1.0})
    return path


class Simulator:
    """A machine behind a real MTConnect agent, run by whoever serves the model."""

    def __init__(self) -> None:
        self.feed = SimulatedFeed("spinner_620", rate_hz=2.0)
        self.agent = MtconnectAgent(self.feed, free_port())

    async def __call__(self, ready: Callable[[], None]) -> None:
        await serve(self.feed, self.agent, speed=SPEED, on_ready=lambda _: ready())


def _hear(service: Service, wanted: Wanted) -> dict[str, Any]:
    """Serve on a real port and listen to the stream until it tells what is wanted."""
    from websockets.asyncio.client import connect

    async def listen(address: str, headers: dict[str, str]) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            async with connect(address, additional_headers=headers, max_size=None) as stream:
                while True:
                    told: dict[str, Any] = json.loads(await stream.recv())
                    if wanted(told):
                        return told

    with running(service) as house:
        return asyncio.run(listen(f"{house.address.replace('http', 'ws')}/api/stream", house.headers))


def _journal(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / JOURNAL).read_text(encoding="utf-8").splitlines()]


def _learning(model: Path, folder: Path, config: OnlineConfig) -> Service:
    simulator, opened = Simulator(), open_model(model, "cpu")
    answering = ready_to_answer(opened)
    learner = LiveLearner(opened, folder, config)
    source = MtconnectSource(simulator.agent.address)
    monitor = Monitor(answering, source, learner=learner, speed=SPEED, waits_for_source=True)
    return Service(
        answering, ServeSettings(port=0), Keys.fresh(), None, MonitoredMachine(answering, monitor, simulator)
    )


def test_a_served_model_learns_from_the_machine_and_the_locked_file_is_not_touched(model: Path, tmp_path: Path) -> None:
    before, simulator = hashlib.sha256(model.read_bytes()).hexdigest(), Simulator()
    live = LiveSetup(simulator.agent.address, learn=tmp_path / "learned", companion=simulator)
    service = make_service(model, ServeSettings(port=0), speed=SPEED, device="cpu", live=live)
    told = _hear(service, lambda state: "steps on" in state["learning"] and state["forecast"])
    assert told["lights"]
    for said in told["forecast"].values():
        assert all(low <= middle <= high for low, middle, high in zip(said["low"], said["median"], said["high"]))
    events = _journal(tmp_path / "learned")
    assert [events[0]["event"], events[1]["event"], events[-1]["event"]] == ["start", "update", "end"]
    assert events[-1]["updates"] >= 2
    assert hashlib.sha256(model.read_bytes()).hexdigest() == before
    learned, locked = open_model(tmp_path / "learned" / LEARNED, "cpu"), open_model(model, "cpu")
    assert learned.provenance["adapted_live"]["from"] == locked.sha256
    weights = zip(learned.model.state_dict().values(), locked.model.state_dict().values(), strict=True)
    assert any(not torch.equal(one, other) for one, other in weights)


@pytest.mark.parametrize(("rate", "why"), [(0.5, "worse than the locked model"), (1e18, "locked model")])
def test_the_guard_takes_back_on_the_page_what_was_learned_badly(
    model: Path, tmp_path: Path, rate: float, why: str
) -> None:
    service = _learning(model, tmp_path, OnlineConfig(mode="all", learning_rate=rate, every=4, steps=4))
    told = _hear(service, lambda state: "went back to the locked model" in state["learning"] and state["forecast"])
    assert all(np.isfinite(said["median"]).all() for said in told["forecast"].values())
    assert not any("no number" in light["sentence"] for light in told["lights"].values())
    guard = next(line for line in _journal(tmp_path) if line["event"] == "guard")
    assert why in guard["what"]


def test_a_journal_that_cannot_be_written_cost_the_forecasts(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "learned"
    service = _learning(model, folder, OnlineConfig(every=4))
    (folder / JOURNAL).unlink()
    (folder / JOURNAL).mkdir()
    told = _hear(service, lambda state: "stopped" in state["learning"] and state["forecast"])
    assert "journal" in told["learning"]
    assert told["verdict"]["sentence"]


def test_a_folder_that_cannot_be_used_is_said_before_anybody_connects(model: Path, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("here already", encoding="utf-8")
    with pytest.raises(StorageError, match="journal"):
        make_service(model, ServeSettings(port=0), device="cpu", live=LiveSetup("http://127.0.0.1:9", learn=taken))
