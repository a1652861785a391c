"""A sensor model after a journey through its file, and the parts of it that may adapt."""

from pathlib import Path

import pytest
import torch

from crossfeed.errors import CheckpointError
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from tests.model.sensors.small import (
    SCHEMA,
    assert_same,
    fresh,
    say,
    single,
    stirred,
    windows,
)


@pytest.mark.parametrize("members", [1, 2])
def test_a_saved_model_says_the_same_bit_for_bit(tmp_path: Path, members: int) -> None:
    model, batch = stirred(members=members).float(), single(windows())
    model.variance_inflation_H.copy_(torch.tensor([1.0, 1.25, 1.7]))
    model.save(tmp_path / "model.safetensors", {})
    loaded = WorldModel.load(tmp_path / "model.safetensors", SCHEMA)
    assert isinstance(loaded, SensorModel)
    assert loaded.config == model.config
    assert torch.equal(loaded.variance_inflation_H, model.variance_inflation_H)
    assert_same(say(loaded, batch), say(model, batch), atol=0.0)


def test_a_file_for_more_members_is_refused(tmp_path: Path) -> None:
    model = fresh(members=2).float()
    one = {name: tensor[:1] if name.startswith("network.") else tensor for name, tensor in model.state_dict().items()}
    model.state_dict = lambda: one  # type: ignore[method-assign, assignment]
    model.save(tmp_path / "model.safetensors", {})
    with pytest.raises(CheckpointError, match=r"network\.\S+ is \(1, .*, not \(2, "):
        WorldModel.load(tmp_path / "model.safetensors")


def test_only_what_was_learned_is_stored() -> None:
    model = fresh(members=2)
    learned = {name for name, _ in model.named_parameters()}
    assert set(model.state_dict()) == learned | {"variance_inflation_H", "disagreement_threshold"}
    tensors = model.state_dict()
    del tensors["variance_inflation_H"]
    with pytest.raises(RuntimeError, match="variance_inflation_H"):
        fresh(members=2).load_state_dict(tensors)


@pytest.mark.parametrize("mode", ["head", "predictor", "channels"])
def test_every_part_that_may_adapt_names_parameters(mode: str) -> None:
    """A prefix with a slip in it would adapt nothing, and nobody would notice."""
    model = fresh(members=2)
    prefixes = model.adaptation_parts[mode]
    names = [name for name, _ in model.named_parameters()]
    assert all(any(name.startswith(prefix) for name in names) for prefix in prefixes)
    found = {name for name in names if name.startswith(prefixes)}
    assert all(model.get_parameter(name).shape[0] == 2 for name in found), "each member has its own"
    assert found < set(names)
