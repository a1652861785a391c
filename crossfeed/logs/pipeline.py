"""The way from logs to a table: read, convert units, cut into sessions, resample, count.

The manifest of a table has counts, statistics, fingerprints, rules and versions, so that a reader can check it.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from crossfeed.errors import LogError
from crossfeed.files import __version__, file_hash, storage_error
from crossfeed.logs.declaration import CLOCK, MICROSECONDS, LogFormat, RawRun
from crossfeed.logs.files import UNPACKED_BYTES, unpacked
from crossfeed.logs.resample import (
    CARRY_FORWARD_S,
    SESSION,
    UNTIL,
    Resampling,
    Rule,
    Segments,
    Tally,
    segment,
    to_schema_units,
)
from crossfeed.logs.table import Group, Table
from crossfeed.progress import progress
from crossfeed.schema import Channel

_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
# A run may have so many empty rows, or so many for each of its logged rows, whichever is more.
EMPTY_ROWS, EMPTY_ROWS_PER_ROW = 200_000, 20


def fingerprint_file(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of one file."""
    try:
        return {"name": path.name, "bytes": path.stat().st_size, "sha256": file_hash(path)}
    except OSError as error:
        raise storage_error("Reading", path, error) from error


def statistics(values: np.ndarray) -> dict[str, Any]:
    """Count, null share, mean, standard deviation, extremes and quantiles of one channel."""
    measured = values[np.isfinite(values)]
    summary: dict[str, Any] = {
        "count": len(measured),
        "null_share": round(1.0 - len(measured) / max(1, len(values)), 6),
    }
    if len(measured):
        summary |= {
            "mean": float(measured.mean()),
            "std": float(measured.std()),
            "min": float(measured.min()),
            "max": float(measured.max()),
        }
        quantiles = np.quantile(measured, _QUANTILES)
        summary["quantiles"] = {f"{level:g}": float(value) for level, value in zip(_QUANTILES, quantiles, strict=True)}
    return summary


def build_manifest(
    log_format: LogFormat,
    machine: str,
    resampling: Resampling,
    tally: Tally,
    files: Sequence[dict[str, Any]],
    values: dict[str, np.ndarray],
) -> dict[str, Any]:
    """The manifest as plain JSON values; the same logs and rules give the same manifest."""
    return {
        "kind": log_format.name,
        "machine": machine,
        "title": log_format.title,
        "licence": log_format.licence,
        "citation": log_format.citation,
        "versions": {"crossfeed": __version__, "polars": pl.__version__},
        "files": sorted(files, key=lambda file: str(file["name"])),
        "rules": _rules(log_format, resampling),
        "counts": {
            "rows_read": tally.rows_read,
            "duplicates_dropped": tally.duplicates,
            "raw_rows": tally.rows_read - tally.duplicates,
            "kept_rows": tally.kept_rows,
            "rows": tally.rows,
            "sessions": tally.sessions,
            "runs": tally.runs,
            "dropped_rows": dict(+tally.dropped_rows),
            "dropped_sessions": dict(tally.dropped_sessions),
            **{what.replace(",", "").replace(" ", "_"): count for what, count in tally.resampling.items()},
        },
        "repairs": dict(tally.repairs),
        "findings": [f"{text} ({count} times)" if count > 1 else text for text, count in tally.findings.items()],
        "schema_fingerprint": log_format.schema.fingerprint,
        "channels": {
            channel.name: _origin(channel, log_format) | statistics(values[channel.name])
            for channel in log_format.schema.channels
        },
    }


def _rules(log_format: LogFormat, resampling: Resampling) -> dict[str, Any]:
    """How samples became rows."""
    weights = "the time until the next change" if log_format.change_driven else "the time since the sample before"
    paper = resampling.rule == "paper"
    return {
        "rule": resampling.rule,
        "period_s": resampling.period,
        "bin": "[t, t + period), labelled t" if paper else "(t - period, t], labelled t",
        "sensor": f"mean weighted by {weights}" if log_format.change_driven else "mean of the samples in the bin",
        "command": "last value in the bin" if paper else f"mean weighted by {weights}",
        "missing": "interpolated from both sides without limit" if paper else "carried forward, then absent",
        "carry_forward_s": None if paper else CARRY_FORWARD_S,
        "segmentation": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(log_format.segmentation).items()
        },
    }


def _origin(channel: Channel, log_format: LogFormat) -> dict[str, Any]:
    """What a channel is, and which column it comes from, if any does."""
    role = "command" if channel.name in log_format.schema.command_names else "sensor"
    entry: dict[str, Any] = {"role": role, "quantity": channel.quantity, "unit": channel.unit}
    column = next((column for column in log_format.columns if column.channel == channel.name), None)
    if column is not None:
        scale, offset = log_format.conversion(column)
        source = {"native": column.native} if column.constant is None else {"constant": column.constant}
        entry |= {**source, "native_unit": column.unit, "scale": scale, "offset": offset}
        if column.valid:
            entry["valid_native"] = list(column.valid)
    return entry


def ingest(
    log_format: LogFormat,
    path: Path | str,
    *,
    rule: Rule = "crossfeed",
    period: float | None = None,
    deviation: bool = False,
    machine: str | None = None,
    unpack_limit: float = UNPACKED_BYTES,
) -> Table:
    """Turn the logs at a path into one canonical table with its manifest; archives may become `unpack_limit` bytes."""
    path = Path(path)
    tally = Tally()
    prints: list[Future[dict[str, Any]]] = []
    pieces: list[pl.DataFrame] = []
    with (
        unpacked(path, unpack_limit) as (root, archive),
        ThreadPoolExecutor(max_workers=1) as pool,
        progress(f"ingest {log_format.name}") as task,
    ):
        if archive is not None:
            prints.append(pool.submit(fingerprint_file, archive))
        if log_format.prepare is not None:
            log_format = log_format.prepare(log_format, root)
        measured = {column.channel for column in log_format.columns}
        resampling = Resampling(
            sensors=[name for name in log_format.schema.sensor_names if name in measured],
            commands=list(log_format.schema.command_names),
            period=log_format.period if period is None else period,
            rule=rule,
            change_driven=log_format.change_driven,
            deviation=deviation,
        )
        for raw in log_format.read(log_format, root):
            if archive is None:
                prints += [pool.submit(fingerprint_file, file) for file in raw.files]
            pieces.append(_one_run(raw, log_format, resampling, tally))
            task.advance(note=f"{tally.rows_read:,} rows")
        files = [future.result() for future in prints]
    rows = pl.concat(pieces) if pieces else pl.DataFrame()
    if rows.is_empty():
        dropped = (("rows", tally.dropped_rows), ("sessions", tally.dropped_sessions))
        told = [f"{count:,} {what}: {why}" for what, counts in dropped for why, count in (+counts).items()]
        reasons = "; ".join([*told, *tally.findings])
        raise LogError(
            f"No row of {path} is left after segmentation" + (f" ({reasons})." if reasons else "."),
            expected="at least one session that the rules keep",
            remedy="Check that the logs are of this kind, and the segmentation rules if they are yours.",
        )
    tally.rows = rows.height
    return _table(rows, log_format, machine or log_format.machine, resampling, tally, files)


def _one_run(raw: RawRun, log_format: LogFormat, resampling: Resampling, tally: Tally) -> pl.DataFrame:
    """Everything that happens to one run; the raw rows are let go afterwards."""
    tally.rows_read += raw.rows_read
    tally.repairs.update(raw.repairs)
    tally.findings.update(raw.findings)
    frame, repairs = to_schema_units(raw.frame, log_format)
    tally.repairs.update(repairs)
    segments = segment(replace(raw, frame=frame), log_format, resampling.period, tally)
    tally.kept_rows += segments.frame.height
    _check_length(segments, resampling, raw)
    resampled, counts = resampling.apply(segments.frame)
    tally.resampling.update(counts)
    names = segments.sessions.select(SESSION, "session", "run", "program")
    rows = resampled.join(names, on=SESSION, how="left", maintain_order="left").drop(SESSION)
    left = rows.n_unique("session")
    if left < segments.sessions.height:
        tally.dropped_sessions["no command known in the whole session"] += segments.sessions.height - left
    tally.sessions += left
    tally.runs += rows.n_unique("run")
    return rows


def _check_length(segments: Segments, resampling: Resampling, raw: RawRun) -> None:
    """Refuse a run whose sessions would have far more rows than were logged, before any row is made."""
    frame = segments.frame
    end = UNTIL if UNTIL in frame.columns else CLOCK
    spans = frame.group_by(SESSION, maintain_order=True).agg(
        ((pl.col(end).max() - pl.col(CLOCK).min()) // resampling.ticks + 1).alias("wanted")
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


def _table(
    rows: pl.DataFrame,
    log_format: LogFormat,
    machine: str,
    resampling: Resampling,
    tally: Tally,
    files: list[dict[str, Any]],
) -> Table:
    absent = np.full(rows.height, np.nan)
    values = {
        name: rows[name].to_numpy() if name in rows.columns else absent
        for name in (*log_format.schema.sensor_names, *log_format.schema.command_names)
    }
    starts = rows.select(pl.struct("session", "run").rle_id().alias("id")).with_row_index().group_by("id").first()
    begins = starts["index"].sort().to_list()
    groups = tuple(
        Group(machine, rows["session"][begin], rows["run"][begin], rows["program"][begin], begin, end)
        for begin, end in zip(begins, [*begins[1:], rows.height], strict=True)
    )
    return Table(
        schema=log_format.schema,
        groups=groups,
        time=rows["time"].to_numpy(),
        sensors=np.column_stack([values[name] for name in log_format.schema.sensor_names]),
        commands=np.column_stack([values[name] for name in log_format.schema.command_names]),
        period=resampling.period,
        manifest=build_manifest(log_format, machine, resampling, tally, files, values),
        extras={name: rows[name].to_numpy() for name in rows.columns if name.endswith("__std")},
    )
