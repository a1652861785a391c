"""How a forecaster bears broken, missing and slower sensors, always beside its own error on clean windows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ForecastError
from crossfeed.evaluation.command_use import ratio
from crossfeed.evaluation.corruptions import CORRUPTIONS, SEVERITIES, coarse, corrupted
from crossfeed.evaluation.evaluate import Change, EvaluationSet, score_windows
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.evaluation.metrics import Scores
from crossfeed.progress import console
from crossfeed.training.measure import PROTOCOL_SEED
from crossfeed.windows.windows import WindowBatch

PROBE_WINDOWS = 96
SLOWER = (2, 4, 8)
SUBSETS = (1, 2, 4, 8, 12)
DRAWS = 2  # of the channels of a subset


@dataclass(frozen=True)
class Probe:
    """A forecaster, the windows it is probed on, and how it does on them undisturbed."""

    forecaster: Forecaster
    data: EvaluationSet
    index_W: Tensor
    clean: Scores

    @classmethod
    def of(cls, forecaster: Forecaster, data: EvaluationSet, limit: int = PROBE_WINDOWS) -> "Probe":
        """Choose evenly spread windows; the same ones for everybody."""
        index_W = data.sample(limit)
        return cls(forecaster, data, index_W, score_windows(forecaster, data, index_W, title="Robustness: clean"))

    def under(self, change: Callable[[WindowBatch], WindowBatch], title: str) -> dict[str, object]:
        """One row of a table; a change that breaks the forecaster is a result too, and is named."""
        try:
            scores = score_windows(
                self.forecaster, self.data, self.index_W, lambda batch, _: change(batch), f"Robustness: {title}"
            )
        except ForecastError as error:
            console().print(f"[yellow]warning:[/] under '{title}': {error.found}")
            return {"failed": error.found}
        return _row(scores, self.clean)


def robustness(probe: Probe) -> dict[str, object]:
    """Errors under every corruption and severity, with ratios to the clean error and run-level intervals."""
    result: dict[str, object] = {"windows": len(probe.index_W), "clean": _row(probe.clean, probe.clean)}
    for corruption, (meaning, amounts) in CORRUPTIONS.items():
        rows = {}
        for severity, amount in zip(SEVERITIES, amounts, strict=True):
            change = partial(
                corrupted, corruption=corruption, amount=amount, normaliser=probe.data.normaliser, seed=PROTOCOL_SEED
            )
            rows[severity] = {"amount": amount} | probe.under(change, corruption)
        result[corruption] = {"meaning": meaning, **rows}
    return result


def slower_logging(probe: Probe) -> dict[str, object]:
    """Resampling-rate sensitivity: the same context as a logger with 2, 4 or 8 times the period would show it."""
    result: dict[str, object] = {"windows": len(probe.index_W), "1": _row(probe.clean, probe.clean)}
    return result | {str(rows): probe.under(partial(coarse, rows=rows), f"logging rate / {rows}") for rows in SLOWER}


def channel_curve(probe: Probe) -> dict[str, object]:
    """Error on the channels that stay visible as others are hidden, against the error with all of them visible.

    Kept and full view are judged on the same channels, so the ratio says what the hidden ones were worth.
    """
    full = probe.clean
    names = [name for name in full.channels if full.metrics(channel=[name])["count"]]
    generator = np.random.default_rng(PROTOCOL_SEED)
    result: dict[str, object] = {"windows": len(probe.index_W), "channels": names}
    for size in (size for size in SUBSETS if size < len(names)):
        rows = []
        for _ in range(DRAWS):
            kept = sorted(generator.choice(names, size=size, replace=False).tolist(), key=full.channels.index)
            change = _only(kept, full.channels)
            scores = score_windows(probe.forecaster, probe.data, probe.index_W, change, f"Channels: {size}")
            seen, whole = scores.metrics(channel=kept)["rmse"], full.metrics(channel=kept)["rmse"]
            share = seen / whole if seen is not None and whole else None
            rows.append({"kept": kept, "rmse": seen, "rmse_all_visible": whole, "ratio": share})
        result[str(size)] = rows
    return result


def _only(kept: list[str], channels: tuple[str, ...]) -> Change:
    visible_C = torch.tensor([name in kept for name in channels])

    def change(batch: WindowBatch, part: Tensor) -> WindowBatch:  # noqa: ARG001
        m_BKC = batch.m_BKC & visible_C.to(batch.m_BKC.device)
        return replace(batch, x_BKC=torch.where(m_BKC, batch.x_BKC, 0.0), m_BKC=m_BKC)

    return change


def _row(scores: Scores, clean: Scores) -> dict[str, object]:
    metrics = scores.metrics()
    chosen = {name: metrics[name] for name in ("rmse", "mae", "crps", "coverage90")}
    return chosen | {"rmse_ratio": ratio(scores, clean, "squared"), "crps_ratio": ratio(scores, clean, "crps")}
