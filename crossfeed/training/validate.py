"""What is measured after every epoch on windows that never train: losses, selection score, health, forecast errors.

Windows, batches and masks are the same in every epoch, and for every candidate that shares split and protocol seed.

B windows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from crossfeed.model.interface import Latents, Stage, Views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.config import Selection
from crossfeed.training.hardware import CapturedStep, autocast
from crossfeed.training.health import PROTOCOL_SEED, collapse_reasons, latent_health, ridge_probe
from crossfeed.training.reading import ForecastScores, ForecastSums, WindowReader
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.augment import MachineAugmentation, MachineChanges
from crossfeed.windows.corrupt import MaskConfig, schema_view, validation_masks, window_draw
from crossfeed.windows.windows import WindowBatch, WindowSet

VIEWS = 2
SCORED_IN_THE_PAPER = ("latent", "vicreg")
Part = Literal["train", "validation"]
# What another machine is taken to be where only one is at hand: stronger than what training shows.
OTHER_MACHINE = MachineChanges(gain=0.4, level=0.2, noise=0.05)
UNMASKED = MaskConfig(mode="none")
FEWER_SENSORS = MaskConfig(mode="channel", channel_drop=0.4)


class LossPass:
    """The loss terms of fixed batches, under masks that depend on the window alone, and the scale-free latent error."""

    def __init__(
        self, model: WorldModel, windows: WindowSet, config: RunConfig, stage: Stage, precision: str, captured: bool
    ) -> None:
        self.model, self.windows, self.config, self.stage, self.precision = model, windows, config, stage, precision
        self.names = tuple(config.objectives.active(stage))
        self.device = windows.last_W.device
        self._index_B = torch.zeros(0, dtype=torch.long, device=self.device)
        self._sum_T = torch.zeros(len(self.names), dtype=torch.float64, device=self.device)
        self._ratio = ErrorOverVariance()
        self._draws = torch.Generator(device=self.device)
        self._batch: Callable[[], None] = CapturedStep(self._add, (self._draws,)) if captured else self._add

    @torch.no_grad()
    def __call__(self, parts: Sequence[Tensor]) -> tuple[dict[str, float], float]:
        """Mean terms over batches of one size, and squared latent error over the variance of the target latents."""
        if not len(self._index_B):
            self._index_B = torch.zeros_like(parts[0])
        self._sum_T.zero_()
        self._ratio.clear()
        self._draws.manual_seed(PROTOCOL_SEED)
        for index_B in parts:
            self._index_B.copy_(index_B)
            self._batch()
        means = dict(zip(self.names, (self._sum_T / len(parts)).tolist(), strict=True))
        return means, self._ratio.value()

    def _add(self) -> None:
        batch = self.windows.batch(self._index_B)
        m_BKC = validation_masks(batch.x_BKC, batch.m_BKC, batch.last_index_B, self.config.masks, PROTOCOL_SEED)
        views = Views(m_BKC, schema_view(m_BKC, self.config.latents.schema_keep, self._draws))
        with autocast(self.precision, self.device):
            terms, predicted_BHD, target_BHD = self.model.losses(batch, views, self.stage, self.config.latents)
        assert predicted_BHD is not None
        assert target_BHD is not None
        self._sum_T.add_(torch.stack([terms[name] for name in self.names]))
        self._ratio.add(predicted_BHD, target_BHD, batch.future_m_BHC.any(-1))


class ErrorOverVariance:
    """Squared latent error divided by the variance of the target latents: 1 is a constant guess, at any scale."""

    def __init__(self) -> None:
        self._sums: list[Tensor] = []

    def clear(self) -> None:
        """Begin anew, in the same memory."""
        if self._sums:
            torch._foreach_zero_(self._sums)

    def add(self, predicted_BHD: Tensor, target_BHD: Tensor, measured_BH: Tensor) -> None:
        """Take one batch into account."""
        weight_BH1 = measured_BH.double().unsqueeze(-1)
        target_BHD = target_BHD.double()
        error = (weight_BH1 * (predicted_BHD.double() - target_BHD).square()).sum()
        parts = [weight_BH1.sum(0), (weight_BH1 * target_BHD).sum(0), (weight_BH1 * target_BHD.square()).sum(0), error]
        if not self._sums:
            self._sums = [torch.zeros_like(part) for part in parts]
        torch._foreach_add_(self._sums, parts)

    def value(self) -> float:
        """The ratio over all batches; this reads from the device."""
        count_H1, first_HD, second_HD, error = self._sums
        variance = (second_HD - first_HD.square() / count_H1.clamp(min=1.0)).sum()
        return float(error / variance.clamp(min=torch.finfo(torch.float64).tiny))


@dataclass(frozen=True, slots=True)
class Health:
    """The state of the latents after an epoch, and in words why they count as collapsed, if they do."""

    values: dict[str, float]
    reasons: tuple[str, ...]


class Validator:
    """The fixed validation protocol of a run; it puts the model in evaluation mode and draws nothing at random."""

    def __init__(
        self,
        model: WorldModel,
        train: WindowSet,
        validation: WindowSet,
        config: RunConfig,
        precision: str,
        captured: bool = False,
        masks: MaskConfig | None = None,
    ) -> None:
        """`masks` hide entries where losses are taken: by default those of the training, in the paper's way none."""
        usual = UNMASKED if config.training.selection == "paper" else config.masks
        self._loss_config = config.model_copy(update={"masks": masks or usual})
        self.model, self.train, self.validation, self.config = model, train, validation, config
        self.precision, self.device = precision, validation.last_W.device
        training = config.training
        self._captured, self._passes = captured, dict[Stage, LossPass]()
        self._readers = dict[tuple[Part, bool, bool], WindowReader]()
        self._others = MachineAugmentation(OTHER_MACHINE, model.normaliser, self.device)
        self.windows_W = _fixed_subset(len(validation), training.validation_windows).to(self.device)
        self._probed_W = _fixed_subset(len(validation), training.health.windows).to(self.device)
        self._probe_fit_W = _fixed_subset(len(train), training.health.windows).to(self.device)

    def losses(self, stage: Stage) -> tuple[dict[str, float], float]:
        """All loss terms under deterministic masks and the score of pretraining, of a network that compares latents."""
        self.model.eval()
        if not self.model.compares_latents:
            return {}, float("nan")
        if stage not in self._passes:
            self._passes[stage] = LossPass(
                self.model, self.validation, self._loss_config, stage, self.precision, self._captured
            )
        means, ratio = self._passes[stage](self._loss_batches(self.config.training.selection))
        if stage == "finetune":
            return means, float("nan")
        if self.config.training.selection == "scale_free":
            return means, ratio
        weights = self.config.objectives.active(stage)
        return means, sum(weights[name] * means[name] for name in SCORED_IN_THE_PAPER if name in means)

    @torch.no_grad()
    def health(self) -> Health:
        """Rank, spread and correlation of all latents, collapse of those at the gate, a linear probe of the state.

        Nothing for a network that compares no latents: they could not collapse.
        """
        if not self.model.compares_latents:
            return Health({}, ())
        fit, test = self._latents("train", self._probe_fit_W), self._latents("validation", self._probed_W)
        sides = {
            "context": latent_health(test.pooled_BD),
            "target": latent_health(test.target_BHD.flatten(0, 1)),
            "predicted": latent_health(test.predicted_BHD.flatten(0, 1)),
        }
        values = {"probe_r2": ridge_probe(fit[:3], test[:3])}
        values |= {f"{side}_{name}": value for side, health in sides.items() for name, value in health.items()}
        numbers = dict(zip(values, torch.stack(list(values.values())).tolist(), strict=True))
        reasons = [
            f"{side} latents: {reason}"
            for side in self.config.training.health.latents
            for reason in collapse_reasons(
                {name: numbers[f"{side}_{name}"] for name in sides[side]}, self.config.training.health
            )
        ]
        return Health(numbers, tuple(reasons))

    @torch.no_grad()
    def forecast(self, shuffle_commands: bool = False, machine: str | None = None) -> ForecastScores:
        """Errors on unmasked windows, of all machines or of one; shuffled commands are those of another window."""
        sums = ForecastSums(self.model.horizons, self.model.schema.sensor_names, self.device)
        index_W = self.windows_W if machine is None else self.windows_of(machine)
        other_W = index_W.roll(max(1, len(index_W) // 2)) if shuffle_commands else None
        for reading in self._reader("validation", latents=False)(index_W, other_W):
            sums.add(reading.future_x_BHC, reading.future_m_BHC, reading.distribution)
        return sums.scores()

    def windows_of(self, machine: str) -> Tensor:
        """The validation windows of one machine."""
        number = self.validation.machines.index(machine)
        return self.windows_W[self.validation.machine_W[self.windows_W] == number]

    @torch.no_grad()
    def other_machine_crps(self) -> float:
        """CRPS on the same windows as another machine with fewer sensors might show them; the proxy of a transfer."""
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        for reading in self._reader("validation", latents=False, other=True)(self.windows_W):
            crps_BHC = reading.distribution.crps(reading.future_x_BHC).double()
            total[0] += torch.where(reading.future_m_BHC, crps_BHC, 0.0).sum()
            total[1] += reading.future_m_BHC.sum()
        return float(total[0] / total[1].clamp(min=1.0))

    @torch.no_grad()
    def usual_machine_crps(self) -> float:
        """The median over the validation machines of their CRPS; machines without a judged window do not count."""
        sums_M2 = torch.zeros(len(self.validation.machines), 2, dtype=torch.float64, device=self.device)
        read = 0
        for reading in self._reader("validation", latents=False)(self.windows_W):
            present_BHC = reading.future_m_BHC
            machine_B = self.validation.machine_W[self.windows_W[read : read + len(present_BHC)]]
            crps_BHC = reading.distribution.crps(reading.future_x_BHC).double()
            own_B2 = torch.stack([torch.where(present_BHC, crps_BHC, 0.0).sum((1, 2)), present_BHC.sum((1, 2))], 1)
            sums_M2.index_add_(0, machine_B, own_B2)
            read += len(present_BHC)
        judged_M2 = sums_M2[sums_M2[:, 1] > 0]
        return float((judged_M2[:, 0] / judged_M2[:, 1]).median())

    def _other_machine(self, batch: WindowBatch) -> WindowBatch:
        """Windows with other gains, levels and noise and without some sensors: the same for whoever asks."""
        changed, _ = self._others(batch, window_draw(PROTOCOL_SEED, batch.last_index_B))
        m_BKC = validation_masks(changed.x_BKC, batch.m_BKC, batch.last_index_B, FEWER_SENSORS, PROTOCOL_SEED)
        shown_B1C = m_BKC.any(1, keepdim=True)
        return replace(changed, m_BKC=m_BKC, future_m_BHC=batch.future_m_BHC & shown_B1C)

    def _loss_batches(self, selection: Selection) -> tuple[Tensor, ...]:
        """Full batches only, as in training; consecutive windows in the paper's protocol, shuffled ones otherwise."""
        size = min(self.config.training.batch_size, len(self.windows_W))
        index_W = self.windows_W.sort().values if selection == "paper" else self.windows_W
        return torch.split(index_W[: len(index_W) // size * size], size)

    def _latents(self, part: Part, index_W: Tensor) -> Latents:
        """The latents of all these windows."""
        readings = self._reader(part, latents=True)(index_W)
        pieces = [[piece.clone() for piece in reading.latents] for reading in readings if reading.latents is not None]
        return Latents(*(torch.cat(piece) for piece in zip(*pieces, strict=True)))

    def _reader(self, part: Part, latents: bool, other: bool = False) -> WindowReader:
        """The reader of a part; as many windows at once as go through the network in a training step."""
        if (part, latents, other) not in self._readers:
            windows = self.train if part == "train" else self.validation
            size = self.config.training.batch_size * VIEWS
            arguments = (self.model, windows, self.precision, size, self._captured, latents)
            change = (self._other_machine,) if other else ()
            self._readers[part, latents, other] = WindowReader(*arguments, *change)
        return self._readers[part, latents, other]


def _fixed_subset(available: int, wanted: int | None) -> Tensor:
    """Windows in a fixed random order, at most `wanted` of them."""
    order_W = torch.randperm(available, generator=torch.Generator().manual_seed(PROTOCOL_SEED))
    return order_W[: wanted or available]
