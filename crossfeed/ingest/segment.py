"""Cut the rows of a run into sessions, by the rules its kind of log declares; count everything that is left out."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from crossfeed.machines.clock import put_back_in_autumn
from crossfeed.machines.declaration import CLOCK, LABEL, MICROSECONDS, PROGRAM, LogFormat, RawRun

SESSION, UNTIL = "@@session", "@@until"
# Where no rule states a gap, a pause of so many usual steps ends a session: what happened in between is not known.
USUAL_STEPS_IN_A_GAP = 10
# No machine measures a number like this in any unit; sums of such numbers would be infinite.
BEYOND = 1e15


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
