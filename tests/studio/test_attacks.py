"""The real server under things that should not happen: it refuses, says so, and stays up."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from crossfeed.studio.service import Service
from tests.studio.conftest import PATIENCE, EndlessWork, Running, running
from tests.studio.real_server import LIMITS, healthy, httpx, raw, server

__all__ = ["server"]

pytest.importorskip("fastapi", reason="needs the extra 'serve'")


def test_two_hundred_silent_connections_do_not_fill_the_house(make_service: Callable[..., Service]) -> None:
    with running(make_service({**LIMITS, "idle_seconds": 0.5}, port=0)) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port), PATIENCE) for _ in range(200)]
        for number, one in enumerate(silent):
            with one, contextlib.suppress(ConnectionError):
                if number < 50:
                    one.sendall(b"GET / HTTP/1.1\r\nHost: ")
                assert one.recv(4096) == b""  # hung up on
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(httpx.HTTPError):  # half a second may be too short on a busy machine
                if healthy(server):
                    return
        raise AssertionError("the service did not come back")


def test_of_two_hundred_clients_at_once_the_first_are_served(make_service: Callable[..., Service]) -> None:
    async def ask(server: Running) -> list[Any]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(headers=server.headers, limits=limits, timeout=PATIENCE) as client:
            asked = (
                client.post(f"{server.address}/api/forecast", json={"session": "mill/run0/session0", "at": 20.0})
                for _ in range(200)
            )
            return await asyncio.gather(*asked, return_exceptions=True)

    # On a busy machine two hundred clients in one process need longer than a second for their bodies.
    with running(make_service(LIMITS | {"body_seconds": PATIENCE}, port=0)) as server:
        answers = asyncio.run(ask(server))
        # Connections too many are hung up on; the first ones are served as if they were alone.
        heard = [answer.status_code for answer in answers if not isinstance(answer, httpx.TransportError)]
        assert set(heard) == {200}
        assert healthy(server)


def test_oversized_bodies_are_refused_whether_announced_or_not(server: Running) -> None:
    address = f"{server.address}/api/programs"
    announced = httpx.post(address, headers=server.headers, files={"file": ("a.mpf", b"G0\n" * 9000)}, timeout=PATIENCE)
    assert announced.status_code == 413
    assert announced.json()["error"]["expected"] == "at most 0.00390625 MiB"
    pieces = (b"x" * 1000 for _ in range(30))
    assert httpx.post(address, headers=server.headers, content=pieces, timeout=PATIENCE).status_code == 413
    assert healthy(server)


def test_a_body_that_never_comes_is_given_up(server: Running) -> None:
    head = f"POST /api/forecast HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 50\r\n"
    head += f"Authorization: Bearer {server.service.keys.token}\r\n\r\n{{"
    assert b" 408 " in raw(server, head.encode(), last=False)
    assert healthy(server)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
        b"GET /../../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 200_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz",
    ],
)
def test_nonsense_on_the_wire_is_refused(server: Running, sent: bytes) -> None:
    try:
        heard = raw(server, sent)
    except OSError:  # hung up on while we were still talking
        heard = b""
    assert heard == b"" or heard.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert b"root:" not in heard
    assert healthy(server)


def test_work_ends_when_its_client_hangs_up(make_service: Callable[..., Service]) -> None:
    service = make_service({"what_ifs": 1}, port=0)
    endless = EndlessWork()
    service.engine.compare = lambda _, go_on: endless(go_on)  # type: ignore[method-assign, assignment]
    with running(service) as server:
        body = b"{}"
        head = f"POST /api/what-if HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Type: application/json\r\nAuthorization: Bearer {service.keys.token}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
            connection.sendall(head.encode() + body)
            assert endless.began.wait(PATIENCE)
        assert endless.ended.wait(PATIENCE)
        assert healthy(server)
        assert "crossfeed_cancelled_total 1" in service.metrics.text()
