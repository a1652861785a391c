"""What conformal layers would mend: coverage as it is, calibrated on the first runs, and tracked while running."""

from typing import Any

import numpy as np

from crossfeed.errors import TableError
from crossfeed.evaluation.conformal import ForecastRecorder, adaptive_widths, coverage, split_widths
from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.evaluation.metrics import LEVELS, Scores

CALIBRATION_RUNS = 2


def conformal_coverage(record: ForecastRecorder, scores: Scores, data: EvaluationSet) -> dict[str, Any]:
    """Coverage by level; a layer calibrated on the first runs is judged on the others."""
    index, stream = record.trace()
    tracked = coverage(stream, adaptive_widths(stream, data.windows.horizons))
    result: dict[str, Any] = {"adaptive": _by_level(tracked)}
    calibrating = (data.run_W[index] < CALIBRATION_RUNS).numpy()
    if calibrating.all() or not calibrating.any():
        return result | {"split": f"needs windows in the first {CALIBRATION_RUNS} runs and in others"}
    try:
        width_LHC, borrowed = split_widths(stream.scores[calibrating])
    except TableError as error:
        return result | {"split": error.found}
    others = stream.select(~calibrating)
    as_is = scores.metrics(run=data.runs[CALIBRATION_RUNS:])
    return result | {
        "as_is": {f"{level:g}": as_is[f"coverage{100 * level:.0f}"] for level in LEVELS},
        "split": {
            **_by_level(coverage(others, width_LHC[None])),
            "calibrated_on": list(data.runs[:CALIBRATION_RUNS]),
            "borrowed": int(borrowed.sum()),
        },
    }


def _by_level(shares: np.ndarray) -> dict[str, float]:
    return {f"{level:g}": float(share) for level, share in zip(LEVELS, shares, strict=True)}
