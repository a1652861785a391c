"""How every neural baseline is trained and asked: AdamW, early stopping on validation, seeded, diverging loudly.

Losses and scores stay on the device and are read once an epoch. B windows, H horizons, C sensors.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from crossfeed.errors import ForecastError, TrainingError
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.network import Network, Shape
from crossfeed.evaluation.forecaster import Learner, batches, learned_spread
from crossfeed.model.distribution import Distribution, Gaussian, Point
from crossfeed.processes import wide_products
from crossfeed.progress import progress
from crossfeed.training.checkpoint import Best
from crossfeed.training.optimiser import adamw
from crossfeed.training.seeds import derive, epoch_order, generator, own_randomness, spread_out, steps_in_epoch
from crossfeed.windows.corrupt import MaskConfig, corrupt
from crossfeed.windows.windows import WindowBatch, WindowSet

Objective = Callable[[WindowBatch, torch.Generator], Tensor]
# The share of the learning rate and the first beta of a step; from its number, the steps in an epoch and the epochs.
Schedule = Callable[[int, int, int], tuple[float, float]]
# The sum of a score over a batch, and the number of entries it is the sum over.
Score = Callable[[WindowBatch, torch.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of fitting: what is minimised, what selects the epoch, for how long."""

    name: str
    epochs: int
    objective: Objective
    score: Score
    schedule: Schedule | None = None


@dataclass(frozen=True, slots=True)
class FitReport:
    """What a stage did."""

    stage: str
    epochs: int
    best_epoch: int
    steps: int
    score: float
    seconds: float


@wide_products()
def fit_stage(
    network: nn.Module, stage: Stage, train: WindowSet, validation: WindowSet, budget: Budget, rate: float, seed: int,
    title: str,
) -> FitReport:  # fmt: skip
    """Train one stage and leave the network at its best epoch."""
    device = train.x_NC.device
    steps = steps_in_epoch(len(train), budget.batch_size, budget.steps)
    now = torch.tensor(rate, device=device)
    optimiser = adamw([(list(network.parameters()), budget.weight_decay)], now)

    def pace(step: int) -> None:
        """Bring rate and first beta to where the schedule has them at this step; constant without one."""
        if stage.schedule is not None:
            share, beta = stage.schedule(step, steps, stage.epochs)
            now.fill_(rate * share)
            for group in optimiser.param_groups:
                group["betas"] = (beta, group["betas"][1])

    best, best_state = Best(budget.patience), copy.deepcopy(network.state_dict())
    machine_W, started, epoch = train.machine_W.cpu().numpy(), time.monotonic(), -1
    with own_randomness(device), progress(f"{title}: {stage.name}", stage.epochs) as task:
        for epoch in range(stage.epochs):
            torch.manual_seed(derive(seed, "dropout", stage.name, epoch))
            order_SB = epoch_order(machine_W, budget.batch_size, steps, generator(seed, "order", stage.name, epoch))
            masks = generator(seed, "masks", stage.name, epoch, str(device))
            network.train()
            total = torch.zeros((), device=device)
            for step, index_B in enumerate(order_SB.to(device), epoch * steps):
                pace(step)
                minimised = stage.objective(train.batch(index_B), masks)
                optimiser.zero_grad()
                torch.autograd.backward(minimised)
                nn.utils.clip_grad_norm_(network.parameters(), budget.clip_norm)
                optimiser.step()
                total += minimised.detach()
            loss = float(total) / len(order_SB)
            score = _validate(network, stage.score, validation, budget.validation_windows, str(device))
            if not math.isfinite(loss) or not math.isfinite(score):
                raise TrainingError(
                    f"{title} diverged: after epoch {epoch + 1} of stage '{stage.name}' the loss is {loss} and the "
                    f"validation score {score}.",
                    remedy="Lower the learning rate or choose a smaller size.",
                )
            best = best.update(epoch, score)
            if best.epoch == epoch:
                best_state = copy.deepcopy(network.state_dict())
            task.advance(note=f"validation {score:.4f}")
            if best.exhausted:
                break
    network.load_state_dict(best_state)
    network.eval()
    done = epoch + 1
    return FitReport(stage.name, done, best.epoch, done * steps, best.score, time.monotonic() - started)


def _validate(network: nn.Module, score: Score, validation: WindowSet, limit: int | None, device: str) -> float:
    """The root of the mean score over the same evenly spread validation windows every time, under the same draws."""
    network.eval()
    masks = torch.Generator(device=device).manual_seed(0)
    total, count = torch.zeros((), device=device), torch.zeros((), device=device)
    with torch.no_grad():
        for batch in batches(validation, spread_out(len(validation), limit or len(validation))):
            part, entries = score(batch, masks)
            total, count = total + part, count + entries
    return math.sqrt(max(float(total), 0.0) / max(float(count), 1.0)) if math.isfinite(float(total)) else math.nan


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
