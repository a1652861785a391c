"""Online adaptation, prequential and causal: forecast, wait until the targets have been observed, then learn.

At row t nothing after row t has been used: a window that ended at row s is learned from only once its last target,
row s + T, lies at or before the row from which the next forecast is made. T longest horizon.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm
from crossfeed.evaluation.adaptation.parameters import Adaptable, Mode, finish, observed_errors, prepare, update
from crossfeed.evaluation.metrics import EvaluationSet, OnForecast, Scores
from crossfeed.processes import wide_products
from crossfeed.progress import progress
from crossfeed.training.optimiser import adamw
from crossfeed.windows.windows import WindowSet


class OnlineConfig(CheckedForm):
    """How eagerly is learned while the machine runs."""

    mode: Mode = "predictor"
    every: int = Field(8, ge=1, description="windows between two updates")
    steps: int = Field(2, ge=0, description="gradient steps per update")
    recent: int = Field(16, ge=1, description="newest observed windows in each step")
    replay: int = Field(16, ge=0, description="windows drawn from everything observed before")
    learning_rate: float = Field(1e-4, gt=0.0)
    rank: int = Field(4, ge=1)
    clip_norm: float = Field(1.0, gt=0.0)
    seed: int = Field(0, ge=0)


@dataclass(frozen=True)
class Online:
    """What online adaptation did, beside the frozen model on the same windows."""

    online: Scores
    zero_shot: Scores
    updates: int
    moved: int
    forecasters: dict[str, Adaptable]


@wide_products()
def online(
    forecaster: Adaptable, data: EvaluationSet, config: OnlineConfig, on_forecast: OnForecast | None = None
) -> Online:
    """Walk through each machine's rows in order, forecasting first and learning afterwards."""
    windows, device = data.windows, data.windows.last_W.device
    adapted_scores, frozen_scores = data.scores(f"{forecaster.name}, online"), data.scores(forecaster.name)
    adapted: dict[str, Adaptable] = {}
    updates = moved = 0
    # The spread learns from these: the errors of the forecasts as they were made.
    ahead_WHC = torch.zeros(len(windows), len(windows.horizons), windows.x_NC.shape[1])
    with progress("Adapting online", len(windows)) as task:
        for number, machine in enumerate(windows.machines):
            prepared = prepare(forecaster, config.mode, config.rank, config.seed)
            optimiser = adamw([(prepared.parameters, 0.0)], torch.tensor(config.learning_rate, device=device))
            generator = torch.Generator().manual_seed(config.seed)
            for part, observed in blocks(windows, number, config.every):
                for _ in range(config.steps if len(observed) else 0):
                    chosen = _choose(observed, config, generator)
                    batch = windows.batch(chosen.to(device))
                    update(prepared, batch, ahead_WHC[chosen].to(batch.x_BKC), optimiser, config.clip_norm)
                    updates += 1
                batch = windows.batch(part.to(device))
                with torch.no_grad():
                    forecast, frozen = prepared.forecaster.predict(batch), forecaster.predict(batch)
                ahead_WHC[part] = observed_errors(forecast, batch).cpu()
                data.count_in(adapted_scores, forecast, batch, part)
                data.count_in(frozen_scores, frozen, batch, part)
                if on_forecast is not None:
                    on_forecast(part, forecast)
                task.advance(len(part))
            moved = prepared.count
            adapted[machine] = finish(prepared)
    return Online(adapted_scores, frozen_scores, updates, moved, adapted)


def blocks(windows: WindowSet, machine: int, every: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Windows of one machine to forecast next, in row order, and those whose targets are all observed by then."""
    mine = (windows.machine_W.cpu() == machine).nonzero()[:, 0]
    last_W = windows.last_W.cpu()
    mine = mine[last_W[mine].argsort(stable=True)]
    complete = last_W[mine] + windows.horizons[-1]
    for part in torch.split(mine, every):
        now = last_W[part[0]]
        yield part, mine[: int(torch.searchsorted(complete, now, right=True))]


def _choose(observed: Tensor, config: OnlineConfig, generator: torch.Generator) -> Tensor:
    """The newest observed windows and a draw from the older ones."""
    recent, older = observed[-config.recent :], observed[: -config.recent]
    drawn = torch.randperm(len(older), generator=generator)[: config.replay]
    return torch.cat([recent, older[drawn]])
