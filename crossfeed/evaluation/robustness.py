"""How a forecaster bears broken, missing and slower sensors, always beside its own error on clean windows."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ForecastError
from crossfeed.evaluation.command_use import ratio
from crossfeed.evaluation.corruptions import CORRUPTIONS, SEVERITIES, coarse, corrupted
from crossfeed.evaluation.evaluate import Change, EvaluationSet, evaluate
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.evaluation.metrics import Scores
from crossfeed.progress import console
from crossfeed.windows.windows import WindowBatch

# One suite for everybody, for ever: this seed belongs to the protocol, not to any model.
PROTOCOL_SEED = 20260820
PROBE_WINDOWS = 512
SLOWER = (2, 4, 8)


def robustness(
    forecaster: Forecaster, data: EvaluationSet, limit: int = PROBE_WINDOWS, seed: int = PROTOCOL_SEED
) -> dict[str, object]:
    """Errors under every corruption and severity, with ratios to the clean error and run-level intervals."""
    index_W = data.sample(limit)
    clean = evaluate(forecaster, data, index_W, title="Robustness: clean")
    result: dict[str, object] = {"windows": len(index_W), "clean": _row(clean, clean)}
    for kind, (meaning, amounts) in CORRUPTIONS.items():
        rows = {}
        for severity, amount in zip(SEVERITIES, amounts, strict=True):
            change = _corruption(kind, amount, data, seed)
            rows[severity] = {"amount": amount} | _attempt(forecaster, data, index_W, change, clean, kind)
        result[kind] = {"meaning": meaning, **rows}
    return result


def slower_logging(forecaster: Forecaster, data: EvaluationSet, limit: int = PROBE_WINDOWS) -> dict[str, object]:
    """Resampling-rate sensitivity: the same context as a logger with 2, 4 or 8 times the period would show it."""
    index_W = data.sample(limit)
    clean = evaluate(forecaster, data, index_W, title="Logging rate: as is")
    result: dict[str, object] = {"windows": len(index_W), "1": _row(clean, clean)}
    for rows in SLOWER:
        result[str(rows)] = _attempt(forecaster, data, index_W, _slower(rows), clean, f"logging rate / {rows}")
    return result


def channel_curve(
    forecaster: Forecaster, data: EvaluationSet, limit: int = PROBE_WINDOWS, draws: int = 3, seed: int = PROTOCOL_SEED
) -> dict[str, object]:
    """Error on the channels that stay visible as others are hidden, against the error with all of them visible.

    Kept and full view are judged on the same channels, so the ratio says what the hidden ones were worth.
    """
    index_W = data.sample(limit)
    full = evaluate(forecaster, data, index_W, title="Channels: all")
    names = [name for name in full.channels if full.metrics(channel=[name])["count"]]
    sizes = sorted({size for size in (1, 2, 4, 8, 12) if size < len(names)})
    generator = np.random.default_rng(seed)
    result: dict[str, object] = {"windows": len(index_W), "channels": names}
    for size in sizes:
        rows = []
        for _ in range(draws):
            kept = sorted(generator.choice(names, size=size, replace=False).tolist(), key=full.channels.index)
            scores = evaluate(forecaster, data, index_W, _only(kept, full.channels), f"Channels: {size}")
            seen, whole = scores.metrics(channel=kept)["rmse"], full.metrics(channel=kept)["rmse"]
            share = seen / whole if seen is not None and whole else None
            rows.append({"kept": kept, "rmse": seen, "rmse_all_visible": whole, "ratio": share})
        result[str(size)] = rows
    return result


def _corruption(kind: str, amount: float, data: EvaluationSet, seed: int) -> Change:
    def change(batch: WindowBatch, part: Tensor) -> WindowBatch:  # noqa: ARG001
        return corrupted(batch, kind, amount, data.normaliser, seed)

    return change


def _slower(rows: int) -> Change:
    def change(batch: WindowBatch, part: Tensor) -> WindowBatch:  # noqa: ARG001
        return coarse(batch, rows)

    return change


def _only(kept: list[str], channels: tuple[str, ...]) -> Change:
    visible_C = torch.tensor([name in kept for name in channels])

    def change(batch: WindowBatch, part: Tensor) -> WindowBatch:  # noqa: ARG001
        m_BKC = batch.m_BKC & visible_C.to(batch.m_BKC.device)
        return replace(batch, x_BKC=torch.where(m_BKC, batch.x_BKC, 0.0), m_BKC=m_BKC)

    return change


def _attempt(
    forecaster: Forecaster, data: EvaluationSet, index_W: Tensor, change: Change, clean: Scores, title: str
) -> dict[str, object]:
    """One row of the table; a corruption that breaks the forecaster is a result too, and is named."""
    try:
        return _row(evaluate(forecaster, data, index_W, change, f"Robustness: {title}"), clean)
    except ForecastError as error:
        console().print(f"[yellow]warning:[/] under '{title}': {error.found}")
        return {"failed": error.found}


def _row(scores: Scores, clean: Scores) -> dict[str, object]:
    metrics = scores.metrics()
    chosen = {name: metrics[name] for name in ("rmse", "mae", "crps", "coverage90")}
    return chosen | {"rmse_ratio": ratio(scores, clean, "squared"), "crps_ratio": ratio(scores, clean, "crps")}
