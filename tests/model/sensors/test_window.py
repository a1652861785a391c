"""A window as its sensors see it: from their own level, and blind to what is absent."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossfeed.model.interface import Rows
from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig
from crossfeed.model.sensors.network import FAINTEST, SensorWindow

cases = st.tuples(st.integers(0, 2**31), st.floats(0.0, 1.0), st.integers(1, 12))


def rows(seed: int = 0, presence: float = 0.7, length: int = 8, level: float = 0.0) -> Rows:
    chance = torch.Generator().manual_seed(seed)
    m_BRC = torch.rand(5, length, 3, generator=chance) < presence
    x_BRC = torch.where(m_BRC, torch.randn(5, length, 3, generator=chance).double() + level, 0.0)
    return seen(x_BRC, m_BRC)


def seen(x_BRC: Tensor, m_BRC: Tensor) -> Rows:
    statistics = InstanceNorm(InstanceNormConfig(kind="centred")).statistics(x_BRC, m_BRC)
    assert statistics is not None
    return Rows((x_BRC, m_BRC), statistics)


def naive_last(found: Rows) -> Tensor:
    """The last present value of each sensor, or its level where there is none."""
    last_BC = found.level.centre_BC.clone()
    for b, c in torch.cartesian_prod(torch.arange(len(last_BC)), torch.arange(last_BC.shape[1])).tolist():
        present = found.parts[1][b, :, c].nonzero()
        if len(present):
            last_BC[b, c] = found.parts[0][b, present[-1].item(), c]
    return last_BC


@given(cases)
@settings(max_examples=40, deadline=None)
def test_the_last_value_is_the_last_that_was_measured(case: tuple[int, float, int]) -> None:
    found = rows(*case)
    window = SensorWindow.of(found)
    assert torch.equal(window.last_BC, naive_last(found))
    assert torch.equal(window.present_BC, found.parts[1].any(1))


def test_the_last_value_is_exact_far_from_its_level() -> None:
    """Seen from the level and put back, a small value beside a large one had lost its digits."""
    x_BRC = torch.tensor([1e6, 1e6, 0.1]).view(1, 3, 1)
    window = SensorWindow.of(seen(x_BRC, torch.ones_like(x_BRC, dtype=torch.bool)))
    assert window.last_BC.item() == x_BRC[0, -1, 0].item()


@given(cases, st.sampled_from([float("nan"), float("inf"), 1e9]))
@settings(max_examples=40, deadline=None)
def test_what_is_absent_is_never_read(case: tuple[int, float, int], garbage: float) -> None:
    found = rows(*case)
    wild = seen(torch.where(found.parts[1], found.parts[0], garbage), found.parts[1])
    one, two = SensorWindow.of(found), SensorWindow.of(wild)
    assert torch.equal(one.features_BCE, two.features_BCE)
    assert torch.equal(one.last_BC, two.last_BC)
    assert torch.equal(one.centre_BC, two.centre_BC)


def test_features_are_values_presence_spread_and_last_value_from_the_level() -> None:
    x_BRC = torch.tensor([[2.0, 9.0, 4.0, 6.0]]).unsqueeze(-1)
    m_BRC = torch.tensor([[True, False, True, True]]).unsqueeze(-1)
    window = SensorWindow.of(seen(x_BRC, m_BRC))
    spread = (8.0 / 3.0) ** 0.5
    expected = [-2.0, 0.0, 0.0, 2.0, 1.0, 0.0, 1.0, 1.0, spread, torch.log(torch.tensor(spread + FAINTEST)).item(), 2.0]
    assert window.features_BCE.flatten().tolist() == pytest.approx(expected, abs=1e-6)
    assert window.centre_BC.item() == pytest.approx(4.0, abs=1e-6)


@given(cases, st.floats(-10.0, 10.0))
@settings(max_examples=40, deadline=None)
def test_another_level_changes_no_feature(case: tuple[int, float, int], level: float) -> None:
    one, two = SensorWindow.of(rows(*case)), SensorWindow.of(rows(*case, level=level))
    torch.testing.assert_close(one.features_BCE, two.features_BCE, rtol=0, atol=1e-4)
    moved = level * one.present_BC.double()
    torch.testing.assert_close(one.last_BC + moved, two.last_BC, rtol=0, atol=1e-9)


def test_a_sensor_without_any_value_is_absent_and_stands_at_zero() -> None:
    found = rows(presence=0.0)
    window = SensorWindow.of(found)
    assert not window.present_BC.any()
    assert (window.last_BC == 0.0).all()
    assert window.features_BCE.isfinite().all()


@pytest.mark.parametrize("length", [1, 2])
def test_short_and_constant_windows_have_finite_features(length: int) -> None:
    x_BRC = torch.full((2, length, 3), 7.0)
    window = SensorWindow.of(seen(x_BRC, torch.ones_like(x_BRC, dtype=torch.bool)))
    assert window.features_BCE.isfinite().all()
    assert torch.equal(window.last_BC, x_BRC[:, -1])


@given(st.integers(0, 2**31), st.integers(1, 7))
@settings(max_examples=20, deadline=None)
def test_rows_read_one_after_the_other_are_the_rows_read_at_once(seed: int, cut: int) -> None:
    found = rows(seed)
    joined = found.window(0, cut).followed_by(found.window(cut, len(found)))
    assert len(joined) == len(found) == 8
    assert torch.equal(joined.parts[0], found.parts[0])
    assert torch.equal(joined.parts[1], found.parts[1])
    assert joined.level is found.level
    assert len(joined.parts[0]) == len(found.parts[0])


def test_a_window_of_some_sensors_has_the_columns_of_these() -> None:
    window = SensorWindow.of(rows())
    some = window.only(torch.tensor([2, 0]))
    assert torch.equal(some.features_BCE, window.features_BCE[:, [2, 0]])
    assert torch.equal(some.last_BC, window.last_BC[:, [2, 0]])
    assert some.channels is not None
    assert some.channels.tolist() == [2, 0]
