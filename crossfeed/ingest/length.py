"""A table is as long as its log, not as its clock: a stamp that jumps must not become a billion empty rows."""

from datetime import UTC, datetime, timedelta

import polars as pl

from crossfeed.errors import LogError
from crossfeed.ingest.resample import Resampling
from crossfeed.ingest.segment import SESSION, UNTIL, Segments
from crossfeed.machines.declaration import CLOCK, MICROSECONDS, RawRun

# A run may have so many empty rows, or so many for each of its logged rows, whichever is more.
EMPTY_ROWS, EMPTY_ROWS_PER_ROW = 200_000, 20


def check_length(segments: Segments, resampling: Resampling, raw: RawRun) -> None:
    """Refuse a run whose sessions would have far more rows than were logged, before any row is made."""
    frame = segments.frame
    end = UNTIL if UNTIL in frame.columns else CLOCK
    spans = frame.group_by(SESSION, maintain_order=True).agg(
        pl.len().alias("rows"), ((pl.col(end).max() - pl.col(CLOCK).min()) // resampling.ticks + 1).alias("wanted")
    )
    wanted, logged = int(spans["wanted"].sum()), frame.height
    if wanted - logged <= max(EMPTY_ROWS, EMPTY_ROWS_PER_ROW * logged):
        return
    longest = spans.sort("wanted", descending=True)[SESSION][0]
    stamps = frame.filter(pl.col(SESSION) == longest)[CLOCK]
    steps = stamps.diff()
    at = steps.arg_max() or 0
    before, after = (_moment(int(stamps[max(0, row)])) for row in (at - 1, at))
    whose = f"The run '{raw.name}'" if raw.name is not None else "The log"
    raise LogError(
        f"{whose} has {logged:,} logged rows, but its clock would give it {wanted:,} "
        f"rows of {resampling.period:g} s; the widest step goes from {before} to {after}.",
        expected=f"at most {EMPTY_ROWS:,} empty rows in a run, or {EMPTY_ROWS_PER_ROW} for each logged one",
        remedy="Remove the rows with the wrong time, state a smaller gap_s in the segmentation so that a pause ends "
        "the session, or choose a longer period.",
    )


def _moment(clock: int) -> str:
    """A time as people write it, with its seconds where it is a count rather than a date."""
    seconds = clock / MICROSECONDS
    if seconds < 1e8:
        return f"{seconds:,.6g} s"
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")
