"""The resume state: complete, atomic, and clear about damage."""

import resource
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from crossfeed.errors import CheckpointError, StorageError
from crossfeed.training.checkpoint import (
    STATE,
    Best,
    TrainingState,
    load_state,
    optimiser_tensors,
    remove_state,
    restore_optimiser,
    save_state,
)
from crossfeed.training.optimiser import adamw

CPU = torch.device("cpu")


def example(epoch: int = 1) -> TrainingState:
    weights = {"weight": torch.full((3, 2), float(epoch))}
    return TrainingState(
        stage="pretrain",
        epoch=epoch,
        best=Best(patience=3, epoch=epoch - 1, score=0.1 + 0.2, waited=0),
        history=[{"stage": "pretrain", "epoch": 0, "score": 1 / 3, "collapsed": None}],
        model=weights,
        optimiser={"weight/exp_avg": torch.rand(3, 2)},
        best_model=weights,
    )


def test_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    state = example()
    save_state(tmp_path, state)
    loaded = load_state(tmp_path, CPU)
    assert loaded is not None
    assert replace(loaded, model={}, optimiser={}, best_model={}) == replace(
        state, model={}, optimiser={}, best_model={}
    )
    for part in ("model", "optimiser", "best_model"):
        for name, tensor in getattr(state, part).items():
            assert torch.equal(getattr(loaded, part)[name], tensor)


def test_empty_folder_has_no_state(tmp_path: Path) -> None:
    assert load_state(tmp_path, CPU) is None


def test_old_best_weights_are_removed_only_after_the_new_state_is_there(tmp_path: Path) -> None:
    save_state(tmp_path, example(1))
    save_state(tmp_path, example(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-pretrain-0001.safetensors", STATE]
    remove_state(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_the_last_good_state(tmp_path: Path) -> None:
    save_state(tmp_path, example(1))
    large = replace(example(2), model={"weight": torch.zeros(100_000)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StorageError, match=STATE):
            save_state(tmp_path, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    kept = load_state(tmp_path, CPU)
    assert kept is not None
    assert kept.epoch == 1
    assert torch.equal(kept.best_model["weight"], torch.full((3, 2), 1.0))
    assert not list(tmp_path.glob(".*.partial"))


@pytest.mark.parametrize("damage", [b"", b"not a safetensors file at all", None])
def test_damaged_state_is_named(tmp_path: Path, damage: bytes | None) -> None:
    save_state(tmp_path, example())
    path = tmp_path / STATE
    path.write_bytes(path.read_bytes()[:-5] if damage is None else damage)
    with pytest.raises(CheckpointError, match=STATE):
        load_state(tmp_path, CPU)


def test_missing_best_weights_are_named(tmp_path: Path) -> None:
    save_state(tmp_path, example())
    (tmp_path / "best-pretrain-0000.safetensors").unlink()
    with pytest.raises(CheckpointError, match="best-pretrain-0000"):
        load_state(tmp_path, CPU)


def test_optimiser_goes_on_as_if_never_stopped() -> None:
    def stepped(model: nn.Linear, optimiser: torch.optim.Optimizer) -> None:
        optimiser.zero_grad()
        model(torch.ones(1, 3)).square().sum().backward()
        optimiser.step()

    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimiser = adamw([(list(model.parameters()), 0.01)], torch.tensor(0.1))
    stepped(model, optimiser)
    other = nn.Linear(3, 2)
    other.load_state_dict(model.state_dict())
    resumed = adamw([(list(other.parameters()), 0.01)], torch.tensor(0.1))
    restore_optimiser(resumed, other, optimiser_tensors(optimiser, model))
    for _ in range(3):
        stepped(model, optimiser)
        stepped(other, resumed)
    assert torch.equal(model.weight, other.weight)


def test_moments_of_an_unknown_tensor_are_refused() -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(CheckpointError, match="'other'"):
        restore_optimiser(
            adamw([(list(model.parameters()), 0.0)], torch.tensor(0.1)), model, {"other/exp_avg": torch.zeros(1)}
        )
