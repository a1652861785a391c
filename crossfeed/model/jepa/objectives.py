"""The training objective (Eqs. 5-10) as a dict of named terms; the names are those of the weights.

Which parameters each term may move is listed in docs/method.md, and a test reads that list.
B windows, K context rows, H horizons, G groups, C sensors, A commands, D latent width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import torch
from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass
from torch import Tensor
from torch.nn import functional

from crossfeed.configuration import CheckedForm
from crossfeed.model.interface import Prediction
from crossfeed.model.jepa.model import JepaContext
from crossfeed.model.jepa.regularisers import SIGRegConfig, VICRegConfig, sigreg, vicreg
from crossfeed.windows.corrupt import MaskConfig, corrupt, schema_view
from crossfeed.windows.windows import WindowBatch, present_mean

if TYPE_CHECKING:
    from crossfeed.model.jepa.model import JepaModel

Stage = Literal["pretrain", "finetune"]
Over = Literal["per_horizon", "pooled"]


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))  # `schema` is a method of pydantic's models
class Weights:
    """One weight per term; a term of weight zero is not computed."""

    latent: float = Field(default=1.0, ge=0.0)
    vicreg: float = Field(default=0.05, ge=0.0)
    sigreg: float = Field(default=0.0, ge=0.0)
    schema: float = Field(default=0.10, ge=0.0)
    recovery: float = Field(default=0.05, ge=0.0)
    physical: float = Field(default=1.0, ge=0.0)


class ObjectiveConfig(CheckedForm):
    """Which terms are trained, how they are computed and what they weigh."""

    trains: Literal["latents"] = "latents"
    weights: Weights = Weights()
    latent_loss: Literal["smooth_l1", "mse", "cosine"] = "smooth_l1"
    latent_layer_norm: bool = False
    latent_target: Over = "per_horizon"
    regularise: Over = "per_horizon"
    placement: Literal["context", "target", "predictor", "context_target"] = "context_target"
    vicreg: VICRegConfig = VICRegConfig()
    sigreg: SIGRegConfig = SIGRegConfig()
    schema_keep: float = Field(default=0.65, gt=0.0, le=1.0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.weights.vicreg > 0.0 and self.weights.sigreg > 0.0:
            raise ValueError("vicreg and sigreg are alternatives: set one of their weights to 0")
        if not any(vars(self.weights).values()):
            raise ValueError("all weights are 0, so nothing would be trained: give at least one term a weight")
        return self

    def active(self, stage: Stage) -> dict[str, float]:
        """The terms a stage trains, with their weights; the physical head has no part in pretraining."""
        named = vars(self.weights)
        return {name: w for name, w in named.items() if w > 0.0 and (name != "physical" or stage == "finetune")}


@dataclass(frozen=True, slots=True)
class Views:
    """Presence masks of the corrupted context (line 2 of Algorithm 1) and of the reduced schema (line 10)."""

    m_BKC: Tensor
    reduced_m_BKC: Tensor | None


def draw_views(batch: WindowBatch, masks: MaskConfig, schema_keep: float, generator: torch.Generator) -> Views:
    """Corrupt the context, then keep a random part of the channels that are still present."""
    m_BKC = corrupt(batch.x_BKC, batch.m_BKC, masks, generator)
    return Views(m_BKC, schema_view(m_BKC, schema_keep, generator))


class Seen(NamedTuple):
    """What the network made of a batch: both views of it (the reduced one where it is asked for), and the teacher's."""

    full: Prediction
    reduced: Prediction | None
    target_BHD: Tensor


def see(model: "JepaModel", batch: WindowBatch, views: Views, stage: Stage, config: ObjectiveConfig) -> Seen:
    """The network's part of the losses; both views go through it as one batch of twice the size."""
    full, reduced = predict_views(model, batch, views, stage, config)
    return Seen(full, reduced, model.encode_target(batch, views.m_BKC))


def losses(
    model: "JepaModel",
    batch: WindowBatch,
    views: Views,
    stage: Stage,
    config: ObjectiveConfig,
    generator: torch.Generator | None = None,
    see: Callable[..., Seen] = see,
) -> dict[str, Tensor]:
    """All active terms of a stage for one batch (lines 3-13 of Algorithm 1); devices may `see` in other ways."""
    return loss_terms(model, batch, see(model, batch, views, stage, config), stage, config, generator)


def predict_views(
    model: "JepaModel", batch: WindowBatch, views: Views, stage: Stage, config: ObjectiveConfig
) -> tuple[Prediction, Prediction | None]:
    """One view, or both in one pass."""
    if "schema" not in config.active(stage):
        return model(batch, views.m_BKC), None
    assert views.reduced_m_BKC is not None, "the schema term needs a reduced view"
    full, reduced = model.forward_views(batch, views.m_BKC, views.reduced_m_BKC)
    return full, reduced


def loss_terms(
    model: "JepaModel",
    batch: WindowBatch,
    seen: Seen,
    stage: Stage,
    config: ObjectiveConfig,
    generator: torch.Generator | None = None,
) -> dict[str, Tensor]:
    """The terms from what the network said about both views and what the teacher says about the target rows."""
    active, (full, reduced, target_BHD) = config.active(stage), seen
    with torch.autocast(batch.x_BKC.device.type, enabled=False):
        terms = {}
        latent_BHD, target_BHD = full.latent_BHD.float(), target_BHD.float()
        assert latent_BHD.shape == target_BHD.shape, (latent_BHD.shape, target_BHD.shape)
        if "latent" in active:
            terms["latent"] = latent_loss(latent_BHD, target_BHD, batch.future_m_BHC.any(-1), config)
        context = full.context
        assert isinstance(context, JepaContext)
        assert context.pooled_BD is not None, "objectives need the pooled context"
        groups = _regularised(context.pooled_BD.float(), latent_BHD, target_BHD, config)
        if "vicreg" in active:
            terms["vicreg"] = torch.stack([vicreg(group, config.vicreg) for group in groups]).mean()
        if "sigreg" in active:
            terms["sigreg"] = torch.stack([sigreg(group, config.sigreg, generator) for group in groups]).mean()
        if reduced is not None:
            terms["schema"] = schema_loss(full, reduced, batch.future_m_BHC, stage)
        if "recovery" in active:
            command_BHA = model.recovery(context.z_BD.float(), target_BHD)
            assert command_BHA.shape == batch.mean_a_BHA.shape, (command_BHA.shape, batch.mean_a_BHA.shape)
            terms["recovery"] = functional.mse_loss(command_BHA, batch.mean_a_BHA)
        if "physical" in active:
            terms["physical"] = model.head.loss(full.distribution, batch.future_x_BHC, batch.future_m_BHC)
    assert terms.keys() == active.keys(), (terms.keys(), active.keys())
    assert all(term.shape == () for term in terms.values()), {name: term.shape for name, term in terms.items()}
    return terms


def total(terms: dict[str, Tensor], weights: dict[str, float]) -> Tensor:
    """What is minimised: the weighted sum of the terms (Eq. 5, with the likelihood in the second stage)."""
    assert terms.keys() == weights.keys(), (terms.keys(), weights.keys())
    return torch.stack([weight * terms[name] for name, weight in weights.items()]).sum()


def latent_loss(latent_BHD: Tensor, target_BHD: Tensor, measured_BH: Tensor, config: ObjectiveConfig) -> Tensor:
    """Eq. (6): distance to the detached target latents, over target rows that show at least one sensor."""
    target_BHD = target_BHD.detach()
    if config.latent_target == "pooled":
        share_BH = measured_BH / measured_BH.sum(1, keepdim=True).clamp(min=1)
        latent_BHD = (share_BH.unsqueeze(-1) * latent_BHD).sum(1, keepdim=True)
        target_BHD = (share_BH.unsqueeze(-1) * target_BHD).sum(1, keepdim=True)
        measured_BH = measured_BH.any(1, keepdim=True)
    if config.latent_layer_norm:
        width = latent_BHD.shape[-1:]
        latent_BHD, target_BHD = functional.layer_norm(latent_BHD, width), functional.layer_norm(target_BHD, width)
    if config.latent_loss == "cosine":
        distance_BH = 1.0 - functional.cosine_similarity(latent_BHD, target_BHD, dim=-1)
    elif config.latent_loss == "mse":
        distance_BH = functional.mse_loss(latent_BHD, target_BHD, reduction="none").mean(-1)
    else:
        distance_BH = functional.smooth_l1_loss(latent_BHD, target_BHD, reduction="none").mean(-1)
    return present_mean(distance_BH, measured_BH)


def schema_loss(full: Prediction, reduced: Prediction, m_BHC: Tensor, stage: Stage) -> Tensor:
    """Eq. (8), one-sided: the reduced view is pulled towards the detached fuller one.

    In latent space while pretraining; on the physical mean of present target entries while fine-tuning.
    """
    if stage == "pretrain":
        return functional.smooth_l1_loss(reduced.latent_BHD.float(), full.latent_BHD.detach().float())
    mean_BHC, target_BHC = reduced.distribution.mean, full.distribution.mean.detach()
    entry_BHC = functional.smooth_l1_loss(mean_BHC, target_BHC, reduction="none")
    return present_mean(entry_BHC, m_BHC)


def _regularised(pooled_BD: Tensor, latent_BHD: Tensor, target_BHD: Tensor, config: ObjectiveConfig) -> list[Tensor]:
    """The latents a regulariser looks at, as groups (G, B, D): Eq. (7) for the placement `context_target`."""

    def over_horizons(z_BHD: Tensor) -> Tensor:
        return z_BHD.transpose(0, 1) if config.regularise == "per_horizon" else z_BHD.mean(1).unsqueeze(0)

    context_1BD, target_GBD = pooled_BD.unsqueeze(0), over_horizons(target_BHD.detach())
    return {
        "context": [context_1BD],
        "target": [target_GBD],
        "predictor": [over_horizons(latent_BHD)],
        "context_target": [context_1BD, target_GBD],
    }[config.placement]
