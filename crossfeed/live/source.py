"""What every live source tells: samples, notices about the connection, and marks from which it can go on.

A source is read only: nothing is ever written to a machine.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from crossfeed.machines.declaration import LABEL, PROGRAM, LogFormat, Segmentation

# Names beside the channels of the schema under which sources tell what else they know.
ALIVE = "@@alive"  # everything in force is still so at this time
CONNECTED = "@connected"  # 1 while the machine is heard, where values hold until they change
RUN = "@@run"  # the run that ingest would name after the file
LINE = "@@line"  # line of the NC program being executed
OVERRIDES = {name: f"@@{name}" for name in ("feed_override", "rapid_override", "spindle_override")}
TEXTS = (PROGRAM, LABEL, RUN)

Value = float | str | None


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
