"""The gate before every request and WebSocket: right host, right origin, known key, bounded body; headers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, Response

from crossfeed.studio.queues import Metrics
from crossfeed.studio.requests import RefusalError, error_content
from crossfeed.studio.settings import Keys, Limits, ServeSettings, cookie_name, log

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/healthz",)  # says only that the service runs
ENTER = "/enter/"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{}; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_LOCKED_OUT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>crossfeed studio</title>
<h1>This page needs its link</h1><p>crossfeed serve prints a link when it starts. Each link lets one browser in, once;
a browser that is in can make another one under "Another device".</p></html>"""


class Gate:
    """Lets through what may pass; everything else is refused in words, counted and logged."""

    def __init__(self, app: App, settings: ServeSettings, keys: Keys, metrics: Metrics, styles: str) -> None:
        self.app, self.settings, self.keys, self.metrics = app, settings, keys, metrics
        self.port = settings.port  # until the one is known that was given when any was asked for
        self.headers = {"content-security-policy": _POLICY.format(styles), **_HEADERS}

    def link(self) -> str:
        """A link that lets one browser in, once."""
        return f"{self.settings.address(self.port)}{ENTER}{self.keys.link()}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        try:
            self._check(asked)
            await self.app(scope, receive, self._guarded(send, scope["path"]))
        except RefusalError as refusal:
            await self._refuse(refusal, asked, receive, send)

    def _check(self, asked: HTTPConnection) -> None:
        hosts, origins = asked.headers.getlist("host"), asked.headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.settings.hosts(self.port):
            raise RefusalError(
                421, "The request is for another host.", expected="the address that crossfeed serve printed"
            )
        if not all(self._is_own_page(origin) for origin in origins):
            raise RefusalError(
                403, "The request comes from another page.", expected="requests of the studio's own page"
            )
        path = str(asked.scope["path"])
        if path in OPEN or path.startswith(ENTER):
            return
        if any(self.keys.knows_token(value) for value in asked.headers.getlist("authorization")):
            return
        if self.keys.knows_cookie(asked.cookies.get(cookie_name(self.port), "")):
            # A browser always names the page that opens a WebSocket; without it a cookie says nothing.
            if asked.scope["type"] == "websocket" and not origins:
                raise RefusalError(403, "The WebSocket names no origin.", expected="the studio's own page, or a token")
            return
        raise RefusalError(
            401,
            "The request carries no valid token.",
            expected="the link that crossfeed serve printed, or the header 'Authorization: Bearer TOKEN'",
        )

    def _guarded(self, send: Send, path: str) -> Send:
        """Every answer carries the page's policy; data are never kept by a browser."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                if path.startswith("/api/"):
                    headers["cache-control"] = "no-store"
            await send(message)

        return guarded

    def _is_own_page(self, origin: str) -> bool:
        scheme, _, host = origin.partition("://")
        own_scheme = "https" if self.settings.secure else "http"
        return scheme == own_scheme and host.lower() in self.settings.hosts(self.port)

    async def _refuse(self, refusal: RefusalError, asked: HTTPConnection, receive: Receive, send: Send) -> None:
        self.metrics.refused.labels(str(refusal.status)).inc()
        client = asked.client.host if asked.client else "unknown"
        log.warning("refused %s %r from %s: %s", refusal.status, str(asked.scope["path"])[:120], client, refusal.found)
        if asked.scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.found})
            return
        headers = {"cache-control": "no-store", **self.headers}
        if refusal.status == 401:
            headers["www-authenticate"] = "Bearer"
        if refusal.status in (408, 413):
            headers["connection"] = "close"  # the rest of the body must not be read as another request
        answer: Response = JSONResponse(error_content(refusal), refusal.status, headers)
        if refusal.status == 401 and any("text/html" in value for value in asked.headers.getlist("accept")):
            answer = HTMLResponse(_LOCKED_OUT, refusal.status, headers)
        await answer(asked.scope, receive, send)


class Bounds:
    """Reads the body of a request within its bounds and hands it on whole; times every answer."""

    def __init__(self, app: App, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            body = await self._body(scope, receive)
            if body is not None:
                await self.app(scope, _body_first(body, receive), note_status)
        except RefusalError as refusal:
            status = refusal.status
            raise
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.answered(route, status, time.monotonic() - began)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None when the client left before its end."""
        limits = self.limits
        size = f"{limits.body_bytes / 2**20:g} MiB"
        too_large = RefusalError(413, f"The request is larger than {size}.", expected=f"at most {size}")
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > limits.body_bytes:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > limits.body_bytes:
                        raise too_large
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise RefusalError(408, f"The body did not arrive within {limits.body_seconds:g} s.") from None


def _body_first(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, then whatever the connection says next: that the client left."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def body_first() -> Message:
        return waiting.pop() if waiting else await receive()

    return body_first
