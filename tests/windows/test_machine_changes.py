"""Windows as another machine might show them: other gains, levels and noise, and the same story."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from crossfeed.windows.augment import MachineAugmentation, MachineChanges
from crossfeed.windows.corrupt import generator_draw, window_draw
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch

ZERO = torch.tensor([-1.0, 0.5, 0.0, 0.0])  # of the first two sensors; those of the others are out of reach
REACHED = torch.tensor([True, True, False, False])
SENSORS, ROWS, HORIZONS = 4, 6, 3
COMMANDED = ("a_BKA", "mean_a_BHA", "future_a_BTA")
everything = MachineChanges(gain=0.3, level=0.2, noise=0.1)


def normaliser() -> Normaliser:
    return Normaliser(
        method="zscore",
        floor=0.05,
        sensor_names=("a", "b", "c", "d"),
        command_names=("feed",),
        sensor_location=[2.0, -1.0, 50.0, -30.0],
        sensor_scale=[2.0, 2.0, 10.0, 1.0],
        command_location=[3.0],
        command_scale=[2.0],
        unseen=(),
        fitted_on="0" * 64,
    )


def windows(seed: int = 0, size: int = 8, presence: float = 0.7) -> WindowBatch:
    chance = torch.Generator().manual_seed(seed)
    m_BKC = torch.rand(size, ROWS, SENSORS, generator=chance) < presence
    future_m_BHC = torch.rand(size, HORIZONS, SENSORS, generator=chance) < presence
    commands = torch.randn(size, ROWS, 1, generator=chance)
    return WindowBatch(
        x_BKC=torch.where(m_BKC, torch.randn(size, ROWS, SENSORS, generator=chance), 0.0),
        m_BKC=m_BKC,
        a_BKA=commands,
        future_x_BHC=torch.where(future_m_BHC, torch.randn(size, HORIZONS, SENSORS, generator=chance), 0.0),
        future_m_BHC=future_m_BHC,
        mean_a_BHA=commands[:, :HORIZONS],
        future_a_BTA=commands,
        last_index_B=torch.arange(100, 100 + size),
        machine_B=torch.zeros(size, dtype=torch.long),
    )


def change(config: MachineChanges, batch: WindowBatch, seed: int = 0) -> tuple[WindowBatch, Tensor]:
    return MachineAugmentation(config, normaliser(), "cpu")(batch, generator_draw(torch.Generator().manual_seed(seed)))


seeds = st.integers(0, 2**31)


@given(seeds, st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None)
def test_zeros_change_nothing(seed: int, presence: float) -> None:
    batch = windows(seed, presence=presence)
    changed, gain_B1C = change(MachineChanges(), batch, seed)
    for name in batch.__dataclass_fields__:
        assert torch.equal(getattr(changed, name), getattr(batch, name)), name
    assert (gain_B1C == 1.0).all()
    assert not MachineChanges().active


@given(seeds, st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None)
def test_presence_commands_and_absent_entries_stay_as_they_are(seed: int, presence: float) -> None:
    batch = windows(seed, presence=presence)
    changed, gain_B1C = change(everything, batch, seed)
    for name in set(batch.__dataclass_fields__) - {"x_BKC", "future_x_BHC"}:
        assert torch.equal(getattr(changed, name), getattr(batch, name)), name
    assert (changed.x_BKC[~batch.m_BKC] == 0.0).all()
    assert (changed.future_x_BHC[~batch.future_m_BHC] == 0.0).all()
    assert changed.x_BKC.isfinite().all()
    assert (gain_B1C > 0.0).all()
    assert gain_B1C.shape == (8, 1, SENSORS)


@given(seeds, st.sampled_from([float("nan"), 1e9]))
@settings(max_examples=20, deadline=None)
def test_absent_values_are_never_read(seed: int, garbage: float) -> None:
    """The mean of the window, from which a gain acts, counted what lay under the mask."""
    batch = windows(seed)
    wild = replace(
        batch,
        x_BKC=torch.where(batch.m_BKC, batch.x_BKC, garbage),
        future_x_BHC=torch.where(batch.future_m_BHC, batch.future_x_BHC, garbage),
    )
    one, two = change(everything, batch, seed)[0], change(everything, wild, seed)[0]
    assert torch.equal(one.x_BKC, two.x_BKC)
    assert torch.equal(one.future_x_BHC, two.future_x_BHC)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_a_gain_acts_from_the_physical_zero_or_from_the_mean_of_the_window(seed: int) -> None:
    batch = windows(seed)
    changed, gain_B1C = change(MachineChanges(gain=0.5), batch, seed)
    count_B1C = batch.m_BKC.sum(1, keepdim=True)
    mean_B1C = batch.x_BKC.sum(1, keepdim=True) / count_B1C.clamp(min=1)
    from_B1C = torch.where(REACHED, ZERO, mean_B1C)
    for before, after, present in (
        (batch.x_BKC, changed.x_BKC, batch.m_BKC),
        (batch.future_x_BHC, changed.future_x_BHC, batch.future_m_BHC),
    ):
        expected = torch.where(present, from_B1C + gain_B1C * (before - from_B1C), 0.0)
        torch.testing.assert_close(after, expected, rtol=0, atol=1e-4)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_context_and_targets_change_alike(seed: int) -> None:
    """The same numbers as context and as targets must come out the same, whatever is drawn."""
    batch = windows(seed, presence=1.0)
    batch = replace(batch, future_x_BHC=batch.x_BKC[:, :HORIZONS])
    changed, _ = change(MachineChanges(gain=0.5, level=1.0), batch, seed)
    torch.testing.assert_close(changed.future_x_BHC, changed.x_BKC[:, :HORIZONS], rtol=0, atol=1e-6)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_the_gain_that_is_returned_is_the_one_that_was_applied(seed: int) -> None:
    batch = windows(seed, presence=1.0)
    changed, gain_B1C = change(MachineChanges(gain=0.5, level=1.0), batch, seed)
    moved, before = changed.x_BKC.diff(dim=1), batch.x_BKC.diff(dim=1)
    torch.testing.assert_close(moved, gain_B1C * before, rtol=0, atol=1e-4)


def test_a_level_is_one_constant_for_each_window_and_sensor() -> None:
    batch = windows(size=4000, presence=1.0)
    changed, gain_B1C = change(MachineChanges(level=0.5), batch)
    offset_BKC = changed.x_BKC - batch.x_BKC
    torch.testing.assert_close(offset_BKC, offset_BKC[:, :1].expand_as(offset_BKC), rtol=0, atol=1e-6)
    assert offset_BKC[:, 0].std(0).tolist() == pytest.approx([0.5] * SENSORS, rel=0.05)
    assert (gain_B1C == 1.0).all()


def test_gains_are_log_normal() -> None:
    _, gain_B1C = change(MachineChanges(gain=0.3), windows(size=4000))
    log = gain_B1C.log().flatten(0, 1)
    assert log.mean(0).abs().max() < 0.02
    assert log.std(0).tolist() == pytest.approx([0.3] * SENSORS, rel=0.05)
    assert (log[:, 0] * log[:, 1]).mean().abs() < 0.01  # each sensor for itself


def test_noise_lies_on_the_context_only_and_differs_from_row_to_row() -> None:
    batch = windows(size=4000, presence=1.0)
    changed, _ = change(MachineChanges(noise=0.2), batch)
    noise_BKC = changed.x_BKC - batch.x_BKC
    assert torch.equal(changed.future_x_BHC, batch.future_x_BHC)
    assert noise_BKC.mean().abs() < 0.01
    # The square of a uniform number times 0.2 is its standard deviation: the mean of its square is 0.04 / 5.
    assert noise_BKC.square().mean().item() == pytest.approx(0.2**2 / 5.0, rel=0.1)
    assert (noise_BKC[:, 0] * noise_BKC[:, 1]).mean().abs() < 1e-3


def test_a_window_keeps_its_change_in_any_batch() -> None:
    batch, others = windows(), MachineAugmentation(everything, normaliser(), "cpu")

    def shown(windows_B: Tensor, seed: int = 7) -> Tensor:
        some = replace(batch, **{name: getattr(batch, name)[windows_B] for name in batch.__dataclass_fields__})
        return others(some, window_draw(seed, some.last_index_B))[0].x_BKC

    whole = shown(torch.arange(8))
    order_B = torch.tensor([3, 1, 7, 0, 2, 6, 5, 4])
    assert torch.equal(shown(order_B), whole[order_B])
    assert torch.equal(torch.cat([shown(torch.tensor([number])) for number in range(8)]), whole)
    assert not torch.equal(shown(torch.arange(8), seed=8), whole)


def test_training_changes_repeat_with_the_seed() -> None:
    batch = windows()
    assert torch.equal(change(everything, batch, 3)[0].x_BKC, change(everything, batch, 3)[0].x_BKC)
    assert not torch.equal(change(everything, batch, 3)[0].x_BKC, change(everything, batch, 4)[0].x_BKC)


def test_changes_need_no_values() -> None:
    batch, others = windows(), MachineAugmentation(everything, normaliser(), "cpu")
    generator = torch.Generator().manual_seed(0)
    with FakeTensorMode(allow_non_fake_inputs=True):
        drawn, gain_B1C = others(batch, generator_draw(generator))
        hashed, _ = others(batch, window_draw(0, batch.last_index_B))
    assert drawn.x_BKC.shape == hashed.x_BKC.shape == (8, ROWS, SENSORS)
    assert gain_B1C.shape == (8, 1, SENSORS)


@pytest.mark.parametrize("wrong", [{"gain": -0.1}, {"gain": 3.0}, {"level": -1.0}, {"noise": 2.0}, {"delay": 1}])
def test_impossible_changes_are_refused(wrong: dict) -> None:
    with pytest.raises(ValidationError):
        MachineChanges(**wrong)


@pytest.mark.parametrize("name", ["gain", "level", "noise"])
def test_each_kind_of_change_counts_as_active_and_changes_something(name: str) -> None:
    config, batch = MachineChanges(**{name: 0.1}), windows()
    assert config.active
    assert not torch.equal(change(config, batch)[0].x_BKC, batch.x_BKC)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_commands_of_other_sizes_change_plan_and_history_by_one_factor_seen_from_standing(seed: int) -> None:
    batch = windows(seed)
    changed, gain_B1C = change(MachineChanges(commands=0.5), batch, seed)
    standing = float(normaliser().command_zero[0])
    assert standing != 0.0
    factor_B1A = (changed.a_BKA[:, :1] - standing) / (batch.a_BKA[:, :1] - standing)
    assert (factor_B1A > 0.0).all()
    for name in COMMANDED:
        before, after = getattr(batch, name), getattr(changed, name)
        torch.testing.assert_close(after, standing + factor_B1A * (before - standing), rtol=1e-4, atol=1e-4)
    assert torch.equal(changed.x_BKC, batch.x_BKC)
    assert (gain_B1C == 1.0).all()


def test_each_command_of_each_window_has_a_log_normal_factor_of_its_own() -> None:
    batch = windows(size=4000)
    two = replace(batch, **{name: getattr(batch, name).expand(-1, -1, 2) for name in COMMANDED})
    changed, _ = change(MachineChanges(commands=0.5), two)
    standing = float(normaliser().command_zero[0])
    log_BA = ((changed.a_BKA - standing) / (two.a_BKA - standing))[:, 0].log()
    assert log_BA.mean(0).abs().max() < 0.03
    assert log_BA.std(0).tolist() == pytest.approx([0.5, 0.5], rel=0.05)
    assert (log_BA[:, 0] * log_BA[:, 1]).mean().abs() < 0.03


def test_draws_of_a_window_stay_those_of_the_protocol() -> None:
    """Whoever validates with the same seed, today or later, draws the same numbers; these are held still."""
    drawn = window_draw(3, torch.tensor([0, 1, 1_000_003]))((3, 2))
    assert (drawn * 2**24).long().tolist() == [[8220068, 3978247], [15532692, 238857], [12809481, 258747]]
