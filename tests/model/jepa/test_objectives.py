"""The objective: terms against independent formulas, names equal to weights, and the gradient table of the docs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crossfeed.model.jepa.objectives import (
    ObjectiveConfig,
    Stage,
    Views,
    Weights,
    draw_views,
    latent_loss,
    losses,
    total,
)
from crossfeed.model.presets import MethodConfig
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.windows import WindowBatch
from tests.model import toy

DOCUMENT = Path(__file__).parents[3] / "docs" / "method.md"
PARTS = ("context_encoder", "predictor", "head", "recovery", "target_encoder")
STAGES: tuple[Stage, ...] = ("pretrain", "finetune")


def _views(config: MethodConfig, windows: WindowBatch) -> Views:
    return draw_views(windows, config.masks, config.objectives.schema_keep, torch.Generator().manual_seed(0))


def _terms(config: MethodConfig, stage: Stage, model: WorldModel | None = None) -> dict[str, Tensor]:
    windows = toy.batch()
    draw = torch.Generator().manual_seed(5)
    model = model or toy.model(config)
    return losses(model, windows, _views(config, windows), stage, config.objectives, draw)


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
    terms = _terms(config, stage)
    named = {"latent": 2.0, "vicreg": 0.05, "schema": 0.10, "recovery": 0.05, "physical": 1.0}
    assert set(terms) == set(named) - ({"physical"} if stage == "pretrain" else set())
    wanted = sum(named[name] * term.item() for name, term in terms.items())
    assert total(terms, config.objectives.active(stage)).item() == pytest.approx(wanted, rel=1e-6)


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
    views = _views(config, windows)
    assert views.reduced_m_BKC is not None
    full, reduced = model(windows, views.m_BKC), model(windows, views.reduced_m_BKC)
    pretrain, finetune = (losses(model, windows, views, stage, config.objectives) for stage in STAGES)
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


@pytest.mark.parametrize("name", ["vicreg", "sigreg"])
def test_placements_and_grouping_differ(name: str) -> None:
    found = {}
    for placement in ("context", "target", "predictor", "context_target"):
        for over in ("per_horizon", "pooled"):
            config = toy.method(_only(name) | {"objectives.placement": placement, "objectives.regularise": over})
            found[placement, over] = round(_terms(config, "pretrain")[name].item(), 6)
    assert found["context", "per_horizon"] == found["context", "pooled"]
    assert found["target", "per_horizon"] != found["target", "pooled"]
    assert found["predictor", "per_horizon"] != found["predictor", "pooled"]
    for over in ("per_horizon", "pooled") if name == "vicreg" else ():  # sigreg draws new directions for each half
        both = 0.5 * (found["context", over] + found["target", over])
        assert found["context_target", over] == pytest.approx(both, rel=1e-3)


def test_contradictory_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="alternatives"):
        toy.method({"objectives.weights.sigreg": 0.1})
    with pytest.raises(ValueError, match="nothing would be trained"):
        toy.method(_only("none of them"))
