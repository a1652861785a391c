"""A page that an MTConnect agent sends: its header and its observations, or the error it reports."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from datetime import datetime

from crossfeed.errors import LogError
from crossfeed.machines.declaration import MICROSECONDS
from crossfeed.machines.mtconnect_devices import tag


@dataclass(frozen=True, slots=True)
class StreamsPage:
    """One streams document: who wrote it, what follows, and its observations in order of their sequence."""

    instance: int
    following: int
    created: int
    observations: list[tuple[int, int, str, str]]  # sequence, stamp, item, value


class OutOfRangeError(Exception):
    """The agent no longer holds the sequence that was asked for."""


def read_page(document: bytes) -> StreamsPage:
    """What an agent answered to /current or /sample."""
    try:
        root = ElementTree.fromstring(document)
    except ElementTree.ParseError as error:
        raise LogError(f"the agent sent something that is no XML: {error}") from error
    errors = [element for element in root.iter() if tag(element) == "Error"]
    if errors:
        if any(element.get("errorCode") == "OUT_OF_RANGE" for element in errors):
            raise OutOfRangeError
        raise LogError(f"the agent says: {errors[0].get('errorCode')} {(errors[0].text or '').strip()}")
    header = next((element for element in root.iter() if tag(element) == "Header"), None)
    if header is None:
        raise LogError("the agent's answer has no header")
    observations = [
        (int(element.get("sequence") or 0), _stamp(element.get("timestamp") or ""), element.get("dataItemId") or "",
         (element.text or "").strip())
        for element in root.iter()
        if element.get("dataItemId") and element.get("sequence")
    ]  # fmt: skip
    return StreamsPage(
        int(header.get("instanceId") or 0),
        int(header.get("nextSequence") or 0),
        _stamp(header.get("creationTime") or ""),
        sorted(observations),
    )


def _stamp(text: str) -> int:
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * MICROSECONDS)
