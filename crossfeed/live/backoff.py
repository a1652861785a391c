"""How long to wait before the next attempt: longer each time, but rows are lost as long as a returned server waits."""

from collections.abc import Iterator

FIRST_S, LONGEST_S = 0.25, 2.0


def backoff() -> Iterator[float]:
    """0.25 s, doubled with every attempt, at most 2 s."""
    wait = FIRST_S
    while True:
        yield wait
        wait = min(2.0 * wait, LONGEST_S)
