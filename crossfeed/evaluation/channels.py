"""The sums of `Scores` read channel by channel, with intervals over runs, and whether the probabilities are right."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from crossfeed.evaluation.metrics import LEVELS, PIT_BINS, EvaluationSet, Scores, physical
from crossfeed.evaluation.statistics import Interval, bootstrap
from crossfeed.evaluation.verdict import Calibration, ChannelScores

# What decides, channel by channel, whether a forecast may be trusted.
JUDGED = ("skill_rmse", "coverage90")
PHYSICAL = ("rmse", "mae", "bias", "crps", "nll", "width90")
NOMINAL = 0.9
# Share outside the 90 % interval above which nobody may call it wide.
OUTSIDE = 0.15


def channel_scores(scores: Scores, data: EvaluationSet) -> dict[str, ChannelScores]:
    """Every channel that was seen at least once."""
    table = {}
    for channel, metrics in scores.by("channel").items():
        scale = float(data.space.sensor_scale[data.schema.sensor_names.index(channel)])
        own, found = physical(metrics, scale), headline_intervals(scores, channel=[channel])
        table[channel] = ChannelScores(
            metrics=metrics,
            physical={name: own[name] for name in PHYSICAL},
            unit=data.schema.channel(channel).unit,
            constant=metrics["r2"] is None,
            intervals={name: found[name] for name in JUDGED if name in found},
        )
    return table


def headline_intervals(scores: Scores, **choice: Sequence[str | int]) -> dict[str, Interval]:
    """Run-level bootstrap intervals of the headline metrics, over everything or over the chosen labels."""

    def interval(above: str, below: str, of_ratio: Callable[[np.ndarray], np.ndarray]) -> Interval:
        return bootstrap(scores.run_sums((above, below), **choice), lambda sums: of_ratio(sums[:, 0] / sums[:, 1]))

    found = {
        "rmse": interval("squared", "count", np.sqrt),
        "mae": interval("absolute", "count", np.asarray),
        "crps": interval("crps", "count", np.asarray),
        "skill_rmse": interval("squared", "persistence_squared", lambda share: 1.0 - np.sqrt(share)),
    }
    return found | ({"coverage90": interval("inside90", "count", np.asarray)} if scores.has_intervals else {})


def calibration_penalty(scores: Scores, **choice: Sequence[str | int]) -> float:
    """Distance of the empirical coverage at the nominal 90 % level from 0.90."""
    return abs(float(scores.metrics(**choice)["coverage90"] or 0.0) - NOMINAL)


def calibration(scores: Scores, **choice: Sequence[str | int]) -> Calibration:
    """How honest the intervals are, over everything or over the chosen labels."""
    metrics, pit = scores.metrics(**choice), scores.pit_histogram(**choice)
    return Calibration(
        coverage={f"{level:g}": metrics[f"coverage{100 * level:.0f}"] for level in LEVELS},
        width90=metrics["width90"],
        penalty90=calibration_penalty(scores, **choice),
        pit=tuple(float(share) for share in pit),
        pit_deviation=float(np.abs(pit * PIT_BINS - 1.0).mean()),
        reading=reading(pit),
    )


def calibration_by_regime(scores: Scores) -> Calibration:
    """Over everything and in each regime: intervals may be right on average and wrong in every start-up."""
    regimes = {label: calibration(scores, regime=[label]) for label in scores.by("regime")}
    return replace(calibration(scores), by_regime=regimes)


def reading(pit: np.ndarray) -> str:
    """The shape of a PIT histogram in words; a tenth of the observations at each end would be right."""
    low, high = float(pit[: PIT_BINS // 10].sum()), float(pit[-PIT_BINS // 10 :].sum())
    middle = float(pit[PIT_BINS // 4 : -PIT_BINS // 4].sum())
    if low > 0.15 and high > 0.15:
        return "too sure: observations fall outside the intervals too often"
    if middle > 0.6 and float(pit[0] + pit[-1]) > OUTSIDE:
        return "uneven: the intervals are too wide most of the time and too narrow in the rest"
    if middle > 0.6:
        return "too cautious in the middle: more truths lie near the median than it says"
    if low > 0.15 or high > 0.15:
        return f"biased: observations fall too often {'below' if low > high else 'above'} the forecast"
    return "no large deviation"
