"""What every live source tells, and what all of them share: a queue with a limit, reconnection, two clocks compared.

A source tells samples, notices about the connection, and marks from which it can go on. It is read only: nothing is
ever written to a machine.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any, Literal, Protocol

from crossfeed.logs.declaration import LABEL, MICROSECONDS, PROGRAM, LogFormat, Segmentation

# Names beside the channels of the schema under which sources tell what else they know.
ALIVE = "@@alive"  # everything in force is still so at this time
CONNECTED = "@connected"  # 1 while the machine is heard, where values hold until they change
RUN = "@@run"  # the run that ingest would name after the file
LINE = "@@line"  # line of the NC program being executed
OVERRIDES = {name: f"@@{name}" for name in ("feed_override", "rapid_override", "spindle_override")}
TEXTS = (PROGRAM, LABEL, RUN)

Value = float | str | None
LONGEST = 100_000
REPORTED_S = 0.5  # clocks further apart than this are reported
_WINDOW = 200  # samples over which the quickest arrival is looked for


@dataclass(frozen=True, slots=True)
class Sample:
    """One value in the source's own unit; `time` is the source's stamp in microseconds since 1970, UTC.

    A value of None says that the source has none at this time.
    """

    channel: str
    value: Value
    time: int
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that happened to the connection; a gap spans source times from `begin` to `end`."""

    kind: Literal["gap", "reconnect", "restart", "degraded", "doubled"]
    text: str
    begin: int = 0
    end: int = 0
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything before this was handed over; a source given the position goes on from here."""

    position: Mapping[str, Any]


Arrival = Sample | Notice | Mark


class LiveSource(Protocol):
    """A machine as it is heard now."""

    title: str
    replays: bool = False  # its stamps have no clock in common with ours

    async def open(self) -> LogFormat:
        """Say what it will tell: channels, units, row period, whether values hold until they change."""

    def arrivals(self) -> AsyncIterator[Arrival]:
        """Everything that arrives, for as long as anyone listens; lost connections are taken up again inside."""

    def resume(self, position: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Go on from a mark of an earlier process; call it before `arrivals`."""
        return  # nothing to do where nothing is kept for us

    async def close(self) -> None:
        """Let go of the machine."""
        return  # nothing to do where nothing stays open between two looks


def live_segmentation(base: Segmentation, gap_s: float = 10.0) -> Segmentation:
    """Sessions of a source whose values hold until they change: a connection lost for longer begins a new one."""
    return replace(base, keep={**base.keep, CONNECTED.removeprefix("@"): 1.0}, gap_s=gap_s)


class BoundedQueue:
    """Between a source and its reader, inside one event loop."""

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest, self.dropped = longest, 0
        self._waiting: deque[Arrival] = deque()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, arrival: Arrival) -> None:
        """Never waits; notices and marks are not dropped."""
        if len(self._waiting) >= self.longest:
            oldest = next((index for index, waiting in enumerate(self._waiting) if isinstance(waiting, Sample)), None)
            if oldest is not None:
                del self._waiting[oldest]
                self.dropped += 1
        self._waiting.append(arrival)
        self._filled.set()

    async def take(self, timeout_s: float) -> list[Arrival]:
        """Everything that waits; an empty list when nothing came within the time."""
        try:
            # Not `wait_for`, which in Python 3.11 can swallow a cancellation that comes together with the result.
            async with asyncio.timeout(timeout_s):
                await self._filled.wait()
        except TimeoutError:
            return []
        taken = list(self._waiting)
        self._waiting.clear()
        self._filled.clear()
        return taken


@asynccontextmanager
async def listening(source: LiveSource, put: Callable[[Arrival], None]) -> AsyncIterator[asyncio.Task[None]]:
    """Hand on whatever the source tells, in a task of its own, until the block ends; then the source is closed."""

    async def listen() -> None:
        async for arrival in source.arrivals():
            put(arrival)

    task = asyncio.create_task(listen())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
        await source.close()


def backoff() -> Iterator[float]:
    """Seconds to wait before the next attempt: 0.25, doubled every time, at most 2.

    Rows are lost as long as a returned server waits.
    """
    return chain((0.25, 0.5, 1.0), repeat(2.0))


class ConnectedSource(LiveSource):
    """The life of a source behind a connection: connect, read, and connect again when that was lost."""

    back = "the server is back"
    newest = 0  # stamp of the newest value; 0 before the first
    lost_at = 0  # that of the newest value before the present connection

    def connection(self) -> AsyncIterator[Arrival]:
        """What arrives over one connection, until that is lost."""
        raise NotImplementedError

    def losses(self) -> tuple[type[Exception], ...]:
        """What a lost or refused connection raises."""
        raise NotImplementedError

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """The arrivals of one connection after the other; each loss, each return is a notice."""
        lost, waits = False, backoff()
        while True:
            self.lost_at = self.newest
            try:
                async for arrival in self.connection():
                    if lost:
                        lost, waits = False, backoff()
                        yield Notice("reconnect", self.back)
                    yield arrival
            except self.losses() as error:
                if not lost:
                    yield Notice("degraded", f"the connection was lost: {reason(error)}")
                lost = True
                await asyncio.sleep(next(waits))


def sample_of(name: str, value: object, stamp: int, sequence: int | None = None) -> Sample:
    """A value as it is told: the name of a program as text, everything else as a number or as absent."""
    if name == PROGRAM:
        return Sample(name, str(value or ""), stamp, sequence)
    return Sample(name, float(value) if isinstance(value, int | float) else None, stamp, sequence)


def reason(error: BaseException) -> str:
    """The first line of an error, or its type where it says nothing."""
    return str(error).partition("\n")[0] or type(error).__name__


def silence(begin: int, end: int) -> Notice:
    """The gap between two source times, between which nothing was heard."""
    return Notice("gap", f"nothing was heard for {(end - begin) / MICROSECONDS:.1f} s", begin, end)


class SourceClock:
    """Learns the offset from the samples that arrived quickest; `speed` is other than 1 where a machine is replayed."""

    def __init__(self, speed: float = 1.0, replays: bool = False) -> None:
        self.speed, self._replays = speed, replays or speed != 1.0
        self._begin: tuple[float, float] | None = None
        self._delays: deque[float] = deque(maxlen=_WINDOW)

    def observe(self, stamp: int, arrived: float | None = None) -> None:
        """A sample with this stamp arrived now (or at `arrived`, seconds since 1970)."""
        arrived = time.time() if arrived is None else arrived
        seconds = stamp / MICROSECONDS
        if self._begin is None:
            # A replay has no clock in common with ours: its first sample counts as in time.
            self._begin = (arrived, seconds if self._replays else arrived)
        self._delays.append(self._ours(arrived) - seconds)

    def _ours(self, arrived: float) -> float:
        """Our time, running as fast as the source's."""
        if self._begin is None:
            return arrived
        since, origin = self._begin
        return origin + (arrived - since) * self.speed

    @property
    def skew(self) -> float:
        """Seconds by which the source lies behind our clock (negative: ahead); the quickest arrival took no time."""
        return min(self._delays) if self._delays else 0.0

    def now(self) -> float:
        """The time at the source, in its own seconds since 1970."""
        return self._ours(time.time()) - self.skew

    def age(self, moment: float) -> float:
        """Seconds of ours since a moment of the source."""
        return max(0.0, self.now() - moment) / self.speed

    @property
    def skew_warning(self) -> str:
        """A sentence where the clocks lie too far apart, else nothing."""
        if abs(self.skew) <= REPORTED_S or self._replays:
            return ""
        side = "behind" if self.skew > 0 else "ahead of"
        days = abs(self.skew) / 86_400
        apart = f"{days:,.0f} days" if days >= 2 else f"{abs(self.skew):,.1f} s"
        return f"the source's clock is {apart} {side} ours"
