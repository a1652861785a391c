"""How long to wait before the next attempt: longer each time, but rows are lost as long as a returned server waits."""

from collections.abc import Iterator
from itertools import chain, repeat


def backoff() -> Iterator[float]:
    """0.25 s, doubled with every attempt, at most 2 s."""
    return chain((0.25, 0.5, 1.0), repeat(2.0))
