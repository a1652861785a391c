"""The server itself: one process, one port, patience with bounds."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from crossfeed.errors import ConfigError
from crossfeed.studio.app import build_app
from crossfeed.studio.gate import Gate
from crossfeed.studio.service import Service
from crossfeed.studio.settings import ServeSettings, log

_STEPS = 20  # of a handshake with oneself; TLS 1.3 needs three


def serve(service: Service, ready: Callable[[str, str], None]) -> None:
    """Serve until stopped; `ready` is told the address and the link as soon as connections are taken."""
    settings = service.settings
    if settings.certificate is not None and settings.key is not None:
        check_certificate(settings.certificate, settings.key)
    gate = build_app(service)
    listening = listen(settings)
    gate.port = listening.getsockname()[1]
    service.taking_connections = asyncio.Event()

    def on_started() -> None:
        ready(settings.address(gate.port), gate.link())
        assert service.taking_connections is not None
        service.taking_connections.set()

    server = make_server(gate, settings, on_started)
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()


def check_certificate(certificate: Path, key: Path) -> None:
    """Shake hands with oneself in memory; an expired certificate or a foreign key fails here and not in a browser."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        server.load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"The certificate {certificate} with the key {key} cannot be used: {error}.",
            expected="two PEM files that belong together, the key without a password",
        ) from error
    client = ssl.create_default_context(cafile=str(certificate))
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_STEPS):
        waiting = 0
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting += 1
            except ssl.SSLCertVerificationError as error:
                raise ConfigError(
                    f"Browsers would refuse the certificate {certificate}: {error.verify_message}.",
                    expected="a certificate that is valid today",
                    remedy="Renew it.",
                ) from error
        if not waiting:
            return


def listen(settings: ServeSettings) -> socket.socket:
    """Take the port, or say who has it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small answers at once only where it knows that this is TCP; else each waits 40 ms for its sender.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"Port {settings.port} of {settings.host} cannot be used: {error.strerror}.",
            remedy="Choose another with --port; --port 0 takes a free one.",
        ) from error
    return listening


def make_server(gate: Gate, settings: ServeSettings, ready: Callable[[], None]) -> Any:
    """uvicorn with our limits; a connection that says nothing is closed, so that silent ones take no places."""
    limits = settings.limits

    class WebSocketProtocol(WebSocketsSansIOProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.close_timeout = 1.0  # for a client that broke the protocol and does not hang up

    class HttpProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                log.warning("hung up on a connection: %s are open", limits.connections)
                transport.abort()
            self._patience = self.loop.call_later(limits.idle_seconds, self._give_up)

        def _give_up(self) -> None:
            if getattr(self, "cycle", None) is None and not self.transport.is_closing():
                self.transport.close()

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._patience.cancel()  # a stream is silent for as long as its machine is
            super().handle_websocket_upgrade(event)

        def connection_lost(self, exc: Exception | None) -> None:
            self._patience.cancel()
            super().connection_lost(exc)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    config = uvicorn.Config(
        gate,
        http=HttpProtocol,
        ws=WebSocketProtocol,
        ws_max_size=64 * 1024,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=64 * 1024,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
    )
    return Server(config)
