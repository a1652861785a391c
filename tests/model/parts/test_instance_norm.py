"""Instance normalisation: what goes out comes back, masked entries have no say, and the variance keeps its gradient."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from crossfeed.model.interface import Plan
from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig, Kind
from crossfeed.model.world_model import WorldModel
from tests.model import toy

KINDS = get_args(Kind)
ACTIVE = tuple(kind for kind in KINDS if kind != "none")


def _norm(kind: str, **settings: float) -> InstanceNorm:
    return InstanceNorm(InstanceNormConfig(kind=kind, **settings))  # type: ignore[arg-type]


def _built(kind: str, variance: str = "smooth") -> WorldModel:
    return toy.model(toy.method({"model.instance_norm.kind": kind, "model.head.variance": variance}))


@pytest.mark.parametrize("kind", ACTIVE)
def test_statistics_are_those_of_the_present_entries(kind: str) -> None:
    windows = toy.batch()
    found = _norm(kind).statistics(windows.x_BKC, windows.m_BKC)
    assert found is not None
    for window in range(len(windows.x_BKC)):
        for channel in range(5):
            seen = windows.x_BKC[window, windows.m_BKC[window, :, channel], channel].double()
            centre, variance = seen.mean(), seen.var(unbiased=False)
            scale = (variance + 1e-5).sqrt()
            if kind == "floored":
                scale = scale.clamp(min=0.1)
            if kind == "blended":
                trust = (variance / 0.01).clamp(max=1.0)
                centre, scale = trust * centre, trust * scale + 1.0 - trust
            if kind in ("centred", "anchored"):
                scale = torch.ones_like(scale)
            assert found.centre_BC[window, channel].item() == pytest.approx(centre.item(), abs=1e-6)
            assert found.scale_BC[window, channel].item() == pytest.approx(scale.item(), rel=1e-5)


@pytest.mark.parametrize("kind", ACTIVE)
@pytest.mark.parametrize("value", [float("nan"), 0.0, 1e6])
def test_statistics_are_blind_to_masked_entries(kind: str, value: float) -> None:
    windows, norm = toy.batch(), _norm(kind)
    plain = norm.statistics(windows.x_BKC, windows.m_BKC)
    dirty = norm.statistics(toy.filled(windows, value).x_BKC, windows.m_BKC)
    assert plain is not None
    assert dirty is not None
    assert torch.equal(plain.centre_BC, dirty.centre_BC)
    assert torch.equal(plain.scale_BC, dirty.scale_BC)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_returns_the_rows(kind: str) -> None:
    windows, norm = toy.batch(), _norm(kind)
    statistics = norm.statistics(windows.x_BKC, windows.m_BKC)
    back = norm.restore_mean(norm.normalise(windows.x_BKC, statistics), statistics)
    torch.testing.assert_close(back, windows.x_BKC, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ACTIVE)
def test_an_unseen_channel_keeps_the_identity(kind: str) -> None:
    windows, norm = toy.batch(), _norm(kind)
    m_BKC = windows.m_BKC.clone()
    m_BKC[:, :, 3] = False
    statistics = norm.statistics(windows.x_BKC, m_BKC)
    assert statistics is not None
    rows = torch.randn(6, 2, 5)
    assert torch.equal(norm.normalise(rows, statistics)[..., 3], rows[..., 3])
    assert torch.equal(norm.restore_mean(rows, statistics)[..., 3], rows[..., 3])
    assert torch.equal(norm.restore_log_variance(rows, statistics)[..., 3], rows[..., 3])


def test_none_is_bitwise_the_model_without_the_module() -> None:
    model, windows = _built("none"), toy.batch()
    prediction = model(windows)
    encoding = model.context_encoder(windows.x_BKC, windows.m_BKC, windows.a_BKA)
    latent_BHD = model.predictor(encoding[:, -1], Plan.of(windows, model.horizons))
    mean_BHC, log_variance_BHC = model.head(latent_BHD)
    assert torch.equal(prediction.distribution.mean, mean_BHC)
    deviation_BHC = torch.exp(0.5 * model.head.bound(log_variance_BHC))
    assert torch.equal(prediction.distribution.standard_deviation, deviation_BHC)


@pytest.mark.parametrize(
    ("kind", "gain"), [("pure", 3.0), ("split", 3.0), ("floored", 3.0), ("blended", 3.0), ("centred", 1.0)]
)
def test_forecasts_follow_affine_changes_of_the_input(kind: str, gain: float) -> None:
    model, windows = _built(kind), toy.batch(presence=1.1)
    shift_C = torch.tensor([5.0, -2.0, 0.0, 10.0, 1.0])
    changed = replace(windows, x_BKC=gain * windows.x_BKC + shift_C)
    before, after = model(windows).distribution, model(changed).distribution
    torch.testing.assert_close(after.mean, gain * before.mean + shift_C, atol=1e-3, rtol=1e-3)


def test_target_rows_are_normalised_with_the_statistics_of_the_context() -> None:
    model, windows = _built("centred"), toy.batch(presence=1.1)
    shifted = replace(windows, x_BKC=windows.x_BKC + 3.0, future_x_BHC=windows.future_x_BHC + 3.0)
    only_future = replace(windows, future_x_BHC=windows.future_x_BHC + 3.0)
    plain = model.encode_target(windows)
    torch.testing.assert_close(model.encode_target(shifted), plain, atol=1e-4, rtol=1e-4)
    assert (model.encode_target(only_future) - plain).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variance", ["smooth", "hard_clamp"])
def test_an_idle_window_followed_by_a_start_up_teaches_the_variance(kind: str, variance: str) -> None:
    """The hidden cause of the paper's NLL of 20.6: under `pure` with a hard clamp this gradient is exactly zero."""
    model, windows = _built(kind, variance), toy.batch(presence=1.1)
    idle = replace(windows, x_BKC=torch.full_like(windows.x_BKC, 0.3), future_x_BHC=windows.future_x_BHC + 4.0)
    prediction = model(idle)
    model.head.loss(prediction.distribution, idle.future_x_BHC, idle.future_m_BHC).backward()
    gradient = model.head.log_variance.weight.grad
    assert gradient is not None
    if (kind, variance) == ("pure", "hard_clamp"):
        assert gradient.abs().max() == 0.0
    else:
        assert gradient.abs().max() > 0.0


@pytest.mark.parametrize(
    ("kind", "scale"), [("pure", 1e-5**0.5), ("floored", 0.1), ("blended", 1.0), ("centred", 1.0), ("anchored", 1.0)]
)
def test_a_channel_seen_once_has_its_value_and_the_scale_of_one_that_stands(kind: str, scale: float) -> None:
    m_BKC = torch.zeros(1, 6, 1, dtype=torch.bool)
    m_BKC[0, 4] = True
    found = _norm(kind).statistics(torch.full((1, 6, 1), 3.0), m_BKC)
    assert found is not None
    assert found.scale_BC.item() == pytest.approx(scale)
    assert found.centre_BC.item() == pytest.approx(0.0 if kind == "blended" else 3.0)
