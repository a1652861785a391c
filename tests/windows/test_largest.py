"""The sorting network gives what a sort gives."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.windows.largest import largest


@given(st.integers(1, 70), st.integers(1, 12), st.integers(0, 2**31), st.booleans())
@settings(max_examples=80)
def test_it_gives_the_head_of_a_sort(steps: int, count: int, seed: int, ties: bool) -> None:
    values = torch.randn((steps, 9), generator=torch.Generator().manual_seed(seed))
    values = values.round() if ties else values
    found = largest(values, count)
    expected = values.sort(0, descending=True).values[:count]
    assert torch.equal(found[: len(expected)], expected)
    assert found.shape == (count, 9)
    assert (found[len(expected) :] == -torch.inf).all()
