"""Logged commands under other overrides: the same path, driven slower or faster, takes longer or shorter.

T rows, S rows of the changed plan, A commands.
"""

import numpy as np

from crossfeed.schema import Schema
from crossfeed.serving.plan_program import Overrides

REMARK = "feeds of logged rows are scaled as they stand; only an NC program is planned anew, with its accelerations"


def under_overrides(commands_TA: np.ndarray, schema: Schema, overrides: Overrides) -> np.ndarray:
    """The rows (S, A) that drive the same path: feeds times the override for as much longer; rows at rest keep theirs.

    Spindle speeds are scaled where they stand. Each new row is the mean of the piece of the old rows that it covers;
    what is left of the last row after the end of the path stands still.
    """
    feed, spindle = overrides.feed / 100.0, overrides.spindle / 100.0
    is_feed = np.array([channel.quantity == "feed" for channel in schema.commands])
    is_spindle = np.array([channel.quantity == "rotational speed" for channel in schema.commands])
    scaled_TA = commands_TA * np.where(is_feed, feed, np.where(is_spindle, spindle, 1.0))
    lasts_T = np.where((commands_TA[:, is_feed] != 0.0).any(axis=1), 1.0 / feed, 1.0)  # in rows of the new plan
    whole = max(int(np.ceil(lasts_T.sum() - 1e-9)), 1)
    at_rest_1A = np.where(is_feed, 0.0, scaled_TA[-1])[None]
    scaled_TA = np.concatenate([scaled_TA, at_rest_1A])
    lasts_T = np.append(lasts_T, max(whole - lasts_T.sum(), 0.0))
    ends = np.concatenate([[0.0], np.cumsum(lasts_T)])
    done = np.concatenate([np.zeros((1, scaled_TA.shape[1])), np.cumsum(scaled_TA * lasts_T[:, None], axis=0)])
    at_edges = np.stack([np.interp(np.arange(whole + 1), ends, column) for column in done.T], axis=1)
    return np.asarray(np.diff(at_edges, axis=0))
