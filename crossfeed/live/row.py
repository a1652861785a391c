"""One row as it is born beside the machine."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """In schema units: `time` is the end of its bin in source seconds, None is absent."""

    time: float
    values: Mapping[str, float | None]
    begins: bool  # nothing is known about the moment before it: a new session
