"""The one fitting loop of all neural baselines: AdamW, early stopping on validation, seeded, diverging loudly.

Losses and scores stay on the device and are read once an epoch.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossfeed.baselines.budget import Budget
from crossfeed.errors import TrainingError
from crossfeed.evaluation.forecaster import batches
from crossfeed.products import wide_products
from crossfeed.progress import progress
from crossfeed.training.order import epoch_order, spread_out, steps_in_epoch
from crossfeed.training.seeds import derive, generator, own_randomness
from crossfeed.training.selection import Best
from crossfeed.training.update.optimiser import adamw
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
            order_SB = order_SB.to(device)
            loss = _train_epoch(network, stage.objective, train, order_SB, optimiser, masks, budget, pace, epoch)
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


def _train_epoch(
    network: nn.Module, objective: Objective, train: WindowSet, order_SB: Tensor, optimiser: torch.optim.Optimizer,
    masks: torch.Generator, budget: Budget, pace: Callable[[int], None], epoch: int,
) -> float:  # fmt: skip
    network.train()
    total = torch.zeros((), device=order_SB.device)
    for step, index_B in enumerate(order_SB):
        pace(epoch * len(order_SB) + step)
        loss = objective(train.batch(index_B), masks)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(network.parameters(), budget.clip_norm)
        optimiser.step()
        total += loss.detach()
    return float(total) / len(order_SB)


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
