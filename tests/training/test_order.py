"""The order of windows: complete, reproducible, machines in balance."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import TrainingError
from crossfeed.training.seeds import epoch_order, generator, steps_in_epoch


@given(windows=st.integers(8, 200), batch=st.integers(2, 8), seed=st.integers(0, 5))
def test_one_machine_visits_each_window_at_most_once(windows: int, batch: int, seed: int) -> None:
    steps = steps_in_epoch(windows, batch, None)
    order_SB = epoch_order(np.zeros(windows, dtype=int), batch, steps, generator(seed, "order"))
    assert order_SB.shape == (windows // batch, batch)
    assert len(order_SB.unique()) == order_SB.numel()


@given(sizes=st.lists(st.integers(1, 60), min_size=2, max_size=4), batch=st.integers(4, 12))
def test_every_batch_holds_equal_shares_of_all_machines(sizes: list[int], batch: int) -> None:
    machine_W = np.repeat(np.arange(len(sizes)), sizes)
    order_SB = epoch_order(machine_W, batch, 5, generator(0, "order"))
    for batch_B in order_SB:
        shares = np.bincount(machine_W[batch_B.numpy()], minlength=len(sizes))
        assert shares.max() - shares.min() <= 1


def test_small_machine_is_seen_whole_before_any_window_returns() -> None:
    machine_W = np.repeat([0, 1], [1000, 10])
    drawn = epoch_order(machine_W, 10, 8, generator(0, "order")).flatten()
    small = drawn[torch.from_numpy(machine_W)[drawn] == 1]
    assert len(small) == 40
    for chunk in small.view(4, 10):
        assert len(chunk.unique()) == 10


def test_orders_differ_between_epochs_and_agree_for_the_same_one() -> None:
    machine_W = np.zeros(64, dtype=int)

    def order(epoch: int) -> torch.Tensor:
        return epoch_order(machine_W, 8, 8, generator(3, "order", "pretrain", epoch))

    assert torch.equal(order(0), order(0))
    assert not torch.equal(order(0), order(1))


def test_too_few_windows_for_a_batch_is_explained() -> None:
    with pytest.raises(TrainingError, match=r"lower training.batch_size to at most 5"):
        steps_in_epoch(5, 8, None)


def test_cap_shortens_an_epoch_but_never_lengthens_it() -> None:
    assert steps_in_epoch(100, 10, 3) == 3
    assert steps_in_epoch(100, 10, 30) == 10
