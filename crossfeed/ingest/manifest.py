"""What a table was made of: counts, statistics, fingerprints, rules and versions, so that a reader can check it."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed import __version__
from crossfeed.atomic import file_hash, storage_error
from crossfeed.ingest.resample import CARRY_FORWARD_S, Resampling
from crossfeed.ingest.segment import Tally
from crossfeed.machines.declaration import LogFormat
from crossfeed.schema import Channel

_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


def fingerprint_file(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of one file."""
    try:
        return {"name": path.name, "bytes": path.stat().st_size, "sha256": file_hash(path)}
    except OSError as error:
        raise storage_error("Reading", path, error) from error


def statistics(values: np.ndarray) -> dict[str, Any]:
    """Count, null share, mean, standard deviation, extremes and quantiles of one channel."""
    known = values[np.isfinite(values)]
    summary: dict[str, Any] = {"count": len(known), "null_share": round(1.0 - len(known) / max(1, len(values)), 6)}
    if len(known):
        summary |= {
            "mean": float(known.mean()),
            "std": float(known.std()),
            "min": float(known.min()),
            "max": float(known.max()),
        }
        quantiles = np.quantile(known, _QUANTILES)
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
    import polars

    return {
        "kind": log_format.name,
        "machine": machine,
        "title": log_format.title,
        "licence": log_format.licence,
        "citation": log_format.citation,
        "versions": {"crossfeed": __version__, "polars": polars.__version__},
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
