"""How long to wait before the next attempt: longer each time, and never so long that a returned server waits 30 s."""

from collections.abc import Iterator

FIRST_S, LONGEST_S = 0.25, 10.0


def backoff() -> Iterator[float]:
    """0.25 s, doubled with every attempt, at most 10 s."""
    wait = FIRST_S
    while True:
        yield wait
        wait = min(2.0 * wait, LONGEST_S)
