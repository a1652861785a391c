"""Compiled losses: the same numbers and gradients, and a clear word where a machine cannot compile."""

import pytest
import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.ingest.table import Table
from crossfeed.model.interface import Views
from crossfeed.model.sensors.config import ForecastObjectiveConfig
from crossfeed.training.devices.acceleration import compiled
from tests.training.sensor_run import sensor_model


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


def test_a_machine_that_cannot_compile_is_told_what_to_do() -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no C compiler")

    torch._dynamo.reset()
    doubled = compiled(lambda x: 2.0 * x, backend=fails)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"no C compiler[\s\S]*training.acceleration=off"):
        doubled(torch.ones(3))
