"""One step: what it computes, that it repeats bit for bit, that schedules and teacher really act."""

from typing import Any

import pytest
import torch

from crossfeed.logs.table import Table
from crossfeed.model.interface import Stage
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import prepare
from crossfeed.training.seeds import derive
from crossfeed.training.step import TrainStep
from tests.training.conftest import small_config


def make_step(
    table: Table,
    stage: Stage = "pretrain",
    changes: dict[str, Any] | None = None,
    steps: int = 4,
    device: str = "cpu",
    name: str = "mended",
) -> TrainStep:
    config = small_config(changes, name)
    data = prepare([table], config, torch.device(device))
    torch.manual_seed(derive(config.training.seed, "init"))
    model = WorldModel.build(config.model, data.schema, data.normaliser).to(device)
    step = TrainStep(model, data.train, config, stage, steps, "float32")
    step.begin_epoch(0)
    return step


def run(step: TrainStep) -> torch.Tensor:
    for _ in range(step.steps):
        step()
    return step.trace()


# Steps 1, 10 and 20, without dropout. A change here means that the method or its randomness changed: say so in docs.
GOLDEN: dict[str, dict[str, list[float]]] = {
    "pretrain": {
        "latent": [0.771455, 0.243506, 0.125272],
        "vicreg": [18.5152, 18.0205, 16.3517],
        "schema": [0.0125238, 0.00695541, 0.00671638],
        "recovery": [1.0828, 0.661096, 0.635951],
        "gradient_norm": [3.25986, 0.951292, 1.01611],
    },
    "finetune": {
        "latent": [0.863461, 0.333369, 0.218405],
        "vicreg": [18.6646, 18.5072, 17.9304],
        "schema": [0.0721526, 0.0807295, 0.0847205],
        "recovery": [0.948349, 0.670197, 1.04013],
        "physical": [1.7969, 1.44496, 1.57344],
        "gradient_norm": [6.04767, 1.90243, 2.47343],
    },
}


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_golden_losses_of_twenty_steps(table: Table, stage: Stage) -> None:
    step = make_step(table, stage, {"model.blocks.dropout": 0.0}, steps=20)
    trace_ST = run(step)
    assert GOLDEN[stage].keys() == set(step.names)
    for name, expected in GOLDEN[stage].items():
        column_S = trace_ST[:, step.names.index(name)]
        assert column_S[[0, 9, 19]].tolist() == pytest.approx(expected, rel=2e-4), name
        assert column_S.unique().numel() == 20, name


# The same of the default network, whose numbers nothing but this trace holds still.
GOLDEN_SENSORS = {
    "crps": [0.629048, 0.484834, 0.583280],
    "squared": [1.05261, 0.673798, 0.991515],
    "gradient_norm": [0.403908, 0.324753, 0.481359],
}


def test_golden_losses_of_twenty_steps_of_the_default_network(table: Table) -> None:
    step = make_step(table, "finetune", {"model.dropout": 0.0}, steps=20, name="crossfeed")
    trace_ST = run(step)
    assert GOLDEN_SENSORS.keys() == set(step.names)
    for name, expected in GOLDEN_SENSORS.items():
        column_S = trace_ST[:, step.names.index(name)]
        assert column_S[[0, 9, 19]].tolist() == pytest.approx(expected, rel=2e-4), name


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_same_seed_same_numbers_bit_for_bit(table: Table, stage: Stage) -> None:
    torch.manual_seed(0)
    first = run(make_step(table, stage))
    torch.manual_seed(12345)
    assert torch.equal(first, run(make_step(table, stage)))
    assert not torch.equal(first, run(make_step(table, stage, {"training.seed": 1})))


def test_an_epoch_can_be_repeated_on_its_own(table: Table) -> None:
    """What resume relies on: an epoch's randomness depends on its number, not on what ran before."""
    changes = {"training.learning_rate": 1e-30, "training.ema_momentum": 1.0, "training.weight_decay": 0.0}
    step = make_step(table, changes=changes)
    run(step)
    step.begin_epoch(1)
    second = run(step)
    step.begin_epoch(0)
    run(step)
    step.begin_epoch(1)
    assert torch.equal(run(step), second)


def test_warmup_reaches_the_optimiser(table: Table) -> None:
    changes = {"training.warmup_steps": 4, "training.learning_rate": 0.04, "training.pretrain_epochs": 9}
    step = make_step(table, changes=changes)
    rates = []
    for _ in range(4):
        step()
        rates += [float(group["lr"]) for group in step.optimiser.param_groups[:1]]
    assert rates == pytest.approx([0.01, 0.02, 0.03, 0.04])
    step.begin_epoch(2)
    step()
    assert float(step.learning_rate) == pytest.approx(0.04)


def test_tiny_learning_rate_moves_less_than_a_large_one(table: Table) -> None:
    def moved(rate: float) -> float:
        step = make_step(table, changes={"training.learning_rate": rate})
        before = [parameter.detach().clone() for parameter in step.parameters]
        step()
        return sum(float((new.detach() - old).abs().sum()) for new, old in zip(step.parameters, before, strict=True))

    assert 0.0 < moved(1e-5) < 0.1 * moved(1e-3)


def test_teacher_follows_after_the_optimiser_step_by_the_momentum(table: Table) -> None:
    step = make_step(table)
    teacher, student = step.model.target_encoder.encoder, step.model.context_encoder
    before = [parameter.clone() for parameter in teacher.parameters()]
    step()
    for old, new, follows in zip(before, teacher.parameters(), student.parameters(), strict=True):
        torch.testing.assert_close(new, 0.98 * old + 0.02 * follows)
    assert any(not torch.equal(old, new) for old, new in zip(before, teacher.parameters(), strict=True))


def test_momentum_schedule_reaches_the_teacher(table: Table) -> None:
    step = make_step(table, changes={"training.ema_momentum": 0.0, "training.ema_final_momentum": 1.0})
    step()
    for new, follows in zip(
        step.model.target_encoder.encoder.parameters(), step.model.context_encoder.parameters(), strict=True
    ):
        assert torch.equal(new, follows)


def test_gradient_is_clipped(table: Table) -> None:
    step = make_step(table, changes={"training.clip_norm": 1e-3})
    step()
    norm = torch.stack([parameter.grad.norm() for parameter in step.parameters if parameter.grad is not None]).norm()
    assert float(norm) <= 1.01e-3
    assert float(step.trace()[0, -1]) > 1e-2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("name", "stage"), [("mended", "pretrain"), ("mended", "finetune"), ("crossfeed", "finetune")])
def test_step_never_waits_for_the_host_on_a_gpu(table: Table, name: str, stage: Stage) -> None:
    step = make_step(table, stage, device="cuda", name=name)
    step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert bool(step.trace()[:3].isfinite().all())


def test_a_step_on_a_cpu_is_never_captured(table: Table) -> None:
    step = make_step(table)
    assert not step.captured
    assert not step.compiled
