"""The real server on a loopback port under things that should not happen: it refuses, says so, and stays up."""

import asyncio
import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crossfeed.errors import ConfigError
from crossfeed.studio.server import listen
from crossfeed.studio.service import Service
from crossfeed.studio.settings import ServeSettings
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


def hear_out(socket_: Any) -> None:
    """Listen until the other side hangs up."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        socket_.recv(PATIENCE)


def test_the_stream_tells_every_new_moment(server: Running) -> None:
    with stream(server, **server.headers) as socket_:
        rows = [json.loads(socket_.recv(PATIENCE))["counters"]["rows"] for _ in range(5)]
    assert rows == sorted(set(rows))
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
    began, ended = threading.Event(), threading.Event()

    def endless(_: Any, go_on: Callable[[], None]) -> None:
        began.set()
        try:
            while True:
                go_on()
        finally:
            ended.set()

    service.engine.compare = endless  # type: ignore[method-assign, assignment]
    with running(service) as server:
        body = b"{}"
        head = f"POST /api/what-if HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n"
        head += f"Content-Type: application/json\r\nAuthorization: Bearer {service.keys.token}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
            connection.sendall(head.encode() + body)
            assert began.wait(PATIENCE)
        assert ended.wait(PATIENCE)
        assert healthy(server)
        assert "crossfeed_cancelled_total 1" in service.metrics.text()


def certificate(folder: Path, days: int) -> tuple[Path, Path]:
    """A self-signed certificate for the loopback address that is valid from two days ago for so many days."""
    x509 = pytest.importorskip("cryptography.x509", reason="needs cryptography to make certificates")
    import datetime
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(since)
        .not_valid_after(since + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    pem, private = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    none = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, none))
    return pem, private


def test_tls_is_spoken_and_only_with_a_certificate_that_holds(
    make_service: Callable[..., Service], tmp_path: Path
) -> None:
    import ssl

    from crossfeed.studio.certificate import check_certificate

    pem, key = certificate(tmp_path / "good", 30)
    old, old_key = certificate(tmp_path / "old", 1)
    check_certificate(pem, key)
    with pytest.raises(ConfigError, match="has expired"):
        check_certificate(old, old_key)
    with pytest.raises(ConfigError, match="cannot be used"):
        check_certificate(pem, old_key)
    with running(make_service(port=0, certificate=pem, key=key)) as server:
        assert server.address.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(pem))
        answer = httpx.get(f"{server.address}/api/model", headers=server.headers, verify=trusted, timeout=PATIENCE)
        assert answer.status_code == 200
        with pytest.raises(httpx.ConnectError):  # a client that does not trust it says nothing, not even its token
            httpx.get(f"{server.address}/api/model", headers=server.headers, timeout=PATIENCE)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{server.port}/healthz", timeout=PATIENCE)


def test_small_answers_waited_forty_milliseconds_for_an_acknowledgement() -> None:
    """asyncio switches Nagle's algorithm off only on sockets that say that they are TCP."""
    with listen(ServeSettings(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_taken_port_is_said_in_words(server: Running, make_service: Callable[..., Service]) -> None:
    from crossfeed.studio.server import serve

    with pytest.raises(ConfigError, match=f"Port {server.port} of 127.0.0.1 cannot be used"):
        serve(make_service(port=server.port), lambda *_: None)


def test_refusals_are_logged_without_secrets(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "crossfeed.studio"):
        httpx.get(f"{server.address}/api/model", headers={"authorization": "Bearer guessed"}, timeout=PATIENCE)
    assert "refused 401" in caplog.text
    assert "guessed" not in caplog.text
    assert os.environ.get("HOME", "/root") not in caplog.text
