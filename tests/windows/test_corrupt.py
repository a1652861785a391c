"""Masks hide what they promise, never look under a mask, never empty a window, and repeat when asked to."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from crossfeed.windows.corrupt import MaskConfig, corrupt, level_shift, schema_view, validation_masks
from crossfeed.windows.windows import WindowBatch

MODES = ["random", "block", "channel", "event", "mixed"]
cases = st.tuples(st.sampled_from(MODES), st.floats(0.0, 0.95), st.integers(0, 2**31), st.floats(0.0, 1.0))


def _window(
    seed: int, batch: int = 64, steps: int = 32, channels: int = 17, absent: float = 0.0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    m_BKC = torch.rand((batch, steps, channels), generator=generator) >= absent
    return torch.randn((batch, steps, channels), generator=generator) * m_BKC, m_BKC


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _hidden_share(seen: Tensor) -> float:
    return 1.0 - seen.float().mean().item()


@given(cases, st.integers(1, 40), st.integers(1, 6))
@settings(max_examples=60)
def test_masks_only_hide_and_never_empty_a_window(case, steps: int, channels: int) -> None:
    mode, ratio, seed, absent = case
    x, m = _window(seed, 16, steps, channels, absent)
    seen = corrupt(x, m, MaskConfig(mode=mode, ratio=ratio, channel_drop=ratio), _generator(seed))
    assert not (seen & ~m).any()
    assert torch.equal(seen.flatten(1).any(1), m.flatten(1).any(1))


@given(cases)
@settings(max_examples=40)
def test_values_under_mask_zero_never_matter(case) -> None:
    mode, ratio, seed, absent = case
    x, m = _window(seed, 8, 20, 5, absent)
    config = MaskConfig(mode=mode, ratio=ratio)
    wild = torch.where(m, x, float("nan"))
    assert torch.equal(corrupt(x, m, config, _generator(seed)), corrupt(wild, m, config, _generator(seed)))


@pytest.mark.parametrize("ratio", [0.05, 0.2, 0.35, 0.6])
def test_random_rate(ratio: float) -> None:
    x, m = _window(0, 256)
    assert _hidden_share(corrupt(x, m, MaskConfig(mode="random", ratio=ratio), _generator())) == pytest.approx(
        ratio, abs=0.006
    )


@pytest.mark.parametrize("ratio", [0.03, 0.105, 0.35, 0.6])
@pytest.mark.parametrize(("steps", "channels"), [(32, 17), (12, 3), (64, 40)])
def test_block_rate_is_met_in_every_window(ratio: float, steps: int, channels: int) -> None:
    x, m = _window(0, 100, steps, channels)
    seen = corrupt(x, m, MaskConfig(mode="block", ratio=ratio), _generator())
    hidden = (~seen).flatten(1).sum(1)
    assert (hidden == max(2, round(ratio * steps * channels))).all()


def _run_lengths(hidden: Tensor) -> Tensor:
    """The lengths of all runs of hidden steps in a channel."""
    edges = torch.nn.functional.pad(hidden.transpose(1, 2).int(), (1, 1)).diff(dim=2)
    starts, stops = torch.nonzero(edges == 1), torch.nonzero(edges == -1)
    return stops[:, 2] - starts[:, 2]


@given(st.integers(0, 2**31), st.floats(0.0, 0.95), st.integers(1, 40), st.integers(1, 6))
@settings(max_examples=60)
def test_blocks_ran_on_into_the_next_channel(seed: int, ratio: float, steps: int, channels: int) -> None:
    """One run in fifteen had length 1 then, and some were longer than 12."""
    x, m = _window(seed, 16, steps, channels)
    hidden = ~validation_masks(x, m, torch.arange(16), MaskConfig(mode="block", ratio=ratio), seed)
    lengths = _run_lengths(hidden[hidden.flatten(1).any(1)])
    assert ((lengths >= 2) & (lengths <= 12)).all()
    assert (hidden.flatten(1).sum(1) <= max(2, round(ratio * steps * channels))).all()


def test_blocks_have_all_lengths_and_touch_every_step_and_channel_alike() -> None:
    x, m = _window(0, 2000, 32, 5)
    hidden = ~corrupt(x, m, MaskConfig(mode="block", ratio=0.3), _generator())
    assert set(_run_lengths(hidden).tolist()) == set(range(2, 13))
    for over in ((0, 2), (0, 1)):
        share = hidden.float().mean(over)
        assert share.max() - share.min() < 0.08


def test_channel_mode_drops_whole_channels_and_ignores_the_ratio() -> None:
    x, m = _window(0, 4000, 4, 17)
    seen = corrupt(x, m, MaskConfig(mode="channel", ratio=0.9, channel_drop=0.15), _generator())
    assert torch.equal(seen.any(1), seen.all(1))
    assert _hidden_share(seen) == pytest.approx(0.15, abs=0.005)


def _naive_events(x: np.ndarray, m: np.ndarray) -> np.ndarray:
    events = np.zeros_like(m)
    for b in range(x.shape[0]):
        for c in range(x.shape[2]):
            known = [k for k in range(1, x.shape[1]) if m[b, k, c] and m[b, k - 1, c]]
            changes = np.array([abs(x[b, k, c] - x[b, k - 1, c]) for k in known])
            if len(changes):
                events[b, known, c] = changes > np.quantile(changes.astype(np.float64), 0.8)
    return events


@given(st.integers(0, 2**31), st.integers(1, 40), st.floats(0.0, 0.9))
@settings(max_examples=40)
def test_event_mode_hides_the_changes_above_the_quantile(seed: int, steps: int, absent: float) -> None:
    x, m = _window(seed, 4, steps, 3, absent)
    x = (x * 4).round() / 4 * m  # ties
    hidden = m & ~corrupt(x, m, MaskConfig(mode="event", ratio=0.5), _generator(seed))
    expected = torch.from_numpy(_naive_events(x.numpy(), m.numpy()))
    emptied = ~(m & ~expected).flatten(1).any(1)
    assert torch.equal(hidden[~emptied], expected[~emptied])


def test_event_mode_takes_a_part_of_the_events() -> None:
    x, m = _window(0, 1000)
    all_events = _hidden_share(corrupt(x, m, MaskConfig(mode="event", ratio=0.2), _generator()))
    half = _hidden_share(corrupt(x, m, MaskConfig(mode="event", ratio=0.1), _generator()))
    assert half / all_events == pytest.approx(0.5, abs=0.02)


def test_a_constant_channel_does_not_vanish_in_event_mode() -> None:
    """With 'at least' instead of 'strictly above', every step of a resting machine would be an event."""
    m = torch.ones((4, 32, 3), dtype=torch.bool)
    assert corrupt(torch.zeros((4, 32, 3)), m, MaskConfig(mode="event", ratio=0.5), _generator()).all()


def test_mixed_rate_is_that_of_the_union() -> None:
    x, m = _window(0, 1000)
    share = _hidden_share(corrupt(x, m, MaskConfig(mode="mixed", ratio=0.35), _generator()))
    events = 6 / 32
    expected = 1 - (1 - 0.35 * 0.35) * (1 - 0.30 * 0.35) * (1 - 0.15) * (1 - events * 0.35)
    assert share == pytest.approx(expected, abs=0.006)


@given(st.integers(0, 2**31), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_schema_view_is_never_empty_and_keeps_whole_channels(seed: int, keep: float, absent: float) -> None:
    _, m = _window(seed, 32, 6, 5, absent)
    m[:, :, 0] = False
    view = schema_view(m, keep, _generator(seed))
    assert not (view & ~m).any()
    assert torch.equal(view.flatten(1).any(1), m.flatten(1).any(1))
    kept = view.any(1)[:, None, :]
    assert torch.equal(view, m & kept)


def test_schema_view_rate() -> None:
    _, m = _window(0, 4000, 2, 17)
    assert schema_view(m, 0.65, _generator()).float().mean().item() == pytest.approx(0.65, abs=0.01)


def test_an_emptied_window_keeps_a_present_channel_and_not_always_the_same() -> None:
    m = torch.zeros((500, 4, 6), dtype=torch.bool)
    m[:, :, 2:5] = True
    view = schema_view(m, 0.0, _generator())
    chosen = view.any(1).int().argmax(1)
    assert (view.any(1).sum(1) == 1).all()
    assert set(chosen.tolist()) == {2, 3, 4}


def test_a_window_without_any_entry_stays_empty() -> None:
    x, m = torch.zeros((3, 8, 4)), torch.zeros((3, 8, 4), dtype=torch.bool)
    for mode in MODES:
        assert not corrupt(x, m, MaskConfig(mode=mode), _generator()).any()


def test_mode_none_hides_nothing() -> None:
    x, m = _window(0, absent=0.2)
    assert torch.equal(corrupt(x, m, MaskConfig(mode="none"), _generator()), m)


@pytest.mark.parametrize("mode", MODES)
def test_training_masks_repeat_with_the_seed(mode: str) -> None:
    x, m = _window(1)
    config = MaskConfig(mode=mode, ratio=0.15)
    assert torch.equal(corrupt(x, m, config, _generator(3)), corrupt(x, m, config, _generator(3)))
    assert not torch.equal(corrupt(x, m, config, _generator(3)), corrupt(x, m, config, _generator(4)))


@pytest.mark.parametrize("mode", MODES)
def test_a_validation_mask_belongs_to_its_window_not_to_its_batch(mode: str) -> None:
    x, m = _window(1)
    window = torch.arange(100, 164)
    config = MaskConfig(mode=mode, ratio=0.15)
    whole = validation_masks(x, m, window, config, seed=7)
    order = torch.randperm(64, generator=_generator())
    assert torch.equal(validation_masks(x[order], m[order], window[order], config, seed=7), whole[order])
    alone = torch.cat([validation_masks(x[i : i + 1], m[i : i + 1], window[i : i + 1], config, 7) for i in range(64)])
    assert torch.equal(alone, whole)
    assert not torch.equal(validation_masks(x, m, window, config, seed=8), whole)


def test_validation_rate_is_that_of_training() -> None:
    x, m = _window(0, 500)
    seen = validation_masks(x, m, torch.arange(500), MaskConfig(mode="random", ratio=0.35), seed=1)
    assert _hidden_share(seen) == pytest.approx(0.35, abs=0.005)


def _batch(seed: int = 0) -> WindowBatch:
    x, m = _window(seed, absent=0.2)
    future_x, future_m = _window(seed + 1, steps=5, absent=0.2)
    commands = torch.zeros((64, 32, 4))
    return WindowBatch(
        x, m, commands, future_x, future_m, commands[:, :5], commands[:, :16], torch.arange(64), torch.zeros(64).long()
    )


def test_level_shift_moves_context_and_targets_of_a_channel_together() -> None:
    batch = _batch()
    moved = level_shift(batch, seed=5)
    past, future = moved.x_BKC - batch.x_BKC, moved.future_x_BHC - batch.future_x_BHC
    assert (past[~batch.m_BKC] == 0).all()
    offset = torch.where(batch.m_BKC, past, float("-inf")).amax(1, keepdim=True)
    torch.testing.assert_close(past, offset * batch.m_BKC, rtol=0, atol=1e-5)
    torch.testing.assert_close(future, offset * batch.future_m_BHC, rtol=0, atol=1e-5)
    assert offset.abs().max().item() == pytest.approx(2.0, rel=0.05)
    assert (offset.abs() > 1e-3).float().mean().item() == pytest.approx(0.5, abs=0.06)
    again = level_shift(batch, seed=5)
    assert torch.equal(again.x_BKC, moved.x_BKC)


@pytest.mark.parametrize(
    "wrong", [{"ratio": 1.0}, {"ratio": -0.1}, {"channel_drop": 1.0}, {"mode": "blocks"}, {"rate": 0.1}]
)
def test_impossible_masks_are_refused(wrong: dict) -> None:
    with pytest.raises(ValidationError):
        MaskConfig(**wrong)
