"""The objective: terms against independent formulas, names equal to weights, and the gradient table of the docs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crossfeed.model.interface import Losses, Stage
from crossfeed.model.jepa.objectives import ObjectiveConfig, VICRegConfig, Weights, latent_loss, vicreg
from crossfeed.model.presets import MethodConfig, mended, paper
from crossfeed.model.world_model import WorldModel
from tests.model import toy

DOCUMENT = Path(__file__).parents[3] / "docs" / "method.md"
PARTS = ("context_encoder", "predictor", "head", "recovery", "target_encoder")
STAGES: tuple[Stage, ...] = ("pretrain", "finetune")


def _losses(config: MethodConfig, stage: Stage, model: WorldModel | None = None) -> Losses:
    windows, model = toy.batch(), model or toy.model(config)
    return model.losses(windows, toy.shown(model, config, windows), stage, config.objectives)


def _terms(config: MethodConfig, stage: Stage, model: WorldModel | None = None) -> dict[str, Tensor]:
    return _losses(config, stage, model).terms


def _only(term: str) -> dict[str, Any]:
    return {f"objectives.weights.{name}": float(name == term) for name in Weights.__dataclass_fields__}


def _gradient_table() -> list[Any]:
    """The rows of the table in the docs, one case per stage."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| term | stage |"))
    header = [cell.strip() for cell in lines[start].strip("|").split("|")]
    assert tuple(header[3:]) == PARTS
    cases = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        term, stages, placement, *moves = (cell.strip() for cell in line.strip("|").split("|"))
        for stage in STAGES if stages == "both" else (stages,):
            moved = {part: move == "yes" for part, move in zip(PARTS, moves, strict=True)}
            cases.append(pytest.param(term, stage, placement, moved, id=f"{term}-{stage}-{placement}"))
    return cases


@pytest.mark.parametrize(("term", "stage", "placement", "moved"), _gradient_table())
def test_each_term_moves_the_parts_the_docs_say(
    term: str, stage: Stage, placement: str, moved: dict[str, bool]
) -> None:
    where = {} if placement == "any" else {"objectives.placement": placement}
    config = toy.method(_only(term) | where)
    model = toy.model(config)
    terms = _terms(config, stage, model)
    assert set(terms) == {term}
    if terms[term].requires_grad:
        terms[term].backward()
    found = {
        part: any(p.grad is not None and bool((p.grad != 0.0).any()) for p in getattr(model, part).parameters())
        for part in PARTS
    }
    assert found == moved


def test_the_table_lists_every_term() -> None:
    assert {case.values[0] for case in _gradient_table()} == set(Weights.__dataclass_fields__)


@pytest.mark.parametrize("stage", STAGES)
def test_names_of_terms_are_names_of_weights_and_total_is_their_weighted_sum(stage: Stage) -> None:
    config = toy.method({"objectives.weights.latent": 2.0})
    losses = _losses(config, stage)
    terms = losses.terms
    named = {"latent": 2.0, "vicreg": 0.05, "schema": 0.10, "recovery": 0.05, "physical": 1.0}
    assert set(terms) == set(named) - ({"physical"} if stage == "pretrain" else set())
    wanted = sum(named[name] * term.item() for name, term in terms.items())
    assert losses.total(config.objectives.active(stage)).item() == pytest.approx(wanted, rel=1e-6)


def _smooth_l1(difference: np.ndarray) -> np.ndarray:
    return np.where(np.abs(difference) < 1.0, 0.5 * difference**2, np.abs(difference) - 0.5)


@pytest.mark.parametrize("kind", ["smooth_l1", "mse", "cosine"])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("over", ["per_horizon", "pooled"])
def test_latent_loss_agrees_with_float64_numpy(kind: str, layer_norm: bool, over: str) -> None:
    torch.manual_seed(0)
    latent, target = 2.0 * torch.randn(2, 4, 3, 6)
    measured = torch.tensor([[True, True, True], [True, False, True], [False, False, False], [True, True, False]])
    config = ObjectiveConfig(latent_loss=kind, latent_layer_norm=layer_norm, latent_target=over)  # type: ignore[arg-type]
    found = latent_loss(latent, target, measured, config).item()
    z, y, seen = latent.double().numpy(), target.double().numpy(), measured.numpy()
    pairs = [(z[b, seen[b]], y[b, seen[b]]) for b in range(4) if seen[b].any()]
    if over == "pooled":
        pairs = [(first.mean(0, keepdims=True), second.mean(0, keepdims=True)) for first, second in pairs]
    first, second = (np.concatenate(side) for side in zip(*pairs))
    if layer_norm:
        first, second = (
            (side - side.mean(-1, keepdims=True)) / np.sqrt(side.var(-1, keepdims=True) + 1e-5)
            for side in (first, second)
        )
    if kind == "cosine":
        norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
        wanted = (1.0 - (first * second).sum(-1) / norms).mean()
    else:
        wanted = (_smooth_l1(first - second) if kind == "smooth_l1" else (first - second) ** 2).mean()
    assert found == pytest.approx(wanted, rel=1e-5)


def test_schema_recovery_and_physical_terms_agree_with_separate_passes() -> None:
    """Both views in one batch give what two passes give."""
    config = toy.method()
    model, windows = toy.model(config), toy.batch()
    views = toy.shown(model, config, windows)
    assert views.reduced_m_BKC is not None
    full, reduced = model(windows, views.m_BKC), model(windows, views.reduced_m_BKC)
    pretrain, finetune = (model.losses(windows, views, stage, config.objectives).terms for stage in STAGES)
    latent = _smooth_l1((reduced.latent_BHD - full.latent_BHD).detach().double().numpy())
    assert pretrain["schema"].item() == pytest.approx(latent.mean(), rel=1e-4)
    means = _smooth_l1((reduced.distribution.mean - full.distribution.mean).detach().double().numpy())
    assert finetune["schema"].item() == pytest.approx(means[windows.future_m_BHC.numpy()].mean(), rel=1e-4)
    target = model.encode_target(windows, views.m_BKC)
    recovered = model.recovery(full.context.z_BD, target)
    wanted = ((recovered - windows.mean_a_BHA) ** 2).double().sum().item() / (2 * 3 * 6)
    assert pretrain["recovery"].item() == pytest.approx(wanted, rel=1e-4)
    nll = model.head.loss(full.distribution, windows.future_x_BHC, windows.future_m_BHC)
    assert finetune["physical"].item() == pytest.approx(nll.item(), rel=1e-4)


def test_placements_and_grouping_differ() -> None:
    found = {}
    for placement in ("context", "target", "predictor", "context_target"):
        for over in ("per_horizon", "pooled"):
            config = toy.method(_only("vicreg") | {"objectives.placement": placement, "objectives.regularise": over})
            found[placement, over] = round(_terms(config, "pretrain")["vicreg"].item(), 6)
    assert found["context", "per_horizon"] == found["context", "pooled"]
    assert found["target", "per_horizon"] != found["target", "pooled"]
    assert found["predictor", "per_horizon"] != found["predictor", "pooled"]
    for over in ("per_horizon", "pooled"):
        both = 0.5 * (found["context", over] + found["target", over])
        assert found["context_target", over] == pytest.approx(both, rel=1e-3)


def _other_way(base: MethodConfig, changes: dict[str, Any]) -> tuple[MethodConfig, WorldModel, Tensor, Tensor, Tensor]:
    """A method with these changes, its model, and its pooled, predicted and target latents of the toy windows."""
    config = toy.method({**changes, "model.blocks.dropout": 0.0, "model.target.dropout": False}, base)
    model, windows = toy.model(config), toy.batch()
    shown = toy.shown(model, config, windows)
    full = model(windows, shown.m_BKC)
    return config, model, full.context.pooled_BD, full.latent_BHD, model.encode_target(windows, shown.m_BKC)


@pytest.mark.parametrize("preset", [paper, mended])
def test_pooled_vicreg_takes_horizons_as_samples_as_the_authors_do_or_their_mean(preset: Callable) -> None:
    changes = _only("vicreg") | {"objectives.regularise": "pooled"}
    config, model, pooled_BD, _, target_BHD = _other_way(preset(), changes)
    seen_ND = target_BHD.flatten(0, 1) if preset is paper else target_BHD.mean(1)
    wanted = [vicreg(latent_ND.unsqueeze(0), VICRegConfig()) for latent_ND in (pooled_BD, seen_ND)]
    assert len(seen_ND) == (3 if preset is paper else 1) * len(pooled_BD)
    torch.testing.assert_close(_terms(config, "pretrain", model)["vicreg"], torch.stack(wanted).mean())


@pytest.mark.parametrize("preset", [paper, mended])
def test_a_latent_layer_norm_acts_in_every_term_as_the_authors_does_or_in_the_latent_one(preset: Callable) -> None:
    found = {}
    for normed in (False, True):
        config, model, *_, latent_BHD, target_BHD = _other_way(preset(), {"objectives.latent_layer_norm": normed})
        found[normed] = _terms(config, "pretrain", model)
        measured_BH = toy.batch().future_m_BHC.any(-1)
        torch.testing.assert_close(
            found[normed]["latent"], latent_loss(latent_BHD, target_BHD, measured_BH, config.objectives)
        )
    same = {name: torch.equal(term, found[True][name]) for name, term in found[False].items()}
    assert same == {"latent": False, "vicreg": preset is mended, "schema": preset is mended, "recovery": True}


def test_normed_latents_give_vicreg_and_schema_the_same_terms_at_any_scale() -> None:
    config, model, *_ = _other_way(paper(), {"objectives.latent_layer_norm": True})
    before = _terms(config, "pretrain", model)
    with torch.no_grad():
        for encoder in (model.context_encoder, model.target_encoder.encoder):
            encoder.norm.weight.mul_(4.0)
            encoder.norm.bias.mul_(4.0)
        model.predictor.state.weight.div_(4.0)
        model.predictor.norm.weight.mul_(4.0)
        model.predictor.norm.bias.mul_(4.0)
    after = _terms(config, "pretrain", model)
    for name in ("latent", "vicreg", "schema"):
        torch.testing.assert_close(after[name], before[name], rtol=1e-3, atol=1e-4)
    assert not torch.allclose(after["recovery"], before["recovery"])


def test_weights_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing would be trained"):
        toy.method(_only("none of them"))


def _reference(latent: np.ndarray, config: VICRegConfig) -> float:
    number, width = latent.shape
    hinge = sum(max(0.0, 1.0 - np.sqrt(latent[:, j].var() + config.epsilon)) for j in range(width)) / width
    covariance = np.cov(latent.T, ddof=1)
    off = sum(covariance[i, j] ** 2 for i in range(width) for j in range(width) if i != j) / width
    assert number > 1
    return config.variance * hinge + config.covariance * off


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_vicreg_agrees_with_loops_and_averages_over_groups(spread: float) -> None:
    torch.manual_seed(0)
    mixing = torch.randn(6, 6)
    latent = spread * torch.randn(3, 20, 6) @ mixing
    config = VICRegConfig()
    wanted = np.mean([_reference(group.double().numpy(), config) for group in latent])
    assert vicreg(latent, config).item() == pytest.approx(wanted, rel=1e-4)


def test_collapsed_latents_are_pushed_apart() -> None:
    latent = (1e-3 * torch.randn(1, 16, 4)).requires_grad_()
    vicreg(latent, VICRegConfig()).backward()
    assert latent.grad is not None
    assert latent.grad.abs().max() > 0.01
