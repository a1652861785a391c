"""What the sensor network is trained for: present targets alone, in the units of the original."""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from crossfeed.errors import ConfigError
from crossfeed.model.config import ForecastObjectiveConfig, ForecastWeights
from crossfeed.model.interface import Plan, Views
from crossfeed.model.presets import MethodConfig
from crossfeed.model.sensors.model import SensorModel
from crossfeed.windows.windows import WindowBatch
from tests.model.sensors.small import SCHEMA, SENSORS, config, fresh, normaliser, say, single, stirred, windows

BOTH = ForecastObjectiveConfig()


def losses(model: SensorModel, batch: WindowBatch, gain: float | Tensor = 1.0) -> dict[str, Tensor]:
    gain_B1C = torch.ones(len(batch.x_BKC), 1, SENSORS).double() * gain
    return model.losses(batch, Views(batch.m_BKC, None, gain_B1C), "finetune", BOTH).terms


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ({}, {"crps", "squared"}),
        ({"squared": 0.0}, {"crps"}),
        ({"crps": 0.0}, {"squared"}),
        ({"crps": 0.5, "squared": 2.0}, {"crps", "squared"}),
    ],
)
def test_a_term_without_weight_is_dropped_and_the_others_bear_their_names(weights: dict, names: set[str]) -> None:
    objective, batch = ForecastObjectiveConfig(weights=ForecastWeights(**weights)), windows()
    found = fresh().losses(batch, Views(batch.m_BKC), "finetune", objective).terms
    assert found.keys() == objective.active("finetune").keys() == names
    assert all(term.shape == () and term > 0.0 for term in found.values())


def test_there_is_nothing_to_pretrain() -> None:
    assert BOTH.active("pretrain") == {}


def test_nothing_to_train_is_refused_with_what_would_help() -> None:
    with pytest.raises(ValidationError, match="both weights are 0, so nothing would be trained: give crps or squared"):
        ForecastObjectiveConfig(weights=ForecastWeights(crps=0.0, squared=0.0))


@pytest.mark.parametrize("wrong", [{"crps": -1.0}, {"latent": 1.0}])
def test_impossible_weights_are_refused(wrong: dict) -> None:
    with pytest.raises(ValidationError):
        ForecastWeights(**wrong)


def test_network_and_objective_belong_together() -> None:
    with pytest.raises(ValidationError, match="choose the preset that has both"):
        MethodConfig.model_validate({"model": {"network": "jepa"}, "objectives": {"trains": "forecast"}})
    assert MethodConfig().objectives == BOTH


def test_terms_are_means_over_present_targets() -> None:
    model, batch = stirred(), windows()
    found, said, present = losses(model, batch), say(model, batch), batch.future_m_BHC
    assert 0 < present.sum() < present.numel()
    torch.testing.assert_close(found["crps"], said.crps(batch.future_x_BHC)[present].mean())
    torch.testing.assert_close(found["squared"], (said.mean - batch.future_x_BHC)[present].square().mean())


def test_members_are_trained_each_for_itself() -> None:
    """The score of the pool would let members share the work; then they no longer tell what is not known."""
    model, batch = stirred(members=2), windows()
    alone = [losses(model.member(number), batch) for number in range(2)]
    found = losses(model, batch)
    for name, term in found.items():
        torch.testing.assert_close(term, torch.stack([terms[name] for terms in alone]).mean())


def test_errors_count_in_the_units_of_the_original() -> None:
    model, batch = stirred(), windows()
    gain_B1C = torch.rand(4, 1, SENSORS, generator=torch.Generator().manual_seed(0)).double() + 0.5
    found, said, present = losses(model, batch, gain_B1C), say(model, batch), batch.future_m_BHC
    torch.testing.assert_close(found["crps"], (said.crps(batch.future_x_BHC) / gain_B1C)[present].mean())
    expected = ((said.mean - batch.future_x_BHC) / gain_B1C)[present].square().mean()
    torch.testing.assert_close(found["squared"], expected)


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 1e9])
def test_absent_targets_count_neither_in_losses_nor_in_gradients(garbage: float) -> None:
    """A target that was no number gave no loss, but gradients that were no numbers."""
    batch = windows()
    wild = replace(
        batch,
        x_BKC=torch.where(batch.m_BKC, batch.x_BKC, garbage),
        future_x_BHC=torch.where(batch.future_m_BHC, batch.future_x_BHC, garbage),
    )
    gradients = []
    for shown in (batch, wild):
        model = stirred()
        sum(losses(model, shown).values(), torch.zeros(())).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients[1])
    assert all(torch.equal(one, two) for one, two in zip(*gradients, strict=True))


def test_a_batch_without_any_target_costs_nothing() -> None:
    model, batch = stirred(), windows()
    terms = losses(model, replace(batch, future_m_BHC=torch.zeros_like(batch.future_m_BHC)))
    sum(terms.values(), torch.zeros(())).backward()
    assert all(term == 0.0 for term in terms.values())
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_hidden_entries_are_not_seen() -> None:
    model, batch = stirred(), windows(presence=1.0)
    shown_BKC = batch.m_BKC.clone()
    shown_BKC[:, :, 1] = False
    changed = replace(batch, x_BKC=torch.where(shown_BKC, batch.x_BKC, 5.0))
    one, two = (model.losses(seen, Views(shown_BKC), "finetune", BOTH).terms for seen in (batch, changed))
    assert one == two
    assert losses(model, batch) != losses(model, changed)


def test_the_widening_is_no_part_of_training() -> None:
    model, batch = stirred(), windows()
    before = losses(model, batch)
    model.variance_inflation_H.fill_(3.0)
    assert losses(model, batch) == before


def test_windows_cut_for_another_model_are_refused() -> None:
    batch = windows()
    with pytest.raises(ConfigError, match="The windows have 7 context rows"):
        losses(fresh(), replace(batch, x_BKC=batch.x_BKC[:, 1:]))


def test_losses_and_gradients_need_no_values() -> None:
    """A step that asks the host for a number cannot be captured on a GPU."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = SensorModel(config(members=2), SCHEMA, normaliser()).train()
        batch = single(windows())
        terms = model.losses(batch, Views(batch.m_BKC), "finetune", BOTH).terms
        sum(terms.values(), torch.zeros(())).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_training_lowers_both_terms() -> None:
    """Windows whose sensors do what the spindle commands: a few steps must be enough to see it."""
    torch.manual_seed(0)
    batch = single(windows(size=64, presence=1.0))
    batch.future_x_BHC[:] = batch.x_BKC[:, -1:] + batch.future_a_BTA[:, [0, 1, 3], :1]
    model = SensorModel(config(dropout=0.0), SCHEMA, normaliser()).train()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    trace = []
    for _ in range(60):
        terms = losses(model, replace(batch, future_m_BHC=torch.ones_like(batch.future_m_BHC)))
        optimiser.zero_grad()
        (terms["crps"] + 0.25 * terms["squared"]).backward()
        optimiser.step()
        trace.append({name: term.item() for name, term in terms.items()})
    assert trace[-1]["crps"] < 0.5 * trace[0]["crps"]
    assert trace[-1]["squared"] < 0.4 * trace[0]["squared"]


def test_a_step_in_bf16_ended_where_half_precise_efforts_met_exact_shares() -> None:
    """As a GPU trains: what commands mean stays exact, and every loss and gradient exists."""
    model, batch = stirred(members=2).float().train(), single(windows())
    with torch.autocast("cpu", torch.bfloat16):
        found = model.losses(batch, Views(batch.m_BKC), "finetune", BOTH).terms
    assert all(term.dtype == torch.float32 for term in found.values())
    torch.stack(list(found.values())).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    plan = Plan.of(batch, model.horizons)
    with torch.autocast("cpu", torch.bfloat16):
        meant = model.command_features(batch.a_BKA, plan.future_a_BTA)
    exact = model.command_features(batch.a_BKA, plan.future_a_BTA)
    assert torch.equal(meant.effort_BSG, exact.effort_BSG)
    assert torch.equal(meant.step_BTF, exact.step_BTF)
