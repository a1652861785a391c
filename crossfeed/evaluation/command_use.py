"""Does the forecast listen to the planned commands? The error under true commands beside the error under false ones.

B windows, T future steps, H horizons, A commands. Only what the forecaster is told about the future changes; what
happened stays, so a forecaster that listens gets worse under every false plan and one that does not stays the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from crossfeed.evaluation.forecaster import Forecaster, in_parts
from crossfeed.evaluation.metrics import Change, EvaluationSet, Scores
from crossfeed.evaluation.statistics import Interval, bootstrap
from crossfeed.evaluation.verdict import CommandUse, FalsePlan
from crossfeed.model.distribution import Distribution
from crossfeed.progress import progress
from crossfeed.windows.corrupt import window_draw
from crossfeed.windows.windows import WindowBatch, mean_commands

CONDITIONS = {
    "zero": "every planned command is zero: the machine is said to stand still",
    "average": "every planned command is its mean over the source's train rows (zero in z-space, the paper's probe)",
    "shuffled": "the plan of another window, drawn from the whole set",
    "time-shuffled": "the window's own plan with its steps in random order",
    "late": "the plan one step late, starting with the current command (off-by-one probe)",
    "early": "the plan one step early, its last command held (off-by-one probe)",
}


def with_plan(batch: WindowBatch, future_a_BTA: Tensor, horizons: tuple[int, ...]) -> WindowBatch:
    """The batch under another plan; the mean commands follow from it."""
    return replace(batch, future_a_BTA=future_a_BTA, mean_a_BHA=mean_commands(future_a_BTA, horizons))


def false_plan(condition: str, data: EvaluationSet, index_W: Tensor, seed: int) -> Change:
    """The change that shows every window a false plan; the same for the same seed, whoever is tested."""
    windows, horizons = data.windows, data.windows.horizons
    order = torch.randperm(len(index_W), generator=torch.Generator().manual_seed(seed))
    # Along one random cycle everybody gets the plan of somebody else.
    partner_W = torch.zeros(len(windows), dtype=torch.long)
    partner_W[index_W[order]] = index_W[order.roll(1)]

    def change(batch: WindowBatch, part: Tensor) -> WindowBatch:
        plan = batch.future_a_BTA
        if condition == "zero":
            plan = torch.from_numpy(data.normaliser.command_zero).to(plan).expand_as(plan)
        elif condition == "average":
            plan = torch.zeros_like(plan)
        elif condition == "shuffled":
            plan = windows.batch(partner_W[part].to(plan.device)).future_a_BTA
        elif condition == "time-shuffled":
            lot_BT = window_draw(seed, batch.last_index_B)((len(plan), plan.shape[1]))
            plan = plan.gather(1, lot_BT.argsort(1)[..., None].expand_as(plan))
        elif condition == "late":
            plan = torch.cat([batch.a_BKA[:, -1:], plan[:, :-1]], 1)
        else:
            plan = torch.cat([plan[:, 1:], plan[:, -1:]], 1)
        return with_plan(batch, plan, horizons)

    return change


class KeptForecasts:
    """Keeps what is said of some windows while all are evaluated (give it to `evaluate`): nobody asks for it again."""

    def __init__(self, index_W: Tensor) -> None:
        self.index_W = index_W
        self._parts: list[tuple[Tensor, Distribution]] = []

    def __call__(self, part: Tensor, forecast: Distribution) -> None:
        mine = torch.isin(part, self.index_W).nonzero().squeeze(1)
        if len(mine):
            self._parts.append((part[mine], forecast[mine.to(forecast.mean.device)]))

    def gathered(self) -> tuple[Tensor, Distribution]:
        """The numbers of the windows in rising order, and their forecasts."""
        numbers = torch.cat([part for part, _ in self._parts])
        order, forecast = numbers.argsort(), Distribution.concatenate([forecast for _, forecast in self._parts])
        return numbers[order], forecast[order.to(forecast.mean.device)]


def under_false_plans(
    forecaster: Forecaster,
    data: EvaluationSet,
    index_W: Tensor,
    conditions: Iterable[str],
    seed: int,
    kept: KeptForecasts | None = None,
) -> dict[str, Scores]:
    """Scores under the true plan ("true") and errors under each false one, in one pass over the windows.

    `kept` has the forecasts of these windows under the true plan, where they were made already.
    """
    changes = {name: false_plan(name, data, index_W, seed) for name in conditions}
    scores = {name: data.scores(forecaster.name) for name in ("true", *changes)}
    known = None if kept is None else kept.gathered()

    def score(part: Tensor) -> list[Scores]:
        batch = data.windows.batch(part.to(data.windows.last_W.device))
        plans = [change(batch, part) for change in changes.values()]
        if known is None:
            forecasts = forecaster.predict_plans([batch, *plans])
        else:
            number_W, forecast = known
            own = forecast[torch.searchsorted(number_W, part).to(forecast.mean.device)]
            forecasts = [own, *forecaster.predict_plans(plans)]
        sheets = [data.scores(forecaster.name) for _ in forecasts]
        for number, (sheet, forecast) in enumerate(zip(sheets, forecasts, strict=True)):
            data.count_in(sheet, forecast, batch, part, errors_only=number > 0)
        return sheets

    with progress("Command use", len(index_W)) as task:
        for part, sheets in in_parts(forecaster, data.windows, index_W, score):
            for whole, sheet in zip(scores.values(), sheets, strict=True):
                whole.include(sheet)
            task.advance(len(part))
    return scores


def command_use(
    forecaster: Forecaster, data: EvaluationSet, index_W: Tensor | None = None, kept: KeptForecasts | None = None
) -> CommandUse:
    """Error ratios false / true for every condition, on all windows, on the chosen ones or on those that were kept."""
    if kept is not None:
        index_W = kept.index_W
    index_W = torch.arange(len(data.windows)) if index_W is None else index_W
    scores = under_false_plans(forecaster, data, index_W, CONDITIONS, 0, kept)
    true = scores["true"]
    plans = {
        condition: FalsePlan(
            meaning=meaning,
            rmse=scores[condition].metrics()["rmse"],
            rmse_ratio=ratio(scores[condition], true, "squared"),
            mae_ratio=ratio(scores[condition], true, "absolute"),
            crps_ratio=ratio(scores[condition], true, "crps"),
            runs_worse=int((scores[condition].run_rmse() > true.run_rmse()).sum()),
            runs=int(np.isfinite(true.run_rmse()).sum()),
        )
        for condition, meaning in CONDITIONS.items()
    }
    by_channel = {
        channel: ratio(scores["shuffled"], true, "squared", channel=[channel]) for channel in true.by("channel")
    }
    return CommandUse(len(index_W), true.metrics()["rmse"], plans, by_channel)


def ratio(changed: Scores, true: Scores, name: str, **choice: Sequence[str | int]) -> Interval:
    """How many times larger the error became, bootstrapped over runs; squared errors are compared by their root."""
    pairs = np.concatenate([changed.run_sums([name], **choice), true.run_sums([name], **choice)], axis=1)
    power = 0.5 if name == "squared" else 1.0
    return bootstrap(pairs, lambda sums: (sums[:, 0] / sums[:, 1]) ** power)
