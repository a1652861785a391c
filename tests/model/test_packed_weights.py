"""Packed copies forecast the same and cannot be mistaken for a model to save."""

from pathlib import Path

import pytest
import torch

from crossfeed.errors import CheckpointError, ConfigError
from crossfeed.model.live import PackedLinear, has_bfloat16, packed
from crossfeed.model.world_model import WorldModel
from tests.model import toy

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch cannot pack weights")


@pytest.fixture(scope="module")
def wide() -> WorldModel:
    return toy.model(toy.method({"model.blocks.width": 64}))


@pytest.fixture(scope="module")
def members() -> WorldModel:
    return toy.sensor_model(toy.sensor_method({"model.width": 64, "model.members": 2}))


def test_in_float32_a_sensor_network_is_left_as_it_is(members: WorldModel) -> None:
    assert packed(members) is members


def test_packing_changes_nothing_but_the_layout(wide: WorldModel) -> None:
    twin, windows = packed(wide), toy.batch()
    assert any(isinstance(module, PackedLinear) for module in twin.modules())
    assert not any(isinstance(module, PackedLinear) for module in wide.modules())
    with torch.no_grad():
        torch.testing.assert_close(
            twin(windows).distribution.mean, wide(windows).distribution.mean, atol=1e-5, rtol=1e-5
        )


@pytest.mark.skipif(not has_bfloat16(), reason="this CPU cannot read weights packed in bfloat16")
@pytest.mark.parametrize("network", ["wide", "members"])
def test_bfloat16_stays_within_a_few_hundredths_of_a_deviation(network: str, request: pytest.FixtureRequest) -> None:
    model, windows = request.getfixturevalue(network), toy.batch()
    with torch.no_grad():
        exact, rounded = model(windows).distribution, packed(model, "bfloat16")(windows).distribution
    distance = (rounded.mean - exact.mean).abs() / exact.standard_deviation
    assert 0.0 < distance.max() < 0.05
    assert rounded.mean.dtype == torch.float32


def test_a_cpu_without_bfloat16_is_told_so(wide: WorldModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended with an error from inside the library."""
    monkeypatch.setattr("crossfeed.model.live.has_bfloat16", lambda: False)
    with pytest.raises(ConfigError, match="float32"):
        packed(wide, "bfloat16")


def test_packing_twice_is_packing_once(wide: WorldModel) -> None:
    twin = packed(wide)
    assert packed(twin) is twin


def test_a_packed_model_cannot_be_saved(wide: WorldModel, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="packed from"):
        packed(wide).save(tmp_path / "model.safetensors", {})
    assert list(tmp_path.iterdir()) == []
