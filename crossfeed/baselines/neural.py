"""A neural baseline behind the one interface: build, pretrain if it has a pretext, train, predict.

B windows, H horizons, C sensors.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn

from crossfeed.baselines.budget import Budget
from crossfeed.baselines.fitting import FitReport, Objective, Score, Stage, fit_stage
from crossfeed.baselines.inputs import Shape
from crossfeed.baselines.network import Network
from crossfeed.distribution import Distribution, Gaussian, Point
from crossfeed.errors import ForecastError
from crossfeed.evaluation.forecaster import Learner, learned_spread
from crossfeed.training.seeds import derive, own_randomness
from crossfeed.windows.corrupt import MaskConfig, corrupt
from crossfeed.windows.windows import WindowBatch, WindowSet

Build = Callable[[Shape], Network]


class NeuralForecaster(Learner):
    """Point networks get, per horizon and channel, the spread of their errors on train or validation windows."""

    def __init__(
        self, name: str, build: Build, budget: Budget, rate: float, uses_future_commands: bool = True,
        channel_drop: float = 0.0,
    ) -> None:  # fmt: skip
        self.name, self.uses_future_commands = name, uses_future_commands
        self.reports: tuple[FitReport, ...] = ()
        self._build, self._budget, self._rate, self._channel_drop = build, budget, rate, channel_drop
        self._network: Network | None = None
        self._spread_HC: Tensor | None = None

    @property
    def module(self) -> nn.Module:
        """What adaptation may change."""
        return self._fitted()

    @property
    def parameters(self) -> int:
        """Trainable numbers, pretext-only ones included."""
        return sum(parameter.numel() for parameter in self._fitted().parameters() if parameter.requires_grad)

    @property
    def details(self) -> dict[str, Any]:
        """What each stage did."""
        return {"stages": [asdict(report) for report in self.reports]}

    def fit(self, train: WindowSet, validation: WindowSet, seed: int) -> None:
        """Build and train from scratch; the same seed gives the same weights."""
        device = train.x_NC.device
        with own_randomness(device):
            torch.manual_seed(derive(seed, "init"))
            network = self._build(Shape.of(train)).to(device)
        self.reports = tuple(
            fit_stage(network, stage, train, validation, self._budget, self._rate, seed, self.name)
            for stage in self._stages(network, train)
        )
        self._network, self._spread_HC = network, None
        if _point_only(network, validation):
            self._spread_HC = learned_spread(lambda batch: network(batch).mean, train, validation)

    def predict(self, batch: WindowBatch) -> Distribution:
        """A distribution per horizon and channel in the z-space of the batch."""
        forecast: Distribution = self._fitted()(batch)
        if not isinstance(forecast, Point):
            return forecast
        assert self._spread_HC is not None
        return Gaussian(forecast.mean, self._spread_HC.to(forecast.mean).expand_as(forecast.mean))

    def _stages(self, network: Network, train: WindowSet) -> list[Stage]:
        stages = []
        epochs = self._budget.epochs
        if network.has_pretext and self._budget.pretext_epochs:
            epochs -= self._budget.pretext_epochs
            stages.append(Stage("pretext", self._budget.pretext_epochs, network.pretext, _pretext_score(network)))
        return [*stages, Stage("forecast", epochs, self._objective(network, train), forecast_score(network))]

    def _objective(self, network: Network, train: WindowSet) -> Objective:  # noqa: ARG002
        """What the forecast stage minimises."""
        if not self._channel_drop:
            return network.objective
        masks = MaskConfig(mode="channel", channel_drop=self._channel_drop)

        def objective(batch: WindowBatch, generator: torch.Generator) -> Tensor:
            m_BKC = corrupt(batch.x_BKC, batch.m_BKC, masks, generator)
            return network.objective(replace(batch, x_BKC=batch.x_BKC * m_BKC, m_BKC=m_BKC), generator)

        return objective

    def _fitted(self) -> Network:
        if self._network is None:
            raise ForecastError(f"Forecaster '{self.name}' was asked before it was fitted.", remedy="Call fit first.")
        return self._network


def forecast_score(network: nn.Module) -> Score:
    """Squared errors of present entries: their root mean is the validation RMSE that stops training."""

    def score(batch: WindowBatch, generator: torch.Generator) -> tuple[Tensor, Tensor]:  # noqa: ARG001
        error_BHC = (network(batch).mean - batch.future_x_BHC) * batch.future_m_BHC
        return error_BHC.square().sum(), batch.future_m_BHC.sum()

    return score


def _pretext_score(network: Network) -> Score:
    def score(batch: WindowBatch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return network.pretext(batch, generator) * len(batch.x_BKC), torch.tensor(len(batch.x_BKC))

    return score


def _point_only(network: Network, windows: WindowSet) -> bool:
    with torch.no_grad():
        probe: Distribution = network(windows.batch(torch.zeros(1, dtype=torch.long, device=windows.last_W.device)))
    return isinstance(probe, Point)
