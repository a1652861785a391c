"""Compiled losses: the same numbers and gradients, and a clear word where a machine cannot compile."""

import pytest
import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.logs.table import Table
from crossfeed.model.config import ForecastObjectiveConfig
from crossfeed.model.interface import Stage, Views
from crossfeed.training.hardware import compiled
from tests.training.sensor_run import sensor_model
from tests.training.test_step import make_step


def test_traced_losses_and_gradients_are_those_of_the_plain_function(table: Table) -> None:
    model, data = sensor_model(table, {"model.members": 2})
    batch = data.train.batch(torch.arange(8))
    shown_BKC = batch.m_BKC & (torch.arange(batch.m_BKC.shape[1]) % 3 > 0).unsqueeze(-1)
    gain_B1C = torch.full_like(batch.x_BKC[:, :1], 1.5)

    def found(losses: object) -> tuple[dict[str, Tensor], list[Tensor]]:
        model.zero_grad()
        views = Views(shown_BKC, None, gain_B1C)
        terms = losses(batch, views, "finetune", ForecastObjectiveConfig()).terms  # type: ignore[operator]
        sum(terms.values()).backward()
        return terms, [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    terms, gradients = found(model.losses)
    quick_terms, quick_gradients = found(compiled(model.losses, backend="eager"))
    assert terms.keys() == quick_terms.keys()
    for name, term in terms.items():
        torch.testing.assert_close(quick_terms[name], term)
    assert len(gradients) == len(quick_gradients) > 10
    for quick, plain in zip(quick_gradients, gradients, strict=True):
        torch.testing.assert_close(quick, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "stage"), [("paper", "pretrain"), ("mended", "finetune")])
def test_traced_losses_of_the_papers_network_are_those_of_the_plain_ones(table: Table, name: str, stage: Stage) -> None:
    step = make_step(table, stage, {"model.blocks.dropout": 0.0}, name=name)
    shown, objectives, found = step.show(step.windows.batch(torch.arange(8))), step.config.objectives, []
    for losses in (step.model.losses, compiled(step.model.losses, backend="eager")):
        step.optimiser.zero_grad()
        total = losses(*shown, stage, objectives).total(objectives.active(stage))
        total.backward()
        found.append([total.detach(), *(weight.grad.clone() for weight in step.parameters if weight.grad is not None)])
    plain, traced = found
    assert len(plain) == len(traced) > 40
    for one, other in zip(traced, plain, strict=True):
        torch.testing.assert_close(one, other)


def fails(*_: object) -> None:
    raise RuntimeError("no C compiler")


def test_a_machine_that_must_compile_and_cannot_is_told_what_to_do() -> None:
    torch._dynamo.reset()
    doubled = compiled(lambda x: 2.0 * x, backend=fails, required=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"no C compiler[\s\S]*training.acceleration=auto"):
        doubled(torch.ones(3))


def test_a_machine_without_a_c_compiler_stopped_instead_of_training_uncompiled(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from torch._inductor import config

    torch._dynamo.reset()
    monkeypatch.setattr(config.cpp, "cxx", ("/nowhere/g++",))
    monkeypatch.setattr(config, "fx_graph_cache", False)
    plain, step = make_step(table, "finetune"), make_step(table, "finetune")
    step._losses = compiled(step.model.losses)
    for steps in (plain, step):
        steps.begin_epoch(0)
        steps()
        steps()
    assert torch.equal(step.trace(), plain.trace())
    said = capsys.readouterr()
    assert (said.out + said.err).count("The step is not compiled") == 1
