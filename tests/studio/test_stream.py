"""The WebSocket of the real server: every moment is told, and whoever breaks its rules ends alone."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from crossfeed.studio.service import Service
from tests.studio.conftest import PATIENCE, Running, running
from tests.studio.real_server import healthy, httpx, server, stream

__all__ = ["server"]

pytest.importorskip("fastapi", reason="needs the extra 'serve'")


def hear_out(socket_: Any) -> None:
    """Listen until the other side hangs up."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        socket_.recv(PATIENCE)


def test_the_stream_tells_every_new_moment(server: Running) -> None:
    with stream(server, **server.headers) as socket_:
        rows = [json.loads(socket_.recv(PATIENCE))["counters"]["rows"] for _ in range(5)]
    assert rows == sorted(rows)
    assert rows[0] < rows[-1]
    live = httpx.get(f"{server.address}/api/live", headers=server.headers, timeout=PATIENCE).json()
    assert live["forecast"]["power"]["low"][0] <= live["forecast"]["power"]["high"][0]
    assert live["plan"]["sentence"].startswith("the commands")
    assert 'crossfeed_live_light{sensor="power"}' in server.service.metrics.text()


def test_streams_were_cut_when_the_patience_with_silent_connections_ended(make_service: Callable[..., Service]) -> None:
    with running(make_service({"idle_seconds": 0.2}, port=0)) as server, stream(server, **server.headers) as socket_:
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            assert json.loads(socket_.recv(PATIENCE))["machine"]


def test_a_websocket_from_elsewhere_is_refused(server: Running) -> None:
    from websockets.exceptions import InvalidStatus

    cookie = server.service.keys.enter(server.service.keys.link())
    own = {"cookie": f"crossfeed-{server.port}={cookie}"}
    for headers in (
        {}, {"authorization": "Bearer wrong"}, {**server.headers, "origin": "http://evil.example"}, own,
        {**own, "origin": "http://evil.example"}, {**own, "origin": "null"},
    ):  # fmt: skip
        with pytest.raises(InvalidStatus) as refused, stream(server, **headers):
            pass
        assert refused.value.response.status_code == 403, headers
    with stream(server, **own, origin=server.address) as socket_:
        assert socket_.recv(PATIENCE)
    assert healthy(server)


def test_malformed_frames_and_floods_end_the_stream_not_the_service(server: Running) -> None:
    from websockets.exceptions import ConnectionClosed

    for sent in (b"\xc1\x85garbage-without-a-mask", b"\xff\xff\xff\xff", b"\x81\xff\x7f" + b"\xff" * 11):
        with stream(server, **server.headers) as socket_:
            socket_.recv(PATIENCE)
            socket_.socket.sendall(sent * 3)
            with pytest.raises((ConnectionClosed, OSError)):
                hear_out(socket_)
    with stream(server, **server.headers) as socket_:
        socket_.send("x" * 200_000)
        with pytest.raises(ConnectionClosed):
            hear_out(socket_)
    assert healthy(server)


def test_more_streams_than_allowed_are_turned_away(server: Running) -> None:
    from websockets.exceptions import InvalidStatus

    open_ones = [stream(server, **server.headers) for _ in range(3)]
    try:
        with pytest.raises(InvalidStatus):
            stream(server, **server.headers)
    finally:
        for one in open_ones:
            one.close()
    until = time.monotonic() + PATIENCE
    while server.service.streams and time.monotonic() < until:
        time.sleep(0.02)
    assert server.service.streams == 0
    assert healthy(server)
