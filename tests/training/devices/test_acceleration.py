"""The fast step: what it relies on that can be seen without a GPU."""

import gc

import pytest

from crossfeed.training.hardware import garbage_collection_paused


class Cycle:
    """Something only the garbage collector can free."""

    alive = 0

    def __init__(self) -> None:
        self.itself = self
        Cycle.alive += 1

    def __del__(self) -> None:
        Cycle.alive -= 1


def test_garbage_freed_during_a_capture_spoiled_it() -> None:
    Cycle()
    with garbage_collection_paused():
        assert Cycle.alive == 0, "what is garbage already goes before"
        for _ in range(3000):
            Cycle()
        assert Cycle.alive == 3000, "and nothing goes meanwhile"
    gc.collect()
    assert Cycle.alive == 0


def test_the_collector_is_as_before_even_after_an_error() -> None:
    with pytest.raises(ValueError, match="capture"), garbage_collection_paused():
        raise ValueError("capture")
    assert gc.isenabled()
    gc.disable()
    try:
        with garbage_collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
