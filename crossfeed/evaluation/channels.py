"""Each channel on its own: in evaluation space, in its own unit, and how sure its headline numbers are."""

from collections.abc import Callable, Sequence

import numpy as np

from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.evaluation.metrics import Scores, physical
from crossfeed.evaluation.records import ChannelScores
from crossfeed.evaluation.statistics import Interval, bootstrap

# What decides, channel by channel, whether a forecast may be trusted.
JUDGED = ("skill_rmse", "coverage90")
PHYSICAL = ("rmse", "mae", "bias", "crps", "nll", "width90")


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
