"""Few-shot adaptation: learn from the leading fraction of each run, judge on what follows the largest one."""

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.adaptation.learning import errors_in_advance, update
from crossfeed.adaptation.parameters import Adaptable, Mode, Prepared, finish, prepare
from crossfeed.adaptation.result import FewShotResult, FractionResult
from crossfeed.adaptation.support import SupportAndQuery, support_and_query
from crossfeed.configuration import CheckedForm
from crossfeed.errors import ConfigError
from crossfeed.evaluation.command_use import ratio
from crossfeed.evaluation.evaluate import EvaluationSet, evaluate
from crossfeed.evaluation.forecaster import batches
from crossfeed.evaluation.metrics import Scores
from crossfeed.products import wide_products
from crossfeed.progress import progress
from crossfeed.training.update.adamw import AdamW
from crossfeed.windows.windows import WindowSet


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


@dataclass(frozen=True)
class FewShot:
    """One row of the few-shot table."""

    fraction: float
    support_windows: int
    runs_without_support: tuple[str, ...]
    updates: int
    moved: int
    scores: Scores
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
def few_shot(
    forecaster: Adaptable, data: EvaluationSet, config: FewShotConfig
) -> tuple[list[FewShot], SupportAndQuery]:
    """Adapt anew for every fraction and score all of them on the common query set."""
    divided = support_and_query(data.windows, config.fractions)
    rows = []
    for fraction, index_W in divided.support.items():
        adapted, moved, updates = forecaster, 0, 0
        if len(index_W) and config.steps:
            prepared = prepare(forecaster, config.mode, config.rank, config.seed)
            ahead_SHC = torch.cat([errors_in_advance(forecaster, batch) for batch in batches(data.windows, index_W)])
            learn(prepared, data.windows, index_W, ahead_SHC, config)
            adapted, moved, updates = finish(prepared), prepared.count, config.steps
        scores = evaluate(adapted, data, divided.query, title=f"Few-shot {fraction:.0%}")
        lacking = divided.runs_without_support.get(fraction, ())
        rows.append(FewShot(fraction, len(index_W), lacking, updates, moved, scores, adapted))
    return rows, divided


def learn(prepared: Prepared, windows: WindowSet, index_W: Tensor, ahead_SHC: Tensor, config: FewShotConfig) -> None:
    """Take `steps` steps on batches of the support, drawn by the seed; the spread learns from the zero-shot errors."""
    device = windows.last_W.device
    optimiser = AdamW([(prepared.parameters, 0.0)], torch.tensor(config.learning_rate, device=device))
    generator = torch.Generator().manual_seed(config.seed)
    with progress(f"Adapting to {len(index_W)} windows", config.steps) as task:
        for _ in range(config.steps):
            drawn = torch.randperm(len(index_W), generator=generator)[: config.batch_size]
            ahead_BHC = ahead_SHC[drawn.to(device)]
            update(prepared, windows.batch(index_W[drawn].to(device)), ahead_BHC, optimiser, config.clip_norm)
            task.advance()


def few_shot_result(rows: list[FewShot], divided: SupportAndQuery, config: FewShotConfig) -> FewShotResult:
    """Each fraction beside zero-shot, with run-level intervals of the error ratio."""
    zero_shot = rows[0].scores
    return FewShotResult(
        config=config.model_dump(mode="json"),
        query_windows=len(divided.query),
        runs_without_query=tuple(divided.runs_without_query),
        fractions=tuple(
            FractionResult(
                fraction=row.fraction,
                support_windows=row.support_windows,
                runs_without_support=tuple(row.runs_without_support),
                updates=row.updates,
                parameters_moved=row.moved,
                remark="" if row.updates or not row.fraction else "no complete window in the support: zero-shot",
                metrics=row.scores.metrics(),
                rmse_ratio=ratio(row.scores, zero_shot, "squared"),
                crps_ratio=ratio(row.scores, zero_shot, "crps"),
                runs={run: metrics["rmse"] for run, metrics in row.scores.by("run").items()},
                sensors={name: metrics["crps"] for name, metrics in row.scores.by("channel").items()},
            )
            for row in rows
        ),
    )
