"""Rows in schema units, cut into sessions by the rules of their kind of log, and resampled by one of two rules.

Everything that is left out on the way is counted. One rule is causal, the other that of the paper's authors.

`crossfeed`: the row labelled t describes the bin (t - period, t] and knows nothing later than t. Sensors are the mean
of the bin, commands its time-weighted mean. In a polled log a sample stands for the time since the sample before it, so
that commands stay aligned with the sensors sampled beside them; in a change-driven log a value stands for the time
until the next change. An empty bin carries the last sensor value forward for up to two seconds and is absent after
that; commands are set-points and hold until they change.

`paper`: the row labelled t describes [t, t + period); sensors are the mean of the bin, commands the last value in it.
Missing sensor values are interpolated between their neighbours however far those are and take the nearest one at the
ends of a session, missing commands hold and are filled backwards at its beginning. Such values know the future; they
are counted, and the audit names them.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import polars as pl

from crossfeed.errors import ConfigError
from crossfeed.logs.clock import put_back_in_autumn
from crossfeed.logs.declaration import CLOCK, LABEL, MICROSECONDS, PROGRAM, LogFormat, RawRun

SESSION, UNTIL = "@@session", "@@until"
# Where no rule states a gap, a pause of so many usual steps ends a session: what happened in between is not known.
USUAL_STEPS_IN_A_GAP = 10
# No machine measures a number like this in any unit; sums of such numbers would be infinite.
BEYOND = 1e15
# What rule `paper` fills with the help of later rows, as the counts call it.
AHEAD = {"sensor": "sensor values filled from later rows", "command": "command values filled from later rows"}
WAITING = "of them without "  # ... a command, in the counts of rows before the first known command
CARRY_FORWARD_S = 2.0
Rule = Literal["crossfeed", "paper"]
_BIN, _WEIGHT, _COUNT, _RUN_OF_ROWS = "@@bin", "@@weight", "@@count", "@@run_of_rows"
_KEYS = [SESSION, _BIN]
_Summary = Callable[[str], pl.Expr]


def to_schema_units(frame: pl.DataFrame, log_format: LogFormat) -> tuple[pl.DataFrame, dict[str, int]]:
    """Convert every channel; impossible values become null and are counted by reason."""
    repairs: dict[str, int] = {}
    converted: list[pl.Expr] = []
    flags: list[pl.Expr] = []
    for column in log_format.columns:
        value = pl.col(column.channel)
        infinite = value.is_infinite()
        flags.append(infinite.sum().alias(f"{column.channel}: infinite"))
        good = value.is_finite() & (value.abs() < BEYOND)
        flags.append((value.is_finite() & ~good).sum().alias(f"{column.channel}: {BEYOND:g} or more, no measurement"))
        if column.valid is not None:
            inside = value.is_between(*column.valid)
            low, high = column.valid
            flags.append((good & ~inside).sum().alias(f"{column.channel}: outside {low:g} to {high:g} {column.unit}"))
            good &= inside
        if column.absent_if_zero:
            measured = (value != 0.0).any()
            flags.append((good & ~measured).sum().alias(f"{column.channel}: zero throughout a run, not measured"))
            good &= measured
        scale, offset = log_format.conversion(column)
        converted.append(pl.when(good).then(value * scale + offset).alias(column.channel))
    counted = frame.lazy().select(flags).collect()
    for what in counted.columns:
        count = int(counted[what][0] or 0)
        if count:
            repairs[what] = count
    return frame.with_columns(converted), repairs


@dataclass(slots=True)
class Tally:
    """Everything counted on the way from raw rows to the table."""

    rows_read: int = 0
    duplicates: int = 0
    kept_rows: int = 0
    rows: int = 0
    sessions: int = 0
    runs: int = 0
    dropped_rows: Counter[str] = field(default_factory=Counter)
    dropped_sessions: Counter[str] = field(default_factory=Counter)
    resampling: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)


class Segments(NamedTuple):
    """Rows in time order with the number of their session, and the sessions' names."""

    frame: pl.DataFrame
    sessions: pl.DataFrame


def segment(raw: RawRun, log_format: LogFormat, period: float, tally: Tally) -> Segments:
    """Sort by clock, drop duplicates, keep what the rules keep, and number the sessions of rows `period` apart."""
    rules, repairs, dropped = log_format.segmentation, tally.repairs, tally.dropped_rows
    frame = raw.frame
    untimed = frame[CLOCK].null_count()
    if untimed:
        dropped["no readable time"] += untimed
        frame = frame.filter(pl.col(CLOCK).is_not_null())
    backwards = int((frame[CLOCK].diff() < 0).sum())
    if backwards:
        repairs["clock ran backwards, rows sorted by time"] += backwards
        if log_format.local_time and (autumn := int(put_back_in_autumn(frame[CLOCK]).sum())):
            repairs["clock put back as when summer time ends: name its time zone in the mapping"] += autumn
        frame = frame.sort(CLOCK, maintain_order=True)
    again = (frame[CLOCK].diff() == 0).fill_null(False)
    tally.duplicates += int(again.sum())
    frame = frame.filter(~again)
    if log_format.change_driven:
        # What was in force at a change stays so until the next one; the last change has no end.
        frame = frame.with_columns(pl.col(CLOCK).shift(-1).alias(UNTIL)).head(-1)
    for name, value in rules.keep.items():
        kept = frame.filter(pl.col(f"@{name}") == value)
        dropped[f"{name} is not {value:g}" if isinstance(value, float) else f"{name} is not {value}"] += (
            frame.height - kept.height
        )
        frame = kept
    for name in rules.drop_programs:
        kept = frame.filter(pl.col(PROGRAM) != name)
        dropped[f"program {name or 'unknown'}"] += frame.height - kept.height
        frame = kept
    gap_s = _usual_gap(frame, period) if rules.gap_s is None and not log_format.change_driven else rules.gap_s
    if rules.gap_s is None and gap_s is not None and (frame[CLOCK].diff() > round(gap_s * MICROSECONDS)).any():
        tally.findings[f"no gap_s is stated, so a session ends at a pause of more than {gap_s:g} s"] += 1
    return _number(frame, raw.name, log_format, gap_s, tally)


def _usual_gap(frame: pl.DataFrame, period: float) -> float:
    """Ten times the usual step of the clock, or of the table where that is longer."""
    step = frame[CLOCK].diff().median()
    usual = float(step) / MICROSECONDS if isinstance(step, int | float) else 0.0
    return USUAL_STEPS_IN_A_GAP * max(period, usual)


def _number(frame: pl.DataFrame, run: str | None, log_format: LogFormat, gap_s: float | None, tally: Tally) -> Segments:
    """Number the sessions, name them, and leave out the short ones."""
    rules = log_format.segmentation
    since = pl.col(CLOCK) - (pl.col(UNTIL) if log_format.change_driven else pl.col(CLOCK)).shift(1)
    begins = pl.lit(False)
    for name in rules.boundaries:
        begins |= pl.col(f"@{name}").ne_missing(pl.col(f"@{name}").shift(1))
    if gap_s is not None:
        begins |= since > round(gap_s * MICROSECONDS)
    if LABEL in frame.columns:
        begins |= pl.col(LABEL).ne_missing(pl.col(LABEL).shift(1))
    frame = frame.with_columns(begins.fill_null(True).cum_sum().alias(SESSION))
    if rules.longest_s is not None:
        frame = _cut(frame, round(rules.longest_s * MICROSECONDS))
    last = pl.col(UNTIL) if log_format.change_driven else pl.col(CLOCK)
    sessions = (
        frame.group_by(SESSION, maintain_order=True)
        .agg(
            pl.len().alias("rows"),
            ((last.max() - pl.col(CLOCK).min()) / MICROSECONDS).alias("seconds"),
            pl.col(CLOCK).first().alias("begin"),
            pl.col(PROGRAM).first().alias("program"),
            *([pl.col(LABEL).first()] if LABEL in frame.columns else []),
        )
        .with_columns(_names(run, LABEL in frame.columns))
    )
    short = (pl.col("rows") < rules.min_rows) | (pl.col("seconds") < rules.min_s)
    gone = sessions.filter(short)
    if gone.height:
        limits = [f"{rules.min_rows} rows"] if rules.min_rows > 1 else []
        limits += [f"{rules.min_s:g} s"] if rules.min_s else []
        why = f"shorter than {' or '.join(limits)}"
        tally.dropped_sessions[why] += gone.height
        tally.dropped_rows[f"session {why}"] += int(gone["rows"].sum())
        frame = frame.join(gone, on=SESSION, how="anti", maintain_order="left")
    # One piece of memory for each column: sums then do not depend on how the file was read.
    return Segments(frame.rechunk(), sessions.filter(~short))


def _cut(frame: pl.DataFrame, longest: int) -> pl.DataFrame:
    """Cut sessions that are longer into equal pieces."""
    since = pl.col(CLOCK) - pl.col(CLOCK).min().over(SESSION)
    length = since.max().over(SESSION) + 1
    piece = since * ((length + longest - 1) // longest) // length
    return frame.with_columns(pl.struct(SESSION, piece.alias("@@piece")).rle_id().alias(SESSION))


def _names(run: str | None, labelled: bool) -> list[pl.Expr]:
    """Run and session names: the run's own or the day on which the session began; a label or a running number."""
    day = pl.from_epoch("begin", time_unit="us").dt.strftime("%Y-%m-%d")
    of_run = pl.lit(run) if run is not None else day
    if labelled:
        # Labels may repeat in other runs, and a label may come back after another one.
        again = pl.int_range(pl.len()).over(LABEL)
        own = pl.when(pl.col(LABEL) == of_run).then(pl.col(LABEL)).otherwise(pl.format("{}-{}", of_run, LABEL))
        name = pl.when(again == 0).then(own).otherwise(pl.format("{}-{}", own, again + 1))
    else:
        number = pl.int_range(1, pl.len() + 1).over(of_run)
        name = pl.format("{}-{}", of_run, number.cast(pl.String).str.zfill(3))
    return [of_run.alias("run"), name.alias("session")]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How to resample: which channels are what, how long a bin is, which rule the commands follow."""

    sensors: Sequence[str]
    commands: Sequence[str]
    period: float
    rule: Rule = "crossfeed"
    change_driven: bool = False
    deviation: bool = False

    def __post_init__(self) -> None:
        positive = math.isfinite(self.period) and self.period > 0
        if not positive or not math.isclose(self.period * MICROSECONDS, self.ticks, rel_tol=1e-6):
            raise ConfigError(
                f"A period of {self.period} s cannot be used.",
                expected="a positive number of seconds that is a whole number of microseconds",
            )

    @property
    def ticks(self) -> int:
        """The period in microseconds."""
        return round(self.period * MICROSECONDS)

    def apply(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
        """Rows at the wanted period, gaps included, of sessions in time order; what was carried forward or dropped."""
        return self._complete(self._changes(frame) if self.change_driven else self._samples(frame))

    def _bin_of(self, clock: pl.Expr) -> pl.Expr:
        """The number of the bin in which a time lies, counted by the end of the bin.

        Rule `crossfeed`: the boundary belongs to the bin that ends there; `paper`: to the one that begins there.
        """
        return clock // self.ticks + 1 if self.rule == "paper" else -((-clock) // self.ticks)

    def _samples(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Weigh every sample with the time since the one before it, as far as that lies in the same bin."""
        same = pl.col(SESSION) == pl.col(SESSION).shift(1)
        since = pl.when(same).then(pl.col(CLOCK) - pl.col(CLOCK).shift(1)).otherwise(0)
        inside = pl.col(CLOCK) - (pl.col(_BIN) - 1) * self.ticks
        samples = frame.lazy().with_columns(self._bin_of(pl.col(CLOCK)).alias(_BIN))
        samples = samples.with_columns(pl.min_horizontal(since, inside).alias(_WEIGHT))
        return self._per_bin(samples, _mean, _deviation)

    def _changes(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Cut every interval between changes at the bin edges it spans, then average over time."""
        first, last = pl.col(CLOCK) // self.ticks + 1, -((-pl.col(UNTIL)) // self.ticks)
        pieces = frame.lazy().with_columns(pl.int_ranges(first, last + 1).alias(_BIN)).explode(_BIN)
        begin = pl.max_horizontal(pl.col(CLOCK), (pl.col(_BIN) - 1) * self.ticks)
        end = pl.min_horizontal(pl.col(UNTIL), pl.col(_BIN) * self.ticks)
        pieces = pieces.with_columns((end - begin).alias(_WEIGHT))
        return self._per_bin(pieces, _weighted_mean, _weighted_deviation)

    def _per_bin(self, rows: pl.LazyFrame, mean: _Summary, deviation: _Summary) -> pl.DataFrame:
        """One row for every bin that holds anything; rows come in order, so bins are runs of equal numbers."""
        last = [pl.col(name).drop_nulls().last() for name in self.commands]
        commands = last if self.rule == "paper" else [_weighted_mean(name) for name in self.commands]
        sensors = [mean(name) for name in self.sensors]
        spread = [deviation(name) for name in self.sensors] if self.deviation else []
        firsts = [pl.col(name).first() for name in _KEYS]
        numbered = rows.with_columns(pl.struct(_KEYS).rle_id().set_sorted().alias(_RUN_OF_ROWS))
        grouped = numbered.group_by(_RUN_OF_ROWS, maintain_order=True)
        counted = pl.len().alias(_COUNT)
        return grouped.agg(*firsts, counted, *sensors, *commands, *spread).drop(_RUN_OF_ROWS).collect()

    def _complete(self, binned: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
        """Give every bin of a session a row, fill values by the rule, drop rows before the first known command."""
        grid = (
            binned.lazy()
            .group_by(SESSION, maintain_order=True)
            .agg(pl.int_range(pl.col(_BIN).min(), pl.col(_BIN).max() + 1).alias(_BIN))
            .explode(_BIN)
        )
        rows = grid.join(binned.lazy(), on=_KEYS, how="left", maintain_order="left").collect()
        counts: Counter[str] = Counter({"empty bins": int(rows[_COUNT].null_count())})
        for what, names, fill in self._fills():
            filled = rows.with_columns(fill(pl.col(name)).over(SESSION) for name in names)
            counts[what] = _nulls(rows, names) - _nulls(filled, names)
            rows = filled
        known = rows.filter(pl.all_horizontal(pl.col(name).is_not_null() for name in self.commands))
        counts["rows before the first known command, dropped"] = rows.height - known.height
        waiting = {name: rows[name].null_count() for name in self.commands}
        counts.update({f"{WAITING}{name}": rows for name, rows in waiting.items() if rows})
        label = pl.col(_BIN) - 1 if self.rule == "paper" else pl.col(_BIN)
        return known.with_columns((label * self.ticks / MICROSECONDS).alias("time")).drop(_BIN, _COUNT), counts

    def _fills(self) -> list[tuple[str, Sequence[str], Callable[[pl.Expr], pl.Expr]]]:
        """What fills missing values, one step after the other: the count it is told under, the channels, how."""
        held = ("command values carried forward", self.commands, pl.Expr.forward_fill)
        if self.rule == "paper":
            return [
                (AHEAD["sensor"], self.sensors, lambda values: values.interpolate().backward_fill()),
                ("sensor values carried forward", self.sensors, pl.Expr.forward_fill),
                held,
                (AHEAD["command"], self.commands, pl.Expr.backward_fill),
            ]
        limit = int(CARRY_FORWARD_S * MICROSECONDS) // self.ticks
        carry: Callable[[pl.Expr], pl.Expr] = lambda values: values.forward_fill(limit=limit) if limit else values  # noqa: E731
        return [("sensor values carried forward", self.sensors, carry), held]


def values_ahead(manifest: Mapping[str, Any]) -> int:
    """How many values of a table with this manifest were filled from later rows."""
    counts = manifest.get("counts", {})
    return sum(int(counts.get(what.replace(" ", "_"), 0)) for what in AHEAD.values())


def _nulls(frame: pl.DataFrame, names: Sequence[str]) -> int:
    return sum(frame[name].null_count() for name in names)


def _mean(name: str) -> pl.Expr:
    return pl.col(name).mean()


def _weighted_mean(name: str) -> pl.Expr:
    """Mean weighted by time; where no time has passed yet (the first sample of a session), the plain mean."""
    value, known = pl.col(name), pl.col(name).is_not_null() * pl.col(_WEIGHT)
    total = known.sum()
    return pl.when(total > 0).then((value * pl.col(_WEIGHT)).sum() / total).otherwise(value.mean()).alias(name)


def _deviation(name: str) -> pl.Expr:
    """Standard deviation inside the bin; one sample says nothing about it."""
    return pl.when(pl.col(name).count() > 1).then(pl.col(name).std(ddof=0)).alias(f"{name}__std")


def _weighted_deviation(name: str) -> pl.Expr:
    value, weight = pl.col(name), pl.col(name).is_not_null() * pl.col(_WEIGHT)
    mean = (value * weight).sum() / weight.sum()
    variance = ((value - mean) ** 2 * weight).sum() / weight.sum()
    return pl.when(value.count() > 1).then(variance.clip(0.0).sqrt()).alias(f"{name}__std")
