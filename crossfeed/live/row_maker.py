"""Rows while the samples still arrive: ingest's own segmentation and resampling, over the newest seconds.

A row is given as soon as the source's clock has passed its end, and given again when a late sample (up to
two seconds) changes it. A row that is older than that is final and equal to the one that ingest makes of the log. The
reader keeps the newest rows in the model's channels, and counts what happened on the way.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter

import polars as pl

from crossfeed.live.snapshot import Counters, MachineRows, Row
from crossfeed.live.source import ALIVE, CONNECTED, LINE, OVERRIDES, TEXTS, Arrival, Notice, Sample, SourceClock, Value
from crossfeed.logs.declaration import CLOCK, MICROSECONDS, PROGRAM, LogFormat, RawRun
from crossfeed.logs.resample import CARRY_FORWARD_S, SESSION, Resampling, Tally, segment, to_schema_units
from crossfeed.schema import Schema

LATEST_S = 2.0  # a sample that is later than this changes nothing any more
_GAP_ROWS = 10  # rows without a sample that end a session where the kind states no gap
_SHOWN_NOTICES = 20
_COUNTED = {"gap": "gaps", "reconnect": "reconnects", "restart": "restarts"}
_FOLLOWED = (PROGRAM, LINE, *OVERRIDES.values())


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
        row: dict[str, Value] = {}
        for sample in together:
            if log_format.change_driven or sample.channel not in row:
                row[sample.channel] = sample.value
        row.pop(ALIVE, None)
        if log_format.change_driven:
            state |= row
            row = state
        times.append(time)
        for name, values in columns.items():
            values.append(row.get(name))
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


class RowMaker:
    """Takes samples in any order and gives rows in theirs."""

    def __init__(self, log_format: LogFormat) -> None:
        measured = {column.channel for column in log_format.columns}
        cut = log_format.segmentation
        self._resampling = Resampling(
            sensors=[name for name in log_format.schema.sensor_names if name in measured],
            commands=list(log_format.schema.command_names),
            period=log_format.period,
            change_driven=log_format.change_driven,
        )
        # A session's length is not known before its end, so that none is too short while it runs.
        gap_s = _GAP_ROWS * log_format.period if cut.gap_s is None and not log_format.change_driven else cut.gap_s
        self._log_format = replace(
            log_format, segmentation=replace(cut, gap_s=gap_s, min_rows=1, min_s=0.0, longest_s=None)
        )
        self._samples: list[Sample] = []
        self._held: dict[str, Value] = {}
        self._given: dict[int, Row] = {}
        self._masked: list[tuple[int, int]] = []
        self._touched: int | None = None
        self.newest: int | None = None

    def add(self, sample: Sample) -> bool:
        """Take a sample; False if it came too late to count."""
        if self.newest is not None and sample.time < self.newest - round(LATEST_S * MICROSECONDS):
            return False
        self._samples.append(sample)
        self.newest = sample.time if self.newest is None else max(self.newest, sample.time)
        self._touched = sample.time if self._touched is None else min(self._touched, sample.time)
        return True

    def mask(self, begin: int, end: int) -> None:
        """Nothing is known between these source times: values do not hold across them."""
        self._masked.append((begin, end))
        self._samples += gap_samples(self._log_format, begin, end)
        self._touched = begin if self._touched is None else min(self._touched, begin)

    def rows(self) -> list[Row]:
        """Rows that are new or changed since the last call, in order."""
        if self.newest is None or self._touched is None:
            return []
        ticks = self._resampling.ticks
        complete, touched = self.newest // ticks, -((-self._touched) // ticks)
        if self._given:
            touched = min(touched, max(self._given) + 1)  # empty bins between two samples are rows as well
        if touched > complete:
            return []
        made = self._make(touched, complete)
        self._touched = None if self.newest % ticks == 0 else complete * ticks + 1
        fresh = [row for number, row in made.items() if self._given.get(number) != row]
        self._given |= made
        self._forget(complete)
        return fresh

    def _make(self, touched: int, complete: int) -> dict[int, Row]:
        frame = to_frame(self._samples, self._log_format, self._held)
        converted, _ = to_schema_units(frame, self._log_format)
        run = RawRun("live", converted, converted.height, ())
        segments = segment(run, self._log_format, self._log_format.period, Tally())
        if segments.frame.is_empty():
            return {}
        resampled = self._resampling.apply(segments.frame)[0].sort("time", maintain_order=True)
        first = touched if self._given else 0
        names = (*self._resampling.sensors, *self._resampling.commands)
        made: dict[int, Row] = {}
        before: tuple[int, int] | None = None
        for line in resampled.iter_rows(named=True):
            number = round(line["time"] * MICROSECONDS) // self._resampling.ticks
            follows = before == (number - 1, line[SESSION])
            before = (number, line[SESSION])
            if first <= number <= complete:
                values = {name: line[name] for name in names}
                if self._in_mask(number):
                    values |= dict.fromkeys(self._resampling.sensors)
                made[number] = Row(line["time"], values, begins=not follows)
        return made

    def _in_mask(self, number: int) -> bool:
        begin, end = (number - 1) * self._resampling.ticks, number * self._resampling.ticks
        return any(begin < until and since < end for since, until in self._masked)

    def _forget(self, complete: int) -> None:
        """Keep what later rows can still depend on: two seconds that may be carried, and the row before them."""
        ticks = self._resampling.ticks
        back = round((LATEST_S + CARRY_FORWARD_S) * MICROSECONDS) + 2 * ticks
        limit = complete * ticks - back
        old = sorted((sample for sample in self._samples if sample.time < limit), key=lambda sample: sample.time)
        if old:
            last = old[-1].time
            for sample in old:
                if self._log_format.change_driven or (
                    sample.channel in self._resampling.commands and sample.value is not None
                ):
                    self._held[sample.channel] = sample.value
            kept = [sample for sample in self._samples if sample.time >= limit]
            self._samples = [*self._anchor(old, last), *kept]
        self._given = {number: row for number, row in self._given.items() if number > complete - back // ticks - 2}
        self._masked = [(begin, end) for begin, end in self._masked if end > limit - back]

    def _anchor(self, old: list[Sample], last: int) -> list[Sample]:
        """The row before the kept ones: it says since when their first samples stand, and which commands hold."""
        if self._log_format.change_driven:
            return [Sample(name, value, last) for name, value in self._held.items()]
        row = {sample.channel: sample for sample in old if sample.time == last}
        held = {name: Sample(name, value, last) for name, value in self._held.items()}
        return [*(held | {name: sample for name, sample in row.items() if sample.value is not None}).values()]


class ArrivalReader:
    """Takes arrivals in any order; `unread` rows have had no forecast yet, `reread` says that older ones changed."""

    def __init__(self, log_format: LogFormat, schema: Schema, shown_rows: int, clock: SourceClock) -> None:
        self.log_format, self.clock = log_format, clock
        self.rows = MachineRows(log_format.schema, schema, shown_rows)
        self.states: dict[str, Value] = {}
        self.notices: deque[str] = deque(maxlen=_SHOWN_NOTICES)
        self.unread, self.reread = 0, False
        self._maker = RowMaker(log_format)
        self._counts: Counter[str] = Counter()

    def take(self, arrived: Sequence[Arrival]) -> bool:
        """Take everything in; True when it brought new rows, or changed some."""
        for arrival in arrived:
            if isinstance(arrival, Sample):
                self._sample(arrival)
            elif isinstance(arrival, Notice):
                self._notice(arrival)
        fresh = self._maker.rows()
        newest = self.rows.newest
        self._counts["rows"] += sum(newest is None or row.time > newest.time for row in fresh)
        self.reread |= self.rows.take(fresh)
        self.unread += len(fresh)
        return bool(fresh)

    def _sample(self, sample: Sample) -> None:
        self._counts["samples"] += 1
        newest = self._maker.newest
        if newest is None or sample.time > newest:
            self.clock.observe(sample.time)
        if sample.channel in _FOLLOWED and (newest is None or sample.time >= newest - MICROSECONDS):
            self.states[sample.channel] = sample.value
        if not self._maker.add(sample):
            self._counts["late"] += 1

    def _notice(self, notice: Notice) -> None:
        self._counts[_COUNTED.get(notice.kind, notice.kind)] += 1
        if notice.kind == "gap":
            self._maker.mask(notice.begin, notice.end)
        if notice.kind != "doubled":
            self.notices.appendleft(f"{datetime.now(UTC):%H:%M:%S} {notice.text}")

    def counters(self, dropped: int) -> Counters:
        """What happened since the start; `dropped` samples never came here."""
        names = (field.name for field in fields(Counters))
        counts = {name: self._counts[name] for name in names}
        return Counters(**counts | {"dropped": dropped, "skew": round(self.clock.skew, 3)})  # type: ignore[arg-type]
