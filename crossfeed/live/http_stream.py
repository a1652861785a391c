"""The little of HTTP that an MTConnect agent needs: one GET, its answer whole or part by part."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from crossfeed.errors import LogError

_LONGEST = 64 << 20


@dataclass(frozen=True)
class Answer:
    """The head of an answer and a way to read what follows."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, however its length is told."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await self.reader.readline()).partition(b";")[0].strip() or b"0", 16):
                yield await self.reader.readexactly(size)
                await self.reader.readline()
            return
        left = int(self.headers.get("content-length", -1))
        while left != 0 and (piece := await self.reader.read(1 << 16 if left < 0 else min(left, 1 << 16))):
            left -= len(piece) if left > 0 else 0
            yield piece

    async def whole(self) -> bytes:
        """The body at once."""
        found = b""
        async for piece in self.chunks():
            found += piece
            if len(found) > _LONGEST:
                raise LogError(f"The answer has more than {_LONGEST >> 20} MB.", expected="an MTConnect document")
        return found

    async def parts(self) -> AsyncIterator[bytes]:
        """The documents of a multipart stream, each as soon as it is complete."""
        waiting = b""
        async for piece in self.chunks():
            waiting += piece
            while (part := _first_part(waiting)) is not None:
                begin, end = part
                yield waiting[begin:end]
                waiting = waiting[end:]
            if len(waiting) > _LONGEST:
                raise LogError("A part of the stream never ends.", expected="parts with a Content-length")


def _first_part(waiting: bytes) -> tuple[int, int] | None:
    """Where the first complete part begins and ends; its length stands in its head."""
    end_of_head = waiting.find(b"\r\n\r\n")
    if end_of_head < 0:
        return None
    for line in waiting[:end_of_head].lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip() == b"content-length":
            begin = end_of_head + 4
            end = begin + int(value)
            return (begin, end) if len(waiting) >= end else None
    raise LogError("A part of the stream does not tell its length.", expected="Content-length in every part")


async def get(url: str, timeout_s: float = 10.0) -> Answer:
    """Ask for a page; the head of the answer has arrived when this returns."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/xml\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    return Answer(int(head[0].split(" ")[1]), headers, reader, writer)
