"""A small machine with an untrained model of it, served in memory or on a real port."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossfeed.logs.table import Table
from crossfeed.studio.service import Service
from crossfeed.studio.settings import Limits, ServeSettings
from tests.evaluation.small_machine import small_table
from tests.scenarios.conftest import RANGE, make_model

if TYPE_CHECKING:
    from crossfeed.studio.gate import Gate

PATIENCE = 60.0


class EndlessWork:
    """Asks for ever whether it may go on, and says when it began and ended."""

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()

    def __call__(self, go_on: Callable[[], None]) -> None:
        self.began.set()
        try:
            while True:
                go_on()
        finally:
            self.ended.set()


@dataclass(frozen=True)
class Place:
    """What a user has on disk."""

    folder: Path
    model: Path
    log: Path
    table: Table


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("studio")
    table = small_table(runs=6, rows=60)
    table.write(folder / "log.parquet")
    make_model(table).save(folder / "model.safetensors", {"machines": ["mill"], "command_range": RANGE})
    return Place(folder, folder / "model.safetensors", folder / "log.parquet", table)


@pytest.fixture
def make_service(place: Place) -> Callable[..., Service]:
    """A service of the small machine; `limits` and the address can be changed."""
    pytest.importorskip("fastapi", reason="needs the extra 'serve'")
    pytest.importorskip("plotly", reason="needs the extra 'serve'")
    from crossfeed.studio.service import make_service as start

    def make(
        limits: dict[str, Any] | None = None, history: bool = True, speed: float = 50.0, **address: Any
    ) -> Service:
        settings = ServeSettings(limits=Limits(**(limits or {})), **{"port": 8400, **address})
        return start(place.model, settings, history=place.log if history else None, speed=speed, device="cpu")

    return make


Client = Any  # httpx.AsyncClient; the package is there only with the extras


def talk(service: Service, talking: Callable[[Client], Awaitable[Any]], **headers: str) -> Any:
    """Let a client with the token talk to the service in memory."""
    httpx = pytest.importorskip("httpx", reason="needs httpx to talk to the service in memory")
    from crossfeed.studio.app import build_app

    async def run() -> Any:
        transport = httpx.ASGITransport(build_app(service))
        given = {"authorization": f"Bearer {service.keys.token}"} | headers
        given = {name: value for name, value in given.items() if value}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400", headers=given) as client:
            return await talking(client)

    return asyncio.run(run())


@dataclass(frozen=True)
class Running:
    """A service on a real port of the loopback address."""

    service: Service
    gate: "Gate"

    @property
    def port(self) -> int:
        return self.gate.port

    @property
    def address(self) -> str:
        return self.service.settings.address(self.port)

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.service.keys.token}"}

    @property
    def link(self) -> str:
        return self.gate.link()


@contextmanager
def running(service: Service) -> Iterator[Running]:
    """The real server in a thread, from its first connection to its orderly end."""
    from crossfeed.studio.app import build_app
    from crossfeed.studio.server import listen, make_server

    gate, ready = build_app(service), threading.Event()
    listening = listen(service.settings)
    gate.port = listening.getsockname()[1]
    server = make_server(gate, service.settings, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield Running(service, gate)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
        assert not thread.is_alive()
