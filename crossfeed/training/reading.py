"""Whole windows through the model, batch by batch, sums of forecast errors, and what is calibrated after training.

On a GPU one batch is captured and replayed. W windows of the set, B of a batch, H horizons, C sensors, D latent width.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from crossfeed.model.distribution import Distribution, Mixture
from crossfeed.model.interface import Latents, Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.training.hardware import CapturedStep, autocast
from crossfeed.training.seeds import spread_out
from crossfeed.windows.windows import WindowBatch, WindowSet

NOMINAL = 0.9
WIDENINGS = tuple(1.0 + 0.05 * step for step in range(41))  # never narrower: what is not needed is not taken
USUAL = 0.99  # share of windows about which members disagree less than the threshold
BATCH = 256
MOST_WINDOWS = 4096


class Reading(NamedTuple):
    """What the model makes of a batch without masks, and what really followed; the next batch may overwrite it."""

    distribution: Distribution
    future_x_BHC: Tensor
    future_m_BHC: Tensor
    latents: Latents | None  # where they were asked for, of a network that compares them

    def first(self, count: int) -> "Reading":
        """The first windows of the batch."""
        latents = None if self.latents is None else Latents(*(part[:count] for part in self.latents))
        return Reading(self.distribution[:count], self.future_x_BHC[:count], self.future_m_BHC[:count], latents)


class WindowReader:
    """Reads windows of one set in evaluation mode, `size` at a time.

    `latents` asks for those that the network compares as well; `change` shows the windows otherwise than they are.
    """

    def __init__(
        self,
        model: WorldModel,
        windows: WindowSet,
        precision: str,
        size: int,
        captured: bool,
        latents: bool,
        change: Callable[[WindowBatch], WindowBatch] = lambda batch: batch,
    ) -> None:
        self.model, self.windows, self.precision, self.size, self.latents = model, windows, precision, size, latents
        self._change = change
        self._fixed = windows.last_W.device.type == "cuda"  # one shape for all batches, which is captured once
        self._index_B, self._planned_B = torch.zeros(2, size, dtype=torch.long, device=windows.last_W.device)
        self._reading: Reading | None = None
        self._batch: Callable[[], None] = CapturedStep(self._read, ()) if captured else self._read

    @torch.no_grad()
    def __call__(self, index_W: Tensor, planned_W: Tensor | None = None) -> Iterator[Reading]:
        """One reading for each batch; `planned_W` names the windows whose commands are planned, if not their own."""
        self.model.eval()
        planned_W = index_W if planned_W is None else planned_W
        for index_B, planned_B in zip(torch.split(index_W, self.size), torch.split(planned_W, self.size), strict=True):
            count = len(index_B)
            if self._fixed:
                self._index_B[:count], self._planned_B[:count] = index_B, planned_B
            else:
                self._index_B, self._planned_B = index_B, planned_B
            self._batch()
            assert self._reading is not None
            yield self._reading if count == len(self._index_B) else self._reading.first(count)

    def _read(self) -> None:
        batch, planned = self._change(self.windows.batch(self._index_B)), self.windows.batch(self._planned_B)
        model = self.model
        with autocast(self.precision, self._index_B.device):
            context = model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA, pooled=True)
            prediction = model.decode(context, Plan.of(planned, model.horizons))
            latents = model.latents(batch, prediction) if self.latents else None
        self._reading = Reading(prediction.distribution, batch.future_x_BHC, batch.future_m_BHC, latents)


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """Errors of one forecaster over a set of windows; None for what a point forecast lacks."""

    rmse: float
    mae: float
    rmse_by_horizon: dict[int, float | None]
    rmse_by_channel: dict[str, float | None]
    nll: float | None
    crps: float | None
    coverage90: float | None


class ForecastSums:
    """Running sums of errors in z-space for one forecaster; `add` never asks the host for a number."""

    def __init__(self, horizons: tuple[int, ...], sensors: tuple[str, ...], device: torch.device) -> None:
        self.horizons, self.sensors = horizons, sensors
        self._names = ("count", "squared", "absolute", "nll", "crps", "covered")
        shape = (len(self._names), len(horizons), len(sensors))
        self._sums_SHC = torch.zeros(shape, dtype=torch.float64, device=device)

    def add(self, x_BHC: Tensor, m_BHC: Tensor, forecast: Distribution) -> None:
        """Take one batch of forecasts into account."""
        forecast = forecast.double()
        mean_BHC = forecast.mean
        x_BHC = torch.where(m_BHC, x_BHC.double(), mean_BHC)
        terms = {
            "count": torch.ones_like(x_BHC),
            "squared": (x_BHC - mean_BHC).square(),
            "absolute": (x_BHC - forecast.median).abs(),
            "nll": forecast.nll(x_BHC),
            "crps": forecast.crps(x_BHC),
            "covered": ((forecast.cdf(x_BHC) - 0.5).abs() <= 0.45).double() if forecast.has_intervals else None,
        }
        for index, name in enumerate(self._names):
            entry_BHC = terms[name]
            self._sums_SHC[index] += torch.nan if entry_BHC is None else torch.where(m_BHC, entry_BHC, 0.0).sum(0)

    def scores(self) -> ForecastScores:
        """The averages over all present entries; this reads from the device."""
        sums = dict(zip(self._names, self._sums_SHC.cpu(), strict=True))
        count_HC, squared_HC = sums["count"], sums["squared"]
        by_horizon = (squared_HC.sum(1) / count_HC.sum(1)).sqrt().tolist()
        by_channel = (squared_HC.sum(0) / count_HC.sum(0)).sqrt().tolist()
        mean = {name: float(part.sum() / count_HC.sum()) for name, part in sums.items()}
        return ForecastScores(
            rmse=math.sqrt(mean["squared"]),
            mae=mean["absolute"],
            rmse_by_horizon={number: _known(value) for number, value in zip(self.horizons, by_horizon, strict=True)},
            rmse_by_channel={name: _known(value) for name, value in zip(self.sensors, by_channel, strict=True)},
            nll=_known(mean["nll"]),
            crps=_known(mean["crps"]),
            coverage90=_known(mean["covered"]),
        )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


@torch.no_grad()
def calibrate(model: WorldModel, validation: WindowSet) -> None:
    """Once, after training: fit variance inflation and disagreement threshold to these windows, if the model has them.

    The inflation at each horizon is the smallest with which so many targets as promised lie inside.
    """
    if model.variance_inflation_H is None:
        return
    model.eval()
    model.variance_inflation_H.fill_(1.0)
    device = validation.last_W.device
    inside_WH = torch.zeros(len(WIDENINGS), len(model.horizons), dtype=torch.float64, device=device)
    present_H, disagreements = torch.zeros(len(model.horizons), dtype=torch.float64, device=device), []
    for index_B in torch.split(spread_out(len(validation), MOST_WINDOWS), BATCH):
        batch = validation.batch(index_B.to(device))
        rows = model.read(batch.x_BKC, batch.m_BKC, model.level(batch.x_BKC, batch.m_BKC))
        context, plan = model.context(rows, batch.a_BKA), Plan.of(batch, model.horizons)
        prediction = model.decode(context, plan)
        mixture, disagreement_BHC = prediction.distribution, prediction.disagreement
        assert isinstance(mixture, Mixture)
        assert disagreement_BHC is not None
        present_H += batch.future_m_BHC.sum((0, 2))
        for index, widening in enumerate(WIDENINGS):
            held_BHC = replace(mixture, scale_M=mixture.scale_M * widening).covers(batch.future_x_BHC, NOMINAL)
            inside_WH[index] += (held_BHC & batch.future_m_BHC).sum((0, 2))
        apart_BHC = torch.where(batch.future_m_BHC, disagreement_BHC, 0.0)
        disagreements.append(apart_BHC.sum((1, 2)) / batch.future_m_BHC.sum((1, 2)).clamp(min=1))
    model.variance_inflation_H.copy_(_smallest_enough(inside_WH, present_H))
    model.disagreement_threshold.copy_(torch.cat(disagreements).quantile(USUAL))


def _smallest_enough(inside_WH: Tensor, present_H: Tensor) -> Tensor:
    """At each horizon the first widening that reaches the nominal share; the widest where none does."""
    enough_WH = inside_WH >= NOMINAL * present_H
    enough_WH[-1] = True
    widening_W = torch.tensor(WIDENINGS, device=inside_WH.device)
    return widening_W[enough_WH.int().argmax(0)].float()
