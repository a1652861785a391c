"""The real server on a loopback port with narrow limits, and ways to talk to it."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crossfeed.studio.service import Service
from tests.studio.conftest import PATIENCE, Running, running

pytest.importorskip("fastapi", reason="needs the extra 'serve'")
pytest.importorskip("websockets", reason="needs the extra 'serve'")
httpx = pytest.importorskip("httpx", reason="needs httpx to talk to the service")

LIMITS = {"body_bytes": 4096, "idle_seconds": PATIENCE, "connections": 100, "streams": 3, "body_seconds": 1.0}


@pytest.fixture
def server(make_service: Callable[..., Service]) -> Iterator[Running]:
    with running(make_service(LIMITS, port=0)) as found:
        yield found


def healthy(server: Running) -> bool:
    """Whether somebody with the token is still answered."""
    answer = httpx.get(f"{server.address}/api/model", headers=server.headers, timeout=PATIENCE)
    return bool(answer.status_code == 200)


def stream(server: Running, **headers: str) -> Any:
    from websockets.sync.client import connect

    address = f"{server.address.replace('http', 'ws', 1)}/api/stream"
    origin = headers.pop("origin", None)
    return connect(address, additional_headers=headers, origin=origin, open_timeout=PATIENCE, close_timeout=1.0)  # type: ignore[arg-type]


def raw(server: Running, sent: bytes, last: bool = True) -> bytes:
    """Everything the server says to these bytes, the last ones or not, until it hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        connection.sendall(sent)
        if last:
            connection.shutdown(socket.SHUT_WR)
        heard = b""
        while piece := connection.recv(65536):
            heard += piece
        return heard
