"""The gate before every request and WebSocket: right host, right origin, known key; and headers on every answer."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from crossfeed.studio.access import Keys, cookie_name, log
from crossfeed.studio.metrics import Metrics
from crossfeed.studio.refusal import RefusalError, error_content
from crossfeed.studio.settings import ServeSettings

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
        headers = _headers(scope)
        try:
            self._check(scope, headers)
            await self.app(scope, receive, self._guarded(send, scope["path"]))
        except RefusalError as refusal:
            await self._refuse(refusal, scope, headers, send)

    def _check(self, scope: Scope, headers: Mapping[str, list[str]]) -> None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.settings.hosts(self.port):
            raise RefusalError(
                421, "The request is for another host.", expected="the address that crossfeed serve printed"
            )
        origins = headers.get("origin", [])
        if any(not self._own(origin) for origin in origins):
            raise RefusalError(
                403, "The request comes from another page.", expected="requests of the studio's own page"
            )
        path = str(scope["path"])
        if path in OPEN or path.startswith(ENTER):
            return
        if any(self.keys.knows_token(value) for value in headers.get("authorization", [])):
            return
        if self.keys.knows_cookie(self._cookie(headers)):
            # A browser always names the page that opens a WebSocket; without it a cookie says nothing.
            if scope["type"] == "websocket" and not origins:
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
                extra = {**self.headers, "cache-control": "no-store"} if path.startswith("/api/") else self.headers
                message = {**message, "headers": [*message.get("headers", []), *_encoded(extra)]}
            await send(message)

        return guarded

    def _own(self, origin: str) -> bool:
        scheme, _, host = origin.partition("://")
        return scheme == ("https" if self.settings.secure else "http") and host.lower() in self.settings.hosts(
            self.port
        )

    def _cookie(self, headers: Mapping[str, list[str]]) -> str:
        for value in headers.get("cookie", []):
            try:
                found = SimpleCookie(value).get(cookie_name(self.port))
            except CookieError:
                continue
            if found is not None:
                return found.value
        return ""

    async def _refuse(self, refusal: RefusalError, scope: Scope, headers: Mapping[str, list[str]], send: Send) -> None:
        self.metrics.refused(refusal.status)
        client = (scope.get("client") or ("unknown",))[0]
        log.warning("refused %s %r from %s: %s", refusal.status, str(scope["path"])[:120], client, refusal.found)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.found})
            return
        page = refusal.status == 401 and any("text/html" in value for value in headers.get("accept", []))
        body = _LOCKED_OUT if page else json.dumps(error_content(refusal))
        media_type = "text/html; charset=utf-8" if page else "application/json"
        answer = {"content-type": media_type, "cache-control": "no-store", **self.headers}
        if refusal.status == 401:
            answer["www-authenticate"] = "Bearer"
        if refusal.status in (408, 413):
            answer["connection"] = "close"  # the rest of the body must not be read as another request
        await send({"type": "http.response.start", "status": refusal.status, "headers": _encoded(answer)})
        await send({"type": "http.response.body", "body": body.encode()})


def _headers(scope: Scope) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
