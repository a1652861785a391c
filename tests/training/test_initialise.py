"""The three matched initialisations and their account of every tensor."""

import pytest
import torch

from crossfeed.errors import CheckpointError
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.training.pretrained import initialise
from tests.training.test_step import make_step


def pair(table: Table) -> tuple[WorldModel, dict[str, torch.Tensor]]:
    """A fresh model, and the weights of another seed."""
    other = make_step(table, changes={"training.seed": 5}).model
    return make_step(table).model, {name: tensor.clone() for name, tensor in other.state_dict().items()}


def is_head(name: str) -> bool:
    return name.partition(".")[0] in ("head", "recovery")


def test_scratch_loads_nothing(table: Table) -> None:
    model, pretrained = pair(table)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = initialise(model, pretrained, "scratch")
    assert report.loaded == ()
    assert set(report.missing) == set(report.unexpected) == set(before)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_body_with_fresh_head_resets_both_heads(table: Table) -> None:
    model, pretrained = pair(table)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = initialise(model, pretrained, "body_fresh_head")
    assert set(report.missing) == set(report.unexpected) == {name for name in before if is_head(name)}
    assert set(report.loaded) == before.keys() - set(report.missing)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name] if is_head(name) else pretrained[name]), name


def test_complete_checkpoint_loads_all(table: Table) -> None:
    model, pretrained = pair(table)
    report = initialise(model, pretrained, "complete_checkpoint")
    assert (report.missing, report.unexpected) == ((), ())
    assert all(torch.equal(tensor, pretrained[name]) for name, tensor in model.state_dict().items())


def test_weights_that_do_not_fit_are_named(table: Table) -> None:
    model, pretrained = pair(table)
    del pretrained["predictor.norm.weight"]
    pretrained["context_encoder.norm.bias"] = torch.zeros(3)
    pretrained["something.else"] = torch.zeros(1)
    with pytest.raises(CheckpointError) as caught:
        initialise(model, pretrained, "body_fresh_head")
    for part in (
        "missing: predictor.norm.weight",
        "of another shape: context_encoder.norm.bias",
        "unknown to the model: something.else",
    ):
        assert part in str(caught.value)
