"""The one interface for everything that forecasts, the naive baselines, and forecasts made in another frame.

B windows, H horizons, C channels. Forecasts are in the z-space of the windows they are made from."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from crossfeed.model.distribution import Distribution, Gaussian, Point
from crossfeed.processes import cores, in_threads
from crossfeed.training.health import FLOORS
from crossfeed.training.seeds import spread_out
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet

BATCH = 256
# Threads that read several batches at a time want them smaller, and as much of them in reach of a core.
BATCH_OF_A_THREAD = 64
# A GPU takes about as long for many windows as for few.
BATCH_ON_GPU = 2048
# No channel is forecast more surely than this, in z-units: a constant channel leaves no residual to learn from.
SMALLEST_SPREAD = 0.01
SPREAD_WINDOWS = 20_000  # are enough for a spread
PointForecast = Callable[[WindowBatch], Tensor]
Result = TypeVar("Result")


class Forecaster(Protocol):
    """Says for each window what will be at every horizon, channel by channel: all that scoring needs."""

    name: str  # how tables call it
    uses_future_commands: bool  # if not, changing the planned commands changes nothing, bit by bit
    thread_safe: bool = False  # whether it keeps nothing between calls, so that threads may share it

    @abstractmethod
    def predict(self, batch: WindowBatch) -> Distribution:
        """One marginal distribution per window, horizon and channel; targets in the batch are not to be read."""

    def predict_plans(self, batches: Sequence[WindowBatch]) -> list[Distribution]:
        """Forecasts for batches that differ in their plans alone; some forecasters then read the context only once."""
        return [self.predict(batch) for batch in batches]


class Learner(Forecaster, Protocol):
    """A forecaster that still has to learn: the naive baselines and every baseline."""

    @abstractmethod
    def fit(self, train: WindowSet, validation: WindowSet, seed: int) -> None:
        """Learn from the train windows; validation windows may only decide when to stop."""

    @property
    def parameters(self) -> int:
        """How many numbers it has learned, for the table of a comparison."""
        return 0

    @property
    def details(self) -> dict[str, Any]:
        """What else is worth recording about how it learned."""
        return {}


class NaiveForecaster(Learner):
    """A forecast that costs nothing, with the spread its errors had on the train windows; unfitted, a mere point."""

    uses_future_commands = False

    def __init__(
        self, name: str, formula: Callable[[Tensor, Tensor, Sequence[int]], Tensor], horizons: Sequence[int]
    ) -> None:
        self.name, self.horizons = name, tuple(horizons)
        self._formula = formula
        self._spread_HC: Tensor | None = None

    @property
    def fitted(self) -> bool:
        """Whether it knows its spread."""
        return self._spread_HC is not None

    def fit(self, train: WindowSet, validation: WindowSet, seed: int) -> None:  # noqa: ARG002
        self._spread_HC = residual_spread(self._mean, train)

    def predict(self, batch: WindowBatch) -> Distribution:
        mean_BHC = self._mean(batch)
        if self._spread_HC is None:
            return Point(mean_BHC)
        return Gaussian(mean_BHC, self._spread_HC.to(mean_BHC).expand_as(mean_BHC))

    def _mean(self, batch: WindowBatch) -> Tensor:
        return self._formula(batch.x_BKC, batch.m_BKC, self.horizons)


def naive_baselines(horizons: Sequence[int]) -> list[NaiveForecaster]:
    """Persistence and linear drift, to be fitted for their spread."""
    return [NaiveForecaster(name, formula, horizons) for name, formula in FLOORS.items()]


def residual_spread(point: PointForecast, train: WindowSet) -> Tensor:
    """Root mean square error per horizon and channel on train windows: the spread of a forecaster that has none."""
    squared_HC, count_HC = torch.zeros(()), torch.zeros(())
    with torch.no_grad():
        for batch in batches(train, spread_out(len(train), SPREAD_WINDOWS)):
            error = (point(batch) - batch.future_x_BHC).double()
            squared_HC = squared_HC + torch.where(batch.future_m_BHC, error.square(), 0.0).sum(0)
            count_HC = count_HC + batch.future_m_BHC.double().sum(0)
    # A channel that the train windows never show could be anything the source shows: one z-unit.
    rms_HC = torch.where(count_HC > 0, (squared_HC / count_HC.clamp_min(1.0)).sqrt(), 1.0)
    return rms_HC.clamp_min(SMALLEST_SPREAD)


def learned_spread(point: PointForecast, train: WindowSet, validation: WindowSet) -> Tensor:
    """The same on train or validation windows, whichever is larger.

    Train errors alone are too small after overfitting; validation errors alone are too small for a channel that
    happens to stand still in the few sessions on that side.
    """
    return torch.maximum(residual_spread(point, train), residual_spread(point, validation))


def in_parts(
    forecaster: Forecaster, windows: WindowSet, index_W: Tensor, score: Callable[[Tensor], Result]
) -> Iterator[tuple[Tensor, Result]]:
    """Window numbers part by part, in order, each with what `score` makes of it, without gradients.

    Forecasters that are `thread_safe` read several parts at a time on a CPU.
    """
    device = windows.last_W.device
    threads = cores(device) if forecaster.thread_safe else 1
    size = BATCH if device.type == "cpu" else BATCH_ON_GPU
    if threads > 1:
        size = min(BATCH_OF_A_THREAD, max(-(-len(index_W) // threads), 1))
    parts = torch.split(index_W, size)
    work = (partial(torch.no_grad()(score), part) for part in parts)
    yield from zip(parts, in_threads(work, threads), strict=True)


def batches(windows: WindowSet, index_W: Tensor) -> Iterator[WindowBatch]:
    """The chosen windows in order, some at a time."""
    for part in torch.split(index_W, BATCH):
        yield windows.batch(part.to(windows.last_W.device))


def masked(batch: WindowBatch, m_BKC: Tensor) -> WindowBatch:
    """The batch with these context entries alone; all others are absent, as on a machine that does not have them."""
    return replace(batch, x_BKC=torch.where(m_BKC, batch.x_BKC, 0.0), m_BKC=m_BKC)


class InFrame(Forecaster):
    """A forecaster that reads windows in its own frame and answers in that of the windows."""

    def __init__(self, inner: Forecaster, frame: Normaliser, windows: Normaliser) -> None:
        self.name, self.uses_future_commands = inner.name, inner.uses_future_commands
        self._inner, self._frame, self._windows = inner, frame, windows

    def predict(self, batch: WindowBatch) -> Distribution:
        forecast = self._inner.predict(reframed(batch, self._windows, self._frame))
        scale = self._frame.sensor_scale / self._windows.sensor_scale
        location = (self._frame.sensor_location - self._windows.sensor_location) / self._windows.sensor_scale
        like = batch.x_BKC
        return forecast.moved(torch.from_numpy(location).to(like), torch.from_numpy(scale).to(like))


def reframed(batch: WindowBatch, before: Normaliser, after: Normaliser) -> WindowBatch:
    """The windows in another z-space; absent entries stay zero, commands that it does not name are left out.

    A command that the windows do not have stands still.
    """
    names = before.command_names
    column = {name: names.index(name) for name in after.command_names if name in names}

    def sensors(values: Tensor, present: Tensor) -> Tensor:
        return torch.where(present, after.transform_sensors(before.inverse_sensors(values)), 0.0)

    def commands(values: Tensor) -> Tensor:
        known = before.inverse_commands(values)
        still = torch.zeros_like(known[..., 0])
        own = [known[..., column[name]] if name in column else still for name in after.command_names]
        return after.transform_commands(torch.stack(own, dim=-1))

    return replace(
        batch, x_BKC=sensors(batch.x_BKC, batch.m_BKC), future_x_BHC=sensors(batch.future_x_BHC, batch.future_m_BHC),
        a_BKA=commands(batch.a_BKA), mean_a_BHA=commands(batch.mean_a_BHA), future_a_BTA=commands(batch.future_a_BTA),
    )  # fmt: skip
