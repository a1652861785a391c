"""Random streams: independent by purpose, the same for the same seed, invisible to the caller."""

import itertools

import torch

from crossfeed.training.seeds import derive, generator, own_randomness


def test_every_purpose_stage_epoch_and_seed_has_its_own_stream() -> None:
    purposes = ("init", "fresh_head", "order", "masks", "dropout")
    seeds = [
        derive(seed, purpose, stage, epoch)
        for seed, purpose, stage, epoch in itertools.product((0, 1), purposes, ("pretrain", "finetune"), (0, 1))
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_derived_seeds_do_not_change_between_versions() -> None:
    """Published numbers depend on this value."""
    assert derive(0, "order", "pretrain", 0) == 3773980785581608047


def test_generator_repeats() -> None:
    first, second = (torch.rand(5, generator=generator(7, "masks", "finetune", 2)) for _ in range(2))
    assert torch.equal(first, second)


def test_callers_randomness_is_left_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with own_randomness(torch.device("cpu")):
        torch.manual_seed(99)
        torch.rand(10)
    assert torch.equal(torch.rand(3), expected)
