"""Few-shot adaptation: learn from the leading fraction of each run, judge on what follows.

Two ways: ours (likelihood, one query for all fractions), and that of the paper and its authors (`PAPER`: squared error,
each fraction judged on what follows it)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm
from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.adaptation.parameters import (
    Adaptable,
    Loss,
    Mode,
    Prepared,
    errors_in_advance,
    finish,
    prepare,
    update,
)
from crossfeed.evaluation.adaptation.result import FewShotResult, FractionResult
from crossfeed.evaluation.command_use import ratio
from crossfeed.evaluation.forecaster import batches
from crossfeed.evaluation.metrics import EvaluationSet, Scores, score_windows
from crossfeed.processes import wide_products
from crossfeed.progress import progress
from crossfeed.training.optimiser import adamw
from crossfeed.windows.windows import WindowSet

Query = Literal["common", "each"]


@dataclass(frozen=True)
class SupportAndQuery:
    """Window numbers of the support of each fraction and of what each is judged by."""

    support: dict[float, Tensor]
    query: dict[float, Tensor]
    runs_without_support: dict[float, tuple[str, ...]]
    runs_without_query: tuple[str, ...]


def support_and_query(windows: WindowSet, fractions: Sequence[float], query: Query = "common") -> SupportAndQuery:
    """Divide the windows; every run gives its leading rows, a run too short for a window gives none and is listed."""
    fractions = tuple(sorted({0.0, *(float(fraction) for fraction in fractions)}))
    if fractions[0] < 0.0 or fractions[-1] >= 1.0:
        raise ConfigError(
            f"The support fractions {', '.join(f'{f:g}' for f in fractions)} cannot be used.",
            expected="fractions from 0 up to below 1, so that something is left to judge by",
        )
    runs, run_W, first_W, stop_W, rows_R = _window_spans(windows)
    share_W = rows_R[run_W]
    support = {fraction: (stop_W <= (fraction * share_W).floor()).nonzero()[:, 0] for fraction in fractions}
    after = {fraction: (first_W >= (fraction * share_W).ceil()).nonzero()[:, 0] for fraction in fractions}
    if not len(after[fractions[-1]]):
        needed = windows.context + windows.horizons[-1]
        raise TableError(
            f"Nothing follows the first {fractions[-1]:.0%} of a run: the longest run has {int(rows_R.max())} rows.",
            expected=f"a run with at least {math.ceil(needed / (1 - fractions[-1]))} rows, or smaller fractions",
            remedy="Choose smaller fractions, or record longer runs.",
        )

    def lacking(index_W: Tensor) -> tuple[str, ...]:
        having = set(run_W[index_W].tolist())
        return tuple(run for number, run in enumerate(runs) if number not in having)

    return SupportAndQuery(
        support,
        dict.fromkeys(fractions, after[fractions[-1]]) if query == "common" else after,
        {fraction: lacking(index) for fraction, index in support.items() if fraction > 0.0},
        lacking(after[fractions[-1]]),
    )


def _window_spans(windows: WindowSet) -> tuple[list[str], Tensor, Tensor, Tensor, Tensor]:
    """For each window its run, and its first row and the row after its last, counted from the start of the run."""
    names = [f"{count.machine}/{count.run}" for count in windows.counts]
    runs = list(dict.fromkeys(names))
    rows_R = torch.zeros(len(runs), dtype=torch.float64)
    start_in_run, start_in_rows, position = [], [], 0
    for name, count in zip(names, windows.counts, strict=True):
        start_in_run.append(int(rows_R[runs.index(name)]))
        start_in_rows.append(position)
        rows_R[runs.index(name)] += count.rows
        position += count.rows
    group_W = windows.group_of_window.cpu()
    moved_W = torch.tensor(start_in_run)[group_W] - torch.tensor(start_in_rows)[group_W]
    last_W = windows.last_W.cpu() + moved_W
    run_W = torch.tensor([runs.index(name) for name in names])[group_W]
    return runs, run_W, last_W - windows.context + 1, last_W + windows.horizons[-1] + 1, rows_R


class FewShotConfig(CheckedForm):
    """How much is learned; the defaults are the paper's (50 steps, 1e-4, predictor and head)."""

    fractions: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2)
    mode: Mode = "predictor"
    steps: int = Field(50, ge=0)
    learning_rate: float = Field(1e-4, gt=0.0)
    batch_size: int = Field(64, ge=1)
    rank: int = Field(4, ge=1)
    clip_norm: float = Field(1.0, gt=0.0)
    seed: int = Field(0, ge=0)
    loss: Loss = "likelihood"
    query: Query = "common"

    @classmethod
    def of(cls, preset: str) -> Self:
        """The defaults under a preset: `paper` learns and judges as its authors did, every other one as we do."""
        return cls(**(PAPER if preset == "paper" else {}))


PAPER: dict[str, Any] = {"loss": "squared", "query": "each"}


@dataclass(frozen=True)
class FewShot:
    """What few-shot adaptation did: the result, the scores of each fraction and the forecaster of the last one."""

    result: FewShotResult
    scores: tuple[Scores, ...]
    forecaster: Adaptable


def parse_fractions(text: str) -> tuple[float, ...]:
    """Fractions from a list such as 0,0.05,0.1."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"'{text}' is no list of fractions.", expected="numbers from 0 to below 1 with commas, such as 0,0.05,0.1"
        ) from None


@wide_products()
def few_shot(forecaster: Adaptable, data: EvaluationSet, config: FewShotConfig) -> FewShot:
    """Adapt anew for every fraction and score it on its query set, beside zero-shot on the same windows."""
    divided = support_and_query(data.windows, config.fractions, config.query)
    rows: list[FractionResult] = []
    scores: list[Scores] = []  # the first ones are of zero-shot
    adapted = forecaster
    for fraction, index_W in divided.support.items():
        adapted, moved, updates = forecaster, 0, 0
        if len(index_W) and config.steps:
            prepared = prepare(forecaster, config.mode, config.rank, config.seed)
            ahead_SHC = torch.cat([errors_in_advance(forecaster, batch) for batch in batches(data.windows, index_W)])
            learn(prepared, data.windows, index_W, ahead_SHC, config)
            adapted, moved, updates = finish(prepared), prepared.count, config.steps
        query_W = divided.query[fraction]
        own = score_windows(adapted, data, query_W, title=f"Few-shot {fraction:.0%}")
        scores.append(own)
        if config.query == "each" and adapted is not forecaster:
            zero_shot = score_windows(forecaster, data, query_W, title=f"Zero-shot after {fraction:.0%}")
        else:
            zero_shot = scores[0] if config.query == "common" else own
        row = FractionResult(
            fraction=fraction,
            support_windows=len(index_W),
            query_windows=len(query_W),
            runs_without_support=divided.runs_without_support.get(fraction, ()),
            updates=updates,
            parameters_moved=moved,
            remark="" if updates or not fraction else "no complete window in the support: zero-shot",
            metrics=own.metrics(),
            rmse_ratio=ratio(own, zero_shot, "squared"),
            crps_ratio=ratio(own, zero_shot, "crps"),
            runs={run: metrics["rmse"] for run, metrics in own.by("run").items()},
            sensors={name: metrics["crps"] for name, metrics in own.by("channel").items()},
        )
        rows.append(row)
    result = FewShotResult(
        config=config.model_dump(mode="json"),
        runs_without_query=divided.runs_without_query,
        fractions=tuple(rows),
    )
    return FewShot(result, tuple(scores), adapted)


def learn(prepared: Prepared, windows: WindowSet, index_W: Tensor, ahead_SHC: Tensor, config: FewShotConfig) -> None:
    """Take `steps` steps on batches of the support, drawn by the seed; `ahead_SHC` are the zero-shot errors."""
    device = windows.last_W.device
    optimiser = adamw([(prepared.parameters, 0.0)], torch.tensor(config.learning_rate, device=device))
    generator = torch.Generator().manual_seed(config.seed)
    with progress(f"Adapting to {len(index_W)} windows", config.steps) as task:
        for _ in range(config.steps):
            drawn = torch.randperm(len(index_W), generator=generator)[: config.batch_size]
            ahead_BHC = ahead_SHC[drawn.to(device)]
            batch = windows.batch(index_W[drawn].to(device))
            update(prepared, batch, ahead_BHC, optimiser, config.clip_norm, config.loss)
            task.advance()
