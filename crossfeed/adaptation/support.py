"""Which windows of a new machine may be learned from, and which are kept to judge by.

K context rows, T longest horizon. The leading fraction of each run is support; the query is what follows the largest
support, the same for every fraction, zero included (`common`), or what follows each support, as in the paper (`each`).
No row belongs to a support and its query.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from crossfeed.errors import ConfigError, TableError
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
    return SupportAndQuery(
        support,
        dict.fromkeys(fractions, after[fractions[-1]]) if query == "common" else after,
        {fraction: _lacking(runs, run_W, index) for fraction, index in support.items() if fraction > 0.0},
        _lacking(runs, run_W, after[fractions[-1]]),
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


def _lacking(runs: list[str], run_W: Tensor, index_W: Tensor) -> tuple[str, ...]:
    having = set(run_W[index_W].tolist())
    return tuple(run for number, run in enumerate(runs) if number not in having)
