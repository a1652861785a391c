"""Samples that arrived one by one, as the frame of rows that ingest reads from a log of the same kind."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import polars as pl

from crossfeed.live.source import ALIVE, CONNECTED, TEXTS, Sample, Value
from crossfeed.machines.declaration import CLOCK, PROGRAM, LogFormat


def to_frame(
    samples: Iterable[Sample], log_format: LogFormat, held: Mapping[str, Value] | None = None, extra: Sequence[str] = ()
) -> pl.DataFrame:
    """Rows in time order; in a change-driven kind each has everything in force, beginning with `held`.

    Of two values of a polled channel at the same time the first counts, as of two rows in ingest; where values hold
    until they change, the last.
    """
    cut = log_format.segmentation
    states = dict.fromkeys(f"@{name}" for name in (*cut.keep, *cut.boundaries))  # which its sessions follow
    measured = (column.channel for column in log_format.columns if column.constant is None)
    times: list[int] = []
    columns: dict[str, list[Value]] = {name: [] for name in (*measured, PROGRAM, *states, *extra)}
    state: dict[str, Value] = {CONNECTED: 1.0, **(held or {})}
    for time, together in groupby(sorted(samples, key=attrgetter("time")), key=attrgetter("time")):
        told: dict[str, Value] = {}
        for sample in together:
            if log_format.change_driven or sample.channel not in told:
                told[sample.channel] = sample.value
        told.pop(ALIVE, None)
        if log_format.change_driven:
            state |= told
            told = state
        times.append(time)
        for name, values in columns.items():
            values.append(told.get(name))
    series = [pl.Series(name, values, dtype=_type_of(name, values, log_format)) for name, values in columns.items()]
    frame = pl.DataFrame([pl.Series(CLOCK, times, dtype=pl.Int64), *series])
    constants = [pl.lit(c.constant, pl.Float64).alias(c.channel) for c in log_format.columns if c.constant is not None]
    return frame.with_columns(pl.col(PROGRAM).fill_null(""), *constants)


def gap_samples(log_format: LogFormat, begin: int, end: int) -> list[Sample]:
    """What a gap does where values hold until they change: no sensor is known from its begin on until told again."""
    if not log_format.change_driven:
        return []
    ended = [Sample(column.channel, None, begin + 1) for column in log_format.columns if column.constant is None]
    sensors = [sample for sample in ended if sample.channel in log_format.schema.sensor_names]
    return [*sensors, Sample(CONNECTED, 0.0, begin + 1), Sample(CONNECTED, 1.0, end)]


def _type_of(name: str, values: Sequence[Value], log_format: LogFormat) -> type[pl.DataType]:
    if name in TEXTS:
        return pl.String
    wanted = log_format.segmentation.keep.get(name.removeprefix("@"))
    text = isinstance(wanted, str) or any(isinstance(value, str) for value in values)
    return pl.String if name.startswith("@") and text else pl.Float64
