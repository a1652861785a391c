"""The server itself: one process, one port, patience with bounds."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from crossfeed.errors import ConfigError
from crossfeed.studio.access import log
from crossfeed.studio.app import build_app
from crossfeed.studio.certificate import check_certificate
from crossfeed.studio.gate import Gate
from crossfeed.studio.service import Service
from crossfeed.studio.settings import ServeSettings


def serve(service: Service, ready: Callable[[str, str], None]) -> None:
    """Serve until stopped; `ready` is told the address and the link as soon as connections are taken."""
    settings = service.settings
    if settings.certificate is not None and settings.key is not None:
        check_certificate(settings.certificate, settings.key)
    gate = build_app(service)
    listening = listen(settings)
    gate.port = listening.getsockname()[1]
    service.taking_connections = asyncio.Event()

    def open_house() -> None:
        ready(settings.address(gate.port), gate.link())
        assert service.taking_connections is not None
        service.taking_connections.set()

    server = make_server(gate, settings, open_house)
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()


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
    """uvicorn with our limits; a connection that says nothing is closed, so that silent ones cannot fill the house."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    limits = settings.limits

    class Brief(WebSocketsSansIOProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.close_timeout = 1.0  # for whoever broke the protocol and does not hang up

    class Patient(H11Protocol):
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
        http=Patient,
        ws=Brief,
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
