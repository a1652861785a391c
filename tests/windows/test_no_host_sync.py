"""Gathering and masking never wait for a value: they run on tensors that have shapes but no numbers.

On a GPU, every `.item()`, `.nonzero()` or branch on a value makes the host wait, and no graph can be captured.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from crossfeed.windows.corrupt import MaskConfig, corrupt, level_shift, schema_view, validation_masks
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from crossfeed.windows.windows import WindowSet
from tests.windows.tables import random_table


def test_the_test_notices_a_wait() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(DataDependentOutputException):
        (torch.ones(3) * 2).sum().item()


@pytest.mark.parametrize("mode", ["none", "random", "block", "channel", "event", "mixed"])
def test_a_batch_with_masks_needs_no_values(mode: str) -> None:
    table = random_table([60] * 8, absent=0.1)
    normaliser = Normaliser.fit(split_table(table).train_rows(table))
    windows = WindowSet.build(table, None, normaliser, 16, (1, 2, 4))
    config = MaskConfig(mode=mode, ratio=0.15)
    generator = torch.Generator().manual_seed(0)
    with FakeTensorMode(allow_non_fake_inputs=True):
        index_B = torch.randint(len(windows), (8,), generator=generator)
        batch = windows.batch(index_B)
        seen = corrupt(batch.x_BKC, batch.m_BKC, config, generator)
        view = schema_view(seen, 0.65, generator)
        suite = validation_masks(batch.x_BKC, batch.m_BKC, batch.last_index_B, config, seed=0)
        shifted = level_shift(batch, seed=0)
    assert seen.shape == view.shape == suite.shape == shifted.x_BKC.shape == (8, 16, 3)
