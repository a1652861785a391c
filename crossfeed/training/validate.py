"""What is measured after every epoch on windows that never train: losses, selection score, health, forecast errors.

Windows, batches and masks are the same in every epoch, and for every candidate that shares split and protocol seed.

B windows, H horizons, D latent width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.model.objectives import Stage, losses
from crossfeed.model.views import Views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.config import Selection
from crossfeed.training.health import collapse_reasons, latent_health, ridge_probe
from crossfeed.training.metrics import ForecastScores, ForecastSums
from crossfeed.training.precision import autocast
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.corrupt import schema_view, validation_masks
from crossfeed.windows.windows import WindowBatch, WindowSet

PROTOCOL_SEED = 20260820
SCORED_IN_THE_PAPER = ("latent", "vicreg", "sigreg")


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the latents after an epoch, and in words why they count as collapsed, if they do."""

    values: dict[str, float]
    reasons: tuple[str, ...]


class Validator:
    """The fixed validation protocol of a run; it puts the model in evaluation mode and draws nothing at random."""

    def __init__(
        self, model: WorldModel, train: WindowSet, validation: WindowSet, config: RunConfig, precision: str
    ) -> None:
        self.model, self.train, self.validation, self.config = model, train, validation, config
        self.precision, self.device = precision, validation.last_W.device
        training = config.training
        self.windows_W = _fixed_subset(len(validation), training.validation_windows).to(self.device)
        self._probed_W = _fixed_subset(len(validation), training.health.windows).to(self.device)
        self._probe_fit_W = _fixed_subset(len(train), training.health.windows).to(self.device)

    @torch.no_grad()
    def losses(self, stage: Stage) -> tuple[dict[str, float], float]:
        """All loss terms under deterministic masks, and the pretraining score of this model."""
        self.model.eval()
        parts = self._loss_batches(self.config.training.selection)
        draws = torch.Generator(device=self.device).manual_seed(PROTOCOL_SEED)
        names = tuple(self.config.objectives.active(stage))
        sum_T = torch.zeros(len(names), dtype=torch.float64, device=self.device)
        ratio = _ErrorOverVariance()
        for index_B in parts:
            batch = self.validation.batch(index_B)
            m_BKC = validation_masks(batch.x_BKC, batch.m_BKC, batch.last_index_B, self.config.masks, PROTOCOL_SEED)
            views = Views(m_BKC, schema_view(m_BKC, self.config.objectives.schema_keep, draws))
            with autocast(self.precision, self.device):
                terms = losses(self.model, batch, views, stage, self.config.objectives, draws)
                if stage == "pretrain":
                    ratio.add(*self._latents(batch, m_BKC))
            sum_T += torch.stack([terms[name] for name in names])
        means = dict(zip(names, (sum_T / len(parts)).tolist(), strict=True))
        if stage == "finetune":
            return means, float("nan")
        if self.config.training.selection == "scale_free":
            return means, ratio.value()
        weights = self.config.objectives.active(stage)
        return means, sum(weights[name] * means[name] for name in SCORED_IN_THE_PAPER if name in means)

    @torch.no_grad()
    def health(self) -> Health:
        """Rank, spread and correlation of context and target latents, and what a linear probe reads from the state."""
        self.model.eval()
        fit, test = self._encode(self.train, self._probe_fit_W), self._encode(self.validation, self._probed_W)
        sides = {"context": latent_health(test[3]), "target": latent_health(test[4].flatten(0, 1))}
        values = {"probe_r2": ridge_probe(fit[:3], test[:3])}
        values |= {f"{side}_{name}": value for side, health in sides.items() for name, value in health.items()}
        numbers = dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))
        reasons = [
            f"{side} latents: {reason}"
            for side, health in sides.items()
            for reason in collapse_reasons(
                {name: numbers[f"{side}_{name}"] for name in health}, self.config.training.health
            )
        ]
        return Health(numbers, tuple(reasons))

    @torch.no_grad()
    def forecast(self, shuffle_commands: bool = False) -> ForecastScores:
        """Errors on unmasked windows; with shuffled commands each window is given another one's future commands."""
        self.model.eval()
        sums = ForecastSums(self.model.horizons, self.model.schema.sensor_names, self.device)
        other_W = self.windows_W.roll(max(1, len(self.windows_W) // 2)) if shuffle_commands else self.windows_W
        size = self.config.training.batch_size
        for index_B, other_B in zip(batches(self.windows_W, size), batches(other_W, size), strict=True):
            batch, other = self.validation.batch(index_B), self.validation.batch(other_B)
            with autocast(self.precision, self.device):
                context = self.model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
                latent_BHD = self.model.predict(context.z_BD, other.mean_a_BHA, other.future_a_BTA)
                prediction = self.model.decode(latent_BHD, context)
            sums.add(batch.future_x_BHC, batch.future_m_BHC, prediction)
        return sums.scores()

    def _loss_batches(self, selection: Selection) -> list[Tensor]:
        """Full batches only, as in training; consecutive windows in the paper's protocol, shuffled ones otherwise."""
        size = min(self.config.training.batch_size, len(self.windows_W))
        index_W = self.windows_W.sort().values if selection == "paper" else self.windows_W
        return batches(index_W[: len(index_W) // size * size], size)

    def _latents(self, batch: WindowBatch, m_BKC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        context = self.model.encode(batch.x_BKC, m_BKC, batch.a_BKA)
        predicted_BHD = self.model.predict(context.z_BD, batch.mean_a_BHA, batch.future_a_BTA)
        target_BHD = self.model.encode_target(batch, context.statistics)
        return predicted_BHD, target_BHD, batch.future_m_BHC.any(-1)

    def _encode(self, windows: WindowSet, index_W: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """State, future and its presence in the space the state lives in, pooled context and target latents."""
        parts = []
        for index_B in batches(index_W, self.config.training.batch_size):
            batch = windows.batch(index_B)
            with autocast(self.precision, self.device):
                context = self.model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
                target_BHD = self.model.encode_target(batch, context.statistics)
            future_BHC = self.model.instance_norm.normalise(batch.future_x_BHC, context.statistics)
            parts.append((context.z_BD, future_BHC, batch.future_m_BHC, context.pooled_BD, target_BHD))
        z, x, m, pooled, target = (torch.cat(part) for part in zip(*parts, strict=True))
        return z, x, m, pooled, target


class _ErrorOverVariance:
    """Squared latent error divided by the variance of the target latents: 1 is a constant guess, at any scale."""

    def __init__(self) -> None:
        self._sums: list[Tensor] | None = None

    def add(self, predicted_BHD: Tensor, target_BHD: Tensor, measured_BH: Tensor) -> None:
        weight_BH1 = measured_BH.double().unsqueeze(-1)
        target_BHD = target_BHD.double()
        error = (weight_BH1 * (predicted_BHD.double() - target_BHD).square()).sum()
        parts = [weight_BH1.sum(0), (weight_BH1 * target_BHD).sum(0), (weight_BH1 * target_BHD.square()).sum(0), error]
        self._sums = parts if self._sums is None else [old + new for old, new in zip(self._sums, parts, strict=True)]

    def value(self) -> float:
        assert self._sums is not None
        count_H1, first_HD, second_HD, error = self._sums
        variance = (second_HD - first_HD.square() / count_H1.clamp(min=1.0)).sum()
        return float(error / variance.clamp(min=torch.finfo(torch.float64).tiny))


def batches(index_W: Tensor, size: int) -> list[Tensor]:
    """Consecutive pieces of a list of windows; the last may be shorter."""
    return [index_W[start : start + size] for start in range(0, len(index_W), size)]


def _fixed_subset(available: int, wanted: int | None) -> Tensor:
    """Windows in a fixed random order, at most `wanted` of them."""
    order_W = torch.randperm(available, generator=torch.Generator().manual_seed(PROTOCOL_SEED))
    return order_W[: wanted or available]
