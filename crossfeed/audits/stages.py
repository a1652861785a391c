"""The steps of crossfeed's own pipeline, wrapped for the causality probe."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from crossfeed.audits.causality import Known
from crossfeed.ingest.table import Table
from crossfeed.windows.corrupt import MaskConfig, validation_masks
from crossfeed.windows.frame import placeholder_frame
from crossfeed.windows.windows import WindowBatch, WindowSet

if TYPE_CHECKING:
    from crossfeed.machines.declaration import LogFormat, RawRun

# A probe needs no more windows than this to see a leak.
MOST_WINDOWS = 2000


def pipeline_stages(table: Table) -> list[tuple[str, Callable[[Table], Known]]]:
    """What happens to a table before a model reads it; the normaliser is fixed beforehand, as in training."""
    longest = max(len(group) for group in table.groups)
    if longest < 2:
        return []
    context, horizon = (32, 16) if longest >= 48 else (1, 1)
    return [
        ("contexts of windows", context_stage(context, horizon)),
        ("validation masks", mask_stage(context, horizon)),
    ]


def rows_of(table: Table) -> Known:
    """A finished table as a stage: each row is known at its own time."""
    return table.time, np.concatenate([table.sensors, table.commands], axis=1)


def context_stage(context: int, horizon: int) -> Callable[[Table], Known]:
    """What a model reads at each moment: values, presence and commands of the context."""

    def stage(changed: Table) -> Known:
        rows, batch = _windows(changed, context, horizon)
        parts = (batch.x_BKC, batch.m_BKC.float(), batch.a_BKA)
        return rows, torch.cat([part.flatten(1) for part in parts], dim=1).numpy()

    return stage


def mask_stage(context: int, horizon: int) -> Callable[[Table], Known]:
    """What a validation mask leaves visible at each moment, in the one mode that looks at values."""

    config = MaskConfig(mode="event", ratio=0.5)

    def stage(changed: Table) -> Known:
        rows, batch = _windows(changed, context, horizon)
        masks = validation_masks(batch.x_BKC, batch.m_BKC, torch.from_numpy(rows), config, seed=0)
        return rows, masks.flatten(1).float().numpy()

    return stage


def _windows(table: Table, context: int, horizon: int) -> tuple[np.ndarray, WindowBatch]:
    """Evenly chosen windows in plain units (the normaliser is the identity) and the rows at which they end."""
    windows = WindowSet.build(table, None, placeholder_frame(table.schema), context, (horizon,))
    index = torch.arange(0, len(windows), max(1, len(windows) // MOST_WINDOWS))
    batch = windows.batch(index)
    return windows.origin_N2[batch.last_index_B.numpy(), 1], batch


def other_future_of_logs(log_format: "LogFormat", moment: float) -> "LogFormat":
    """A kind of log whose every run, after `moment` seconds of its clock, shows other values."""
    import polars as pl

    from crossfeed.machines.declaration import CLOCK, MICROSECONDS

    def read(inner: "LogFormat", path: Path) -> Iterator["RawRun"]:
        rng = np.random.default_rng(0)
        for run in log_format.read(inner, path):
            names = [column.channel for column in inner.columns if column.channel in run.frame.columns]
            later = pl.col(CLOCK) > round(moment * MICROSECONDS)
            noise = [pl.Series(f"@noise {name}", rng.normal(1.0, 0.3, run.frame.height)) for name in names]
            changed = [
                pl.when(later).then(pl.col(name) * pl.col(f"@noise {name}")).otherwise(pl.col(name)).alias(name)
                for name in names
            ]
            frame = run.frame.with_columns(noise).with_columns(changed).drop([column.name for column in noise])
            yield replace(run, frame=frame)

    return replace(log_format, read=read)
