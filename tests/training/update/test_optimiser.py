"""Every trainable parameter in exactly one group, with a gradient in its stage and none where the stage says none."""

import subprocess
import sys

import pytest
import torch

from crossfeed.logs.table import Table
from crossfeed.model.interface import Stage
from crossfeed.training.optimiser import adamw, parameter_groups
from tests.training.test_step import make_step

NEVER_TRAINED = {"pretrain": ("head", "target_encoder"), "finetune": ("target_encoder",)}


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_every_trainable_parameter_is_in_exactly_one_group(table: Table, stage: Stage) -> None:
    step = make_step(table, stage)
    counted = [id(parameter) for group in step.optimiser.param_groups for parameter in group["params"]]
    assert len(counted) == len(set(counted))
    expected = {
        id(parameter)
        for name, parameter in step.model.named_parameters()
        if name.partition(".")[0] not in NEVER_TRAINED[stage]
    }
    assert set(counted) == expected


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_gradients_reach_what_the_stage_trains_and_nothing_else(table: Table, stage: Stage) -> None:
    """A head that was missing from the optimiser, and one that was trained too early, both happened elsewhere."""
    step = make_step(table, stage)
    before = {name: parameter.detach().clone() for name, parameter in step.model.named_parameters()}
    step()
    trained = step.model.trained(stage)
    for name, parameter in step.model.named_parameters():
        if name in trained:
            assert parameter.grad is not None, name
            assert bool((parameter.grad != 0).any()), name
            assert not torch.equal(parameter, before[name]), name
        else:
            assert parameter.grad is None, name
            if not name.startswith("target_encoder"):
                assert torch.equal(parameter, before[name]), name


def test_only_weights_of_linear_maps_are_decayed(table: Table) -> None:
    model = make_step(table).model
    groups = parameter_groups(model, "finetune", decay_everything=False)
    assert all(parameter.ndim == 2 for parameter in groups["decayed"].values())
    assert all(name.endswith("weight") for name in groups["decayed"])
    assert not any("norm" in name for name in groups["decayed"])
    assert {"context_encoder.time", "context_encoder.row.channel", "head.mean.bias"} <= groups["plain"].keys()


def test_paper_decays_everything(table: Table) -> None:
    model = make_step(table).model
    groups = parameter_groups(model, "finetune", decay_everything=True)
    assert groups["plain"] == {}
    assert groups["decayed"].keys() == model.trained("finetune").keys()


def test_decay_reaches_the_optimiser(table: Table) -> None:
    step = make_step(table, changes={"training.weight_decay": 0.3})
    assert sorted(group["weight_decay"] for group in step.optimiser.param_groups) == [0.0, 0.3]


def test_steps_are_those_of_the_library() -> None:
    weights = [torch.nn.Parameter(torch.linspace(-1.0, 1.0, 7)) for _ in range(2)]
    rate = torch.tensor(0.1)
    ours, theirs = (
        adamw([([weights[0]], 0.3)], rate),
        torch.optim.AdamW([weights[1]], rate, weight_decay=0.3, fused=True),
    )
    for number in range(5):
        for optimiser, weight in zip((ours, theirs), weights, strict=True):
            optimiser.zero_grad()
            (weight - number).square().sum().backward()
            optimiser.step()
    assert torch.equal(*weights)
    assert not torch.equal(weights[0], torch.linspace(-1.0, 1.0, 7))


def test_the_first_step_imported_the_compiler_for_seconds() -> None:
    work = (
        "import sys, torch; from crossfeed.training.optimiser import adamw; weight = torch.nn.Parameter(torch.ones(2));"
        "optimiser = adamw([([weight], 0.1)], torch.tensor(0.1)); optimiser.zero_grad(); weight.sum().backward();"
        "optimiser.step(); assert weight[0] < 1.0; assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", work], check=True)
