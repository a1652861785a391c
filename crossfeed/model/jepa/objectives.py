"""The training objective (Eqs. 5-10) as a dict of named terms; the names are those of the weights.

Which parameters each term may move is listed in docs/method.md, and a test reads that list.
B windows, K context rows, H horizons, G groups, C sensors, A commands, D latent width.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import torch
from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass as checked_dataclass
from torch import Tensor
from torch.nn import functional

from crossfeed.configuration import CheckedForm
from crossfeed.model.distribution import Gaussian
from crossfeed.model.interface import Stage
from crossfeed.windows.windows import WindowBatch, present_mean

if TYPE_CHECKING:
    from crossfeed.model.jepa.model import JepaModel

Over = Literal["per_horizon", "pooled"]


class VICRegConfig(CheckedForm):
    """Weights of the two penalties and the constant inside the root."""

    variance: float = Field(default=25.0, ge=0.0)
    covariance: float = Field(default=1.0, ge=0.0)
    epsilon: float = Field(default=1e-4, gt=0.0)


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))  # `schema` is a method of pydantic's models
class Weights:
    """One weight per term; a term of weight zero is not computed."""

    latent: float = Field(default=1.0, ge=0.0)
    vicreg: float = Field(default=0.05, ge=0.0)
    schema: float = Field(default=0.10, ge=0.0)
    recovery: float = Field(default=0.05, ge=0.0)
    physical: float = Field(default=1.0, ge=0.0)


class ObjectiveConfig(CheckedForm):
    """Which terms are trained, how they are computed and what they weigh.

    layer_norm_in: where `latent_layer_norm` acts: in the latent term alone, or (all) on what VICReg and the schema term
    compare as well. pooling: what pooled VICReg looks at: the mean over horizons, or the latents of all horizons as
    samples of one group.
    """

    trains: Literal["latents"] = "latents"
    weights: Weights = Weights()
    latent_loss: Literal["smooth_l1", "mse", "cosine"] = "smooth_l1"
    latent_layer_norm: bool = False
    layer_norm_in: Literal["latent", "all"] = "latent"
    latent_target: Over = "per_horizon"
    regularise: Over = "per_horizon"
    pooling: Literal["mean", "samples"] = "mean"
    placement: Literal["context", "target", "predictor", "context_target"] = "context_target"
    vicreg: VICRegConfig = VICRegConfig()
    schema_keep: float = Field(default=0.65, gt=0.0, le=1.0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not any(vars(self.weights).values()):
            raise ValueError("all weights are 0, so nothing would be trained: give at least one term a weight")
        return self

    @property
    def norms_all(self) -> bool:
        """Whether every term compares normed latents."""
        return self.latent_layer_norm and self.layer_norm_in == "all"

    def active(self, stage: Stage) -> dict[str, float]:
        """The terms a stage trains, with their weights; the physical head has no part in pretraining."""
        named = vars(self.weights)
        return {name: w for name, w in named.items() if w > 0.0 and (name != "physical" or stage == "finetune")}


class Seen(NamedTuple):
    """What the network made of a batch, and the teacher of its targets; of the reduced view where it is asked for."""

    z_BD: Tensor
    pooled_BD: Tensor
    latent_BHD: Tensor
    mean_BHC: Tensor
    scale_BHC: Tensor
    target_BHD: Tensor
    reduced_latent_BHD: Tensor | None = None
    reduced_mean_BHC: Tensor | None = None


def loss_terms(
    model: "JepaModel", batch: WindowBatch, seen: Seen, stage: Stage, config: ObjectiveConfig
) -> dict[str, Tensor]:
    """The terms of a stage from what the network said about both views and what the teacher says about the targets."""
    active = config.active(stage)
    with torch.autocast(batch.x_BKC.device.type, enabled=False):
        terms = {}
        latent_BHD, target_BHD = seen.latent_BHD.float(), seen.target_BHD.float()
        assert latent_BHD.shape == target_BHD.shape, (latent_BHD.shape, target_BHD.shape)
        if "latent" in active:
            terms["latent"] = latent_loss(latent_BHD, target_BHD, batch.future_m_BHC.any(-1), config)
        if "vicreg" in active:
            groups = _regularised(seen.pooled_BD.float(), latent_BHD, target_BHD, config)
            terms["vicreg"] = torch.stack([vicreg(group, config.vicreg) for group in groups]).mean()
        if "schema" in active:
            terms["schema"] = schema_loss(seen, batch.future_m_BHC, stage, config)
        if "recovery" in active:
            command_BHA = model.recovery(seen.z_BD.float(), target_BHD)
            assert command_BHA.shape == batch.mean_a_BHA.shape, (command_BHA.shape, batch.mean_a_BHA.shape)
            terms["recovery"] = functional.mse_loss(command_BHA, batch.mean_a_BHA)
        if "physical" in active:
            forecast = Gaussian(seen.mean_BHC, seen.scale_BHC)
            terms["physical"] = model.head.loss(forecast, batch.future_x_BHC, batch.future_m_BHC)
    assert terms.keys() == active.keys(), (terms.keys(), active.keys())
    assert all(term.shape == () for term in terms.values()), {name: term.shape for name, term in terms.items()}
    return terms


def latent_loss(latent_BHD: Tensor, target_BHD: Tensor, measured_BH: Tensor, config: ObjectiveConfig) -> Tensor:
    """Eq. (6): distance to the detached target latents, over target rows that show at least one sensor."""
    target_BHD = target_BHD.detach()
    if config.latent_target == "pooled":
        share_BH = measured_BH / measured_BH.sum(1, keepdim=True).clamp(min=1)
        latent_BHD = (share_BH.unsqueeze(-1) * latent_BHD).sum(1, keepdim=True)
        target_BHD = (share_BH.unsqueeze(-1) * target_BHD).sum(1, keepdim=True)
        measured_BH = measured_BH.any(1, keepdim=True)
    if config.latent_layer_norm:
        latent_BHD, target_BHD = _normed(latent_BHD), _normed(target_BHD)
    if config.latent_loss == "cosine":
        distance_BH = 1.0 - functional.cosine_similarity(latent_BHD, target_BHD, dim=-1)
    elif config.latent_loss == "mse":
        distance_BH = functional.mse_loss(latent_BHD, target_BHD, reduction="none").mean(-1)
    else:
        distance_BH = functional.smooth_l1_loss(latent_BHD, target_BHD, reduction="none").mean(-1)
    return present_mean(distance_BH, measured_BH)


def schema_loss(seen: Seen, m_BHC: Tensor, stage: Stage, config: ObjectiveConfig) -> Tensor:
    """Eq. (8), one-sided: the reduced view is pulled towards the detached fuller one.

    In latent space while pretraining; on the physical mean of present target entries while fine-tuning.
    """
    assert seen.reduced_latent_BHD is not None
    assert seen.reduced_mean_BHC is not None
    if stage == "pretrain":
        latents = (seen.reduced_latent_BHD.float(), seen.latent_BHD.detach().float())
        return functional.smooth_l1_loss(*((_normed(z_BHD) for z_BHD in latents) if config.norms_all else latents))
    entry_BHC = functional.smooth_l1_loss(seen.reduced_mean_BHC, seen.mean_BHC.detach(), reduction="none")
    return present_mean(entry_BHC, m_BHC)


def _regularised(pooled_BD: Tensor, latent_BHD: Tensor, target_BHD: Tensor, config: ObjectiveConfig) -> list[Tensor]:
    """The latents VICReg looks at, as groups (G, N, D): Eq. (7) for the placement `context_target`."""

    def over_horizons(z_BHD: Tensor) -> Tensor:
        if config.regularise == "per_horizon":
            return z_BHD.transpose(0, 1)
        return (z_BHD.flatten(0, 1) if config.pooling == "samples" else z_BHD.mean(1)).unsqueeze(0)

    if config.norms_all:
        pooled_BD, latent_BHD, target_BHD = _normed(pooled_BD), _normed(latent_BHD), _normed(target_BHD)
    context_1BD, target_GND = pooled_BD.unsqueeze(0), over_horizons(target_BHD.detach())
    return {
        "context": [context_1BD],
        "target": [target_GND],
        "predictor": [over_horizons(latent_BHD)],
        "context_target": [context_1BD, target_GND],
    }[config.placement]


def _normed(z_D: Tensor) -> Tensor:
    """Each latent with mean 0 and variance 1 over its coordinates."""
    return functional.layer_norm(z_D, z_D.shape[-1:])


def vicreg(latent_GND: Tensor, config: VICRegConfig) -> Tensor:
    """alpha/d * sum of hinges below unit deviation + beta/d * sum of squared off-diagonal covariances.

    Computed within each group and averaged over groups; VICReg's invariance term is not used.
    """
    number, width = latent_GND.shape[-2:]
    centred_GND = latent_GND - latent_GND.mean(-2, keepdim=True)
    variance_GD = centred_GND.square().mean(-2)
    hinge_GD = torch.relu(1.0 - (variance_GD + config.epsilon).sqrt())
    covariance_GDD = centred_GND.transpose(-2, -1) @ centred_GND / (number - 1)
    diagonal_GD = covariance_GDD.diagonal(dim1=-2, dim2=-1)
    off_diagonal_G = covariance_GDD.square().sum((-2, -1)) - diagonal_GD.square().sum(-1)
    penalty_G = config.variance * hinge_GD.mean(-1) + config.covariance * off_diagonal_G / width
    return penalty_G.mean()
