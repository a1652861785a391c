"""The six pretexts hide different things; each rebuilds only what was there."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.evaluation.baselines.network import Features, NetworkInputs, Shape
from crossfeed.evaluation.baselines.networks import RECIPES
from crossfeed.evaluation.baselines.reconstruction import (
    LocalAutoencoder,
    MaskedAutoencoder,
    PretextNetwork,
    complete,
    event_score,
    geometric_runs,
    haar,
    hidden_steps,
    inverse_haar,
)
from crossfeed.evaluation.forecaster import masked
from crossfeed.windows.windows import WindowSet

SIX = ("mae", "simmtm", "patchformer", "emit", "mmr", "lomar")


def built(name: str, shape: Shape) -> PretextNetwork:
    torch.manual_seed(0)
    network = RECIPES[name].build(Features(shape, NetworkInputs()), "tiny", False)
    assert isinstance(network, PretextNetwork)
    return network.eval()


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", SIX)
def test_the_loss_repeats_under_the_same_draws_and_changes_under_others(
    name: str, parts: dict[str, WindowSet], shape: Shape
) -> None:
    network, batch = built(name, shape), parts["train"].batch(torch.arange(16) * 5)
    first = network.pretext(batch, draws())
    assert torch.equal(first, network.pretext(batch, draws()))
    # EMIT hides where most happens, which leaves nothing to chance but ties.
    assert (name == "emit") == torch.equal(first, network.pretext(batch, draws(1)))


@pytest.mark.parametrize("name", SIX)
def test_a_pretext_never_reads_the_future_or_what_is_absent(name: str, gappy: WindowSet, shape: Shape) -> None:
    network, batch = built(name, shape), gappy.batch(torch.arange(16) * 5)
    loss = network.pretext(batch, draws())
    blind = {
        label: torch.full_like(getattr(batch, label), torch.nan)
        for label in ("future_x_BHC", "mean_a_BHA", "future_a_BTA")
    }
    assert torch.equal(loss, network.pretext(replace(batch, **blind), draws()))
    assert loss.isfinite()


@pytest.mark.parametrize("name", SIX)
def test_pretraining_lowers_the_reconstruction_error(name: str, parts: dict[str, WindowSet], shape: Shape) -> None:
    network, batch = built(name, shape), parts["train"].batch(torch.arange(48) * 3)
    optimiser = torch.optim.AdamW(network.parameters(), 2e-3)
    before = float(network.pretext(batch, draws()).detach())
    for step in range(25):
        optimiser.zero_grad()
        network.pretext(batch, draws(step)).backward()
        optimiser.step()
    assert float(network.pretext(batch, draws()).detach()) < 0.8 * before


def test_the_six_pretexts_are_six_different_losses(parts: dict[str, WindowSet], shape: Shape) -> None:
    batch = parts["train"].batch(torch.arange(16) * 5)
    losses = {name: round(float(built(name, shape).pretext(batch, draws()).detach()), 6) for name in SIX}
    assert len(set(losses.values())) == len(SIX)


def test_mae_shows_its_encoder_a_quarter_of_the_rows(parts: dict[str, WindowSet], shape: Shape) -> None:
    network = MaskedAutoencoder(Features(shape, NetworkInputs()), 16, 1)
    rows = []
    network.encoder.blocks.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].shape[1]))
    network.pretext(parts["train"].batch(torch.arange(4)), draws())
    assert rows == [4]


def test_lomar_attends_inside_stretches_only(parts: dict[str, WindowSet], shape: Shape) -> None:
    network = LocalAutoencoder(Features(shape, NetworkInputs()), 16, 1)
    shapes = []
    network.encoder.blocks.register_forward_pre_hook(lambda _, inputs: shapes.append(inputs[0].shape[:2]))
    network.pretext(parts["train"].batch(torch.arange(4)), draws())
    assert shapes == [(16, 10)]


def test_simmtm_hides_half_in_runs_of_three() -> None:
    hidden = geometric_runs((200, 64, 4), draws())
    assert float(hidden.float().mean()) == pytest.approx(0.5, abs=0.02)
    starts = (hidden[:, 1:] & ~hidden[:, :-1]).sum() + hidden[:, 0].sum()
    assert float(hidden.sum() / starts) == pytest.approx(3.0, abs=0.2)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 3))
def test_the_wavelet_transform_is_orthonormal_and_invertible(seed: int, blocks: int, channels: int) -> None:
    x = torch.randn(2, 8 * blocks, channels, generator=draws(seed), dtype=torch.float64)
    bands = haar(x)
    assert torch.allclose(inverse_haar(bands), x)
    assert torch.allclose(sum(band.square().sum() for band in bands), x.square().sum())


def test_a_coefficient_counts_only_if_all_its_rows_are_present() -> None:
    present = torch.ones(1, 8, 1, dtype=torch.bool)
    present[0, 2] = False
    fine, middle, coarse, smooth = (band.flatten().tolist() for band in complete(present))
    assert fine == [True, False, True, True]
    assert middle == [False, True]
    assert coarse == smooth == [False]


def test_events_are_the_rows_that_change_most_among_present_channels() -> None:
    x = torch.zeros(1, 5, 2)
    x[0, 2:, 0] = 1.0
    x[0, 3, 1] = 9.0
    present = torch.ones(1, 5, 2, dtype=torch.bool)
    present[0, :, 1] = False
    score = event_score(x, present)
    assert score.argmax() == 2
    assert score[0, 0] == 0.0
    assert hidden_steps(score, 1).flatten().tolist() == [False, False, True, False, False]


def test_hidden_entries_become_absent(parts: dict[str, WindowSet]) -> None:
    batch = parts["train"].batch(torch.arange(3))
    hidden = torch.zeros_like(batch.m_BKC)
    hidden[:, 4] = True
    out = masked(batch, batch.m_BKC & ~hidden)
    assert not out.m_BKC[:, 4].any()
    assert (out.x_BKC[:, 4] == 0).all()
    assert torch.equal(out.x_BKC[:, 5:], batch.x_BKC[:, 5:])
