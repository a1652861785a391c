"""Dropout: its rate, its independence, its gradient."""

import pytest
import torch

from crossfeed.model.parts.blocks import Dropout, dropped


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_draws_from_the_librarys_generator(rate: float) -> None:
    x, dropout = torch.ones(700, 601), Dropout(rate)
    torch.manual_seed(1)
    first = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(dropout(x), first)
    assert (first == 0.0).float().mean().item() == pytest.approx(rate, abs=0.004)
    assert first.mean().item() == pytest.approx(1.0, abs=0.008)
    together = ((first[:, 1:] == 0.0) & (first[:, :-1] == 0.0)).float().mean().item()
    assert together == pytest.approx(rate**2, abs=0.004), "neighbours that share a draw are independent"
    assert torch.equal(dropout.eval()(x), x)


def test_the_gradient_of_dropout_passes_where_entries_were_kept() -> None:
    x = torch.randn(30, 30, requires_grad=True)
    out = Dropout(0.4)(x)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.where(out == 0.0, 0.0, 1.0 / 0.6))


def test_one_draw_of_64_bits_serves_four_entries() -> None:
    """Its quarters, from the lowest up, are compared as numbers of 16 bits with a sign; a rate of a half keeps those
    above nought.
    """
    torch.manual_seed(3)
    kept = dropped(torch.ones(2, 5), 0.5)
    torch.manual_seed(3)
    draws = torch.empty(3, dtype=torch.int64).random_(-(2**63), None).tolist()
    quarters = [(draw >> shift) % 2**16 for draw in draws for shift in (0, 16, 32, 48)][:10]
    assert kept.flatten().tolist() == [2.0 if quarter < 2**15 else 0.0 for quarter in quarters]
