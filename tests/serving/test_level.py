import pytest
import torch

from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig
from crossfeed.serving.rollout import CONTEXTS, levels

CENTRED = InstanceNorm(InstanceNormConfig(kind="centred"))


def test_with_one_window_measured_every_path_has_its_level() -> None:
    x_RC = torch.arange(8.0)[:, None].expand(-1, 2)
    found = levels(CENTRED.statistics, x_RC, context=8, samples=20)
    assert found is not None
    torch.testing.assert_close(found.centre_BC, torch.full((20, 2), 3.5))


def test_levels_are_spread_over_the_last_windows_and_no_further() -> None:
    x_RC = torch.arange(100.0)[:, None]
    found = levels(CENTRED.statistics, x_RC, context=10, samples=21)
    assert found is not None
    centre_N = found.centre_BC[:, 0]
    assert centre_N[0] == 94.5
    assert centre_N.min() == 100.0 - 10 * CONTEXTS + 4.5
    # Eleven pairs; the last path has no twin.
    torch.testing.assert_close(centre_N[:10], centre_N[11:])
    assert len(set(centre_N.tolist())) == 11


@pytest.mark.parametrize("samples", [20, 21])
def test_mirrored_paths_share_a_level(samples: int) -> None:
    found = levels(CENTRED.statistics, torch.arange(100.0)[:, None], context=10, samples=samples)
    assert found is not None
    centre_N, pairs = found.centre_BC[:, 0], (samples + 1) // 2
    torch.testing.assert_close(centre_N[: samples - pairs], centre_N[pairs:])
    assert len(set(centre_N[:pairs].tolist())) == pairs


def test_a_window_that_lacks_a_sensor_borrows_the_newest_level() -> None:
    x_RC = torch.full((40, 2), 5.0)
    x_RC[:30, 0] = torch.nan
    x_RC[:, 1] = torch.nan
    found = levels(CENTRED.statistics, x_RC, context=10, samples=20)
    assert found is not None
    torch.testing.assert_close(found.centre_BC[:, 0], torch.full((20,), 5.0))
    torch.testing.assert_close(found.centre_BC[:, 1], torch.zeros(20))


@pytest.mark.parametrize("kind", ["pure", "floored", "blended", "split"])
def test_scales_are_levels_too(kind: str) -> None:
    norm = InstanceNorm(InstanceNormConfig.model_validate({"kind": kind}))
    found = levels(
        norm.statistics, torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), context=8, samples=30
    )
    assert found is not None
    assert found.scale_BC.shape == (30, 3)
    assert (found.scale_BC > 0.0).all()


def test_without_instance_normalisation_there_is_no_level() -> None:
    assert levels(InstanceNorm(InstanceNormConfig(kind="none")).statistics, torch.zeros(20, 2), 8, 20) is None
