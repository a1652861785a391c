"""How far a machine's own rows came above what the model forecast for them, window by window of its log.

B windows, K context rows, T rows ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from crossfeed.control.earlier_runs import around
from crossfeed.control.load_forecast import CAUTIOUS, physical
from crossfeed.control.mean_rollout import mean_rollout
from crossfeed.control.timeline import Timeline
from crossfeed.model.world_model import WorldModel

_EVERY = 2  # rows between two windows
_MOST = 96  # windows, the latest
_AHEAD = 8  # rows: a decision is followed for four places, which take up to twice as long
_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class CutScores:
    """How far rows in the cut came above a forecast's middle, in parts of what its cautious quantile lies above it."""

    under_way: np.ndarray  # rows of a move that was under way when they were forecast
    to_come: np.ndarray  # rows of moves that had not begun: no command tells how deep they are


def forecast_scores(
    model: WorldModel, names: Sequence[str], sensors_RC: np.ndarray, commands_RA: np.ndarray
) -> dict[str, CutScores]:
    """Scores of a log, sensor by sensor."""
    context, ahead = model.config.context, min(_AHEAD, model.horizons[-1])
    timeline = Timeline.of_log(model.schema, commands_RA)
    cutting_R = timeline.cutting
    starts = np.arange(context, len(sensors_RC) - ahead + 1, _EVERY)
    starts = np.array([start for start in starts if cutting_R[start : start + ahead].any()][-_MOST:], dtype=int)
    found = {name: [(np.empty(0), np.empty(0))] for name in names}
    normaliser = model.normaliser
    x_RC, a_RA = normaliser.transform_sensors(sensors_RC), normaliser.transform_commands(commands_RA)
    for first in range(0, len(starts), _AT_ONCE):
        own = starts[first : first + _AT_ONCE]
        before, after = own[:, None] + np.arange(-context, 0), own[:, None] + np.arange(ahead)
        x_BKC, a_BKA, planned_BTA = (
            torch.from_numpy(np.asarray(part, dtype=np.float32)).to(model.device)
            for part in (x_RC[before], a_RA[before], a_RA[after])
        )
        same_BT = np.array([timeline.rows(at, at + ahead).under_way(commands_RA[at - 1]) for at in own.tolist()])
        said = mean_rollout(model.eval(), x_BKC, a_BKA, planned_BTA).distribution
        for name in names:
            column = model.schema.sensor_names.index(name)
            with torch.inference_mode():
                middle_BT, high_BT = (
                    physical(model, name, said[..., column].quantile(level)) for level in (0.5, CAUTIOUS)
                )
            middle_BT, high_BT = (np.apply_along_axis(around, 1, part) for part in (middle_BT, high_BT))
            true_BT = sensors_RC[after, column]
            score_BT = (true_BT - middle_BT) / np.maximum(high_BT - middle_BT, 1e-9)
            counts_BT = cutting_R[after] & np.isfinite(true_BT)
            found[name].append((score_BT[counts_BT & same_BT], score_BT[counts_BT & ~same_BT]))
    return {name: CutScores(*map(np.concatenate, zip(*parts))) for name, parts in found.items()}
