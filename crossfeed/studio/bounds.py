"""How large a request may be and how long its body may take to arrive; measured before anything reads it."""

import asyncio
import json
import time

from crossfeed.studio.access import log
from crossfeed.studio.gate import App, Message, Receive, Scope, Send
from crossfeed.studio.metrics import Metrics
from crossfeed.studio.refusal import RefusalError, error_content
from crossfeed.studio.settings import Limits


class Bounds:
    """Reads the body of a request within its bounds and hands it on whole; times every answer."""

    def __init__(self, app: App, limits: Limits, metrics: Metrics) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            body = await asyncio.wait_for(self._whole(scope, receive), self.limits.body_seconds)
        except TimeoutError:
            late = RefusalError(408, f"The body did not arrive within {self.limits.body_seconds:g} s.")
            await self._refuse(late, noting, scope)
        except RefusalError as refusal:
            await self._refuse(refusal, noting, scope)
        else:
            if body is not None:
                await self.app(scope, _again(body, receive), noting)
        route = getattr(scope.get("route"), "path", "other")
        self.metrics.answered(route, status, time.monotonic() - began)

    async def _whole(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None when the client left before its end."""
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > self.limits.body_bytes:
            raise self._too_large()
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self.limits.body_bytes:
                raise self._too_large()
            if not message.get("more_body"):
                return bytes(body)

    def _too_large(self) -> RefusalError:
        size = f"{self.limits.body_bytes / 2**20:g} MiB"
        return RefusalError(413, f"The request is larger than {size}.", expected=f"at most {size}")

    async def _refuse(self, refusal: RefusalError, send: Send, scope: Scope) -> None:
        log.warning("refused %s %r: %s", refusal.status, str(scope["path"])[:120], refusal.found)
        self.metrics.refused(refusal.status)
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(error_content(refusal)).encode()})


def _again(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, then whatever the connection says next: that the client left."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
