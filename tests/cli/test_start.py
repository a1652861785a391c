"""A quick start leaves the collection of garbage as it found it."""

import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from crossfeed.cli.start import quick_start


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("before", [True, False])
def test_garbage_is_collected_again_after_a_start_that_failed(before: bool) -> None:
    gc.enable() if before else gc.disable()
    with suppress(ImportError), quick_start():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled() == before
