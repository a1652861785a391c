"""Dropout: its rate, its independence, its seeds."""

import pytest
import torch

from crossfeed.model.fast.acceleration import dropout_seeds, hash_dropout
from crossfeed.model.parts.blocks import Block
from crossfeed.model.parts.dropout import STEP_APART, Dropout, Seeds, generated_dropout, hashed_dropout, random_bits
from tests.model import toy


def test_hashed_dropout_keeps_its_rate_and_its_mean_and_repeats_itself() -> None:
    x, seed = torch.ones(400, 500), torch.tensor([11])
    kept = hashed_dropout(x, 0.1, seed)
    assert (kept > 0).float().mean().item() == pytest.approx(0.9, abs=0.003)
    assert kept.mean().item() == pytest.approx(1.0, abs=0.004)
    assert torch.equal(kept, hashed_dropout(x, 0.1, seed))
    for other in (hashed_dropout(x, 0.1, seed + 1), hashed_dropout(x, 0.1, seed + STEP_APART)):
        assert ((other > 0) ^ (kept > 0)).float().mean().item() == pytest.approx(0.18, abs=0.01)


def test_hashed_bits_are_uniform_and_uncorrelated_between_neighbours() -> None:
    bits = random_bits(200_000, torch.tensor([5])).double() / 2**31
    assert bits.mean().abs() < 0.005
    assert bits.var().item() == pytest.approx(1 / 3, abs=0.005)
    for lag in (1, 2, 16, 256, 1024):
        assert (bits[lag:] * bits[:-lag]).mean().abs() < 0.005


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_without_a_seed_draws_from_the_librarys_generator(rate: float) -> None:
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


def test_every_place_has_a_seed_of_its_own_that_moves_with_every_step() -> None:
    seeds, again = Seeds(300, torch.device("cpu")), Seeds(300, torch.device("cpu"))
    views = [seeds[place] for place in range(300)]
    seen = set()
    seeds.begin(41)
    for _ in range(20):
        seen |= {int(view) for view in views}
        seeds.advance()
    assert len(seen) == 20 * 300
    again.begin(41)
    for _ in range(20):
        again.advance()
    assert [int(again[place]) for place in range(300)] == [int(view) for view in views]
    again.begin(42)
    assert int(again[0]) == int(seeds[0]) - 19 * STEP_APART


def test_two_dropouts_of_a_block_shared_one_mask() -> None:
    model = toy.model().train()
    hash_dropout(model, dropout_seeds(model, torch.device("cpu")))
    for block in (module for module in model.modules() if isinstance(module, Block)):
        seeds = [block.attention_dropout.seed, block.memory_dropout.seed, block.feed_forward_dropout.seed]
        assert len({seed.data_ptr() for seed in seeds if seed is not None}) == 3


def test_one_draw_of_64_bits_serves_four_entries() -> None:
    """Its quarters, from the lowest up, are compared as numbers of 16 bits with a sign; a rate of a half keeps those
    above nought.
    """
    torch.manual_seed(3)
    kept = generated_dropout(torch.ones(2, 5), 0.5)
    torch.manual_seed(3)
    draws = torch.empty(3, dtype=torch.int64).random_(-(2**63), None).tolist()
    quarters = [(draw >> shift) % 2**16 for draw in draws for shift in (0, 16, 32, 48)][:10]
    assert kept.flatten().tolist() == [2.0 if quarter < 2**15 else 0.0 for quarter in quarters]
