"""The causality probe: change everything after a moment, and nothing known at that moment may change.

A stage is any function from an input to its outputs, each with the moment at which it claims to be known. The probe
runs it on the input and on the same input with another future, and compares what both claim to have known before.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch

from crossfeed.logs.resample import values_ahead
from crossfeed.logs.table import Table
from crossfeed.windows.audits.subject import Case, Finding, Subject, finding
from crossfeed.windows.corrupt import MaskConfig, validation_masks
from crossfeed.windows.frame import placeholder_frame
from crossfeed.windows.windows import WindowBatch, WindowSet

if TYPE_CHECKING:
    from crossfeed.logs.declaration import LogFormat, RawRun


Input = TypeVar("Input")
# For every output: when it claims to be known, and its values.
Known = tuple[np.ndarray, np.ndarray]
# Moments at which the probe cuts, as shares of the rows.
CUTS = (0.2, 0.5, 0.8)
ENOUGH_ROWS = 10_000
# Straight pieces through so many noisy sensors at once are drawn by interpolation, not by a machine.
STRAIGHT_SENSORS, STRAIGHT_ROWS = 3, 2
# A probe needs no more windows than this to see a leak.
MOST_WINDOWS = 2000


@dataclass(frozen=True, slots=True)
class Leak:
    """Outputs that knew the future: how many, and how far the earliest one looked ahead."""

    moment: float
    compared: int
    changed: int
    lead: float


def probe(stage: Callable[[Input], Known], original: Input, other_future: Input, moment: float) -> Leak | None:
    """Compare what a stage claims to know at `moment` under two futures; None when it is the same, or nothing."""
    times_one, values_one = stage(original)
    times_two, values_two = stage(other_future)
    one, two = times_one <= moment, times_two <= moment
    if one.sum() != two.sum() or not np.array_equal(times_one[one], times_two[two]):
        return Leak(moment, int(one.sum()), int(one.sum()), 0.0)
    before, after = values_one[one], values_two[two]
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    if not len(same):
        return None
    changed = ~same.reshape(len(same), -1).all(axis=1)
    if not changed.any():
        return None
    return Leak(moment, len(changed), int(changed.sum()), float(moment - times_one[one][changed].min()))


def with_other_future(table: Table, row: int) -> Table:
    """The same table up to `row`; later values are others, later sensors come and go.

    Missing commands stay missing: whether a window is offered may depend on the commands of its future, what it
    shows may not.
    """
    rng = np.random.default_rng(0)
    later = np.arange(len(table)) > row
    sensors, commands = table.sensors.copy(), table.commands.copy()
    commands[later] += rng.normal(scale=1e3, size=commands[later].shape)
    noise = rng.normal(scale=1e3, size=sensors[later].shape)
    sensors[later] = np.where(rng.random(noise.shape) < 0.3, np.nan, np.nan_to_num(sensors[later]) + noise)
    return replace(table, sensors=sensors, commands=commands)


def check_causality(case: Case) -> Iterator[Finding]:
    """Probe windows, masks and ingest, and look for rows that were drawn between their neighbours."""

    for whole in case.tables:
        table, label = _beginning(whole), ", ".join(whole.machines())
        stages, cuts = pipeline_stages(table), [int(cut * (len(table) - 1)) for cut in CUTS]
        if not any((stage(table)[0] <= row).any() for _, stage in stages for row in cuts):
            measured = f"not probed: of {len(table)} rows none is the end of a window before another future begins"
            yield finding("not probed", label, measured, {"rows": len(table)})
            continue
        for name, stage in stages:
            for row in cuts:
                leak = probe(stage, table, with_other_future(table, row), row)
                if leak is not None:
                    yield leak_finding(f"{label}: {name}", leak, "rows")
    for log_format, path in case.raw:
        yield from _ingest(log_format, path)
    told = {machine for table in case.tables if values_ahead(table.manifest) for machine in table.machines()}
    for table in case.tables:
        if ahead := values_ahead(table.manifest):
            yield finding(
                "filled from later rows",
                ", ".join(table.machines()),
                f"{ahead} of {table.sensors.size + table.commands.size} values were filled from later rows and count "
                "as present",
                {"values": ahead},
                rule=table.manifest["rules"]["rule"],
            )
    for subject in case.subjects:
        if subject.label not in told:
            yield from _interpolated(subject)


def _beginning(table: Table) -> Table:
    """The first groups of a table; a leak shows there as well as anywhere."""
    stops = [group.stop for group in table.groups]
    return table.select(table.groups[: 1 + int(np.searchsorted(stops, ENOUGH_ROWS))])


def _ingest(log_format: "LogFormat", path: Path) -> Iterator[Finding]:
    """Ingest the raw logs twice, the second time with another future from the median moment on."""
    from crossfeed.logs.pipeline import ingest

    table = ingest(log_format, path)
    moment = float(np.median(table.time))

    def rows_of(finished: Table) -> Known:
        """Each row is known at its own time."""
        return finished.time, np.concatenate([finished.sensors, finished.commands], axis=1)

    leak = probe(rows_of, table, ingest(other_future_of_logs(log_format, moment), path), moment)
    if leak is not None:
        yield leak_finding(f"ingest of {log_format.name} logs", leak, "seconds")


def leak_finding(subject: str, leak: Leak, unit: str) -> Finding:
    """Put a leak into words."""
    return finding(
        "leak",
        subject,
        f"{leak.changed} of {leak.compared} outputs known at {leak.moment:g} changed with the future, "
        f"up to {leak.lead:g} {unit} ahead",
        {"changed": leak.changed, "compared": leak.compared, "lead": leak.lead},
    )


def _interpolated(subject: Subject) -> Iterator[Finding]:
    """Rows in which several noisy sensors lie on straight lines at once."""
    noisy = [s.values for s in subject.measured if s.role == "sensor" and len(np.unique(s.finite)) > len(s.finite) / 4]
    if len(noisy) < STRAIGHT_SENSORS:
        return
    values = np.stack(noisy, axis=1)
    slope, scale = np.diff(values, axis=0), np.nanstd(values, axis=0)
    bend = np.abs(np.diff(slope, axis=0))
    straight = (bend <= 1e-9 * scale + 1e-12 * np.abs(values[1:-1])) & (np.abs(slope[1:]) > 1e-6 * scale)
    hit = np.zeros(len(values), dtype=bool)
    hit[1:-1] = straight.sum(axis=1) >= STRAIGHT_SENSORS
    for group in subject.groups:
        hit[[group.start, group.stop - 1]] = False
    runs = hit[:-1] & hit[1:]
    if runs.sum() >= STRAIGHT_ROWS - 1:
        yield finding(
            "interpolated",
            subject.label,
            f"{int(hit.sum())} rows lie exactly on straight lines in {STRAIGHT_SENSORS} + noisy sensors; "
            f"the first is row {int(np.argmax(hit))}",
            {"rows": int(hit.sum())},
        )


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


def context_stage(context: int, horizon: int) -> Callable[[Table], Known]:
    """What a model reads at each moment: values, presence and commands of the context."""

    def stage(changed: Table) -> Known:
        rows, batch = _windows(changed, context, horizon)
        parts = (batch.x_BKC, batch.m_BKC.float(), batch.a_BKA)
        return rows, torch.cat([part.flatten(1) for part in parts], dim=1).numpy()

    return stage


def mask_stage(context: int, horizon: int) -> Callable[[Table], Known]:
    """What a validation mask leaves visible at each moment, in the one mode that looks at values."""

    def stage(changed: Table) -> Known:
        rows, batch = _windows(changed, context, horizon)
        config = MaskConfig(mode="event", ratio=0.5)
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

    from crossfeed.logs.declaration import CLOCK, MICROSECONDS

    def read(inner: "LogFormat", path: Path) -> Iterator["RawRun"]:
        rng = np.random.default_rng(0)
        for run in log_format.read(inner, path):
            later = pl.col(CLOCK) > round(moment * MICROSECONDS)
            changed = [
                pl.when(later).then(pl.col(name) * rng.normal(1.0, 0.3, run.frame.height)).otherwise(pl.col(name))
                for name in (column.channel for column in inner.columns if column.channel in run.frame.columns)
            ]
            yield replace(run, frame=run.frame.with_columns(changed))

    return replace(log_format, read=read)
