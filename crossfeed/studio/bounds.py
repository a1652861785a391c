"""How large a request may be and how long its body may take to arrive; measured before anything reads it."""

import asyncio
import time

from crossfeed.studio.gate import App, Message, Receive, Scope, Send
from crossfeed.studio.metrics import Metrics
from crossfeed.studio.refusal import RefusalError
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
