"""Manifests and kinds of log in words and tables, for the terminal."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from crossfeed.ingest.table import Table
from crossfeed.machines.declaration import LogKind


def print_summary(manifest: dict[str, Any], console: Console) -> None:
    """Print what came in, what was kept, what was repaired, and the channels with units and ranges."""
    counts = manifest["counts"]
    console.print(f"[bold]{manifest['machine']}[/] ({manifest['kind']}), licence {manifest['licence']}")
    doubled = counts["duplicates_dropped"]
    console.print(
        (f"{counts['rows_read']:,} rows read, {doubled:,} of them twice -> " if doubled else "")
        + f"{counts['raw_rows']:,} raw rows -> {counts['kept_rows']:,} kept rows -> {counts['rows']:,} rows of "
        f"{manifest['rules']['period_s']:g} s; {counts['sessions']} sessions in {counts['runs']} runs; "
        f"rule {manifest['rules']['rule']}"
    )
    for title, entries in (
        ("dropped rows", counts["dropped_rows"]),
        ("dropped sessions", counts["dropped_sessions"]),
        ("repairs", manifest["repairs"]),
    ):
        for what, count in entries.items():
            console.print(f"  {title}: {count:,} {what}", markup=False)
    if counts["empty_bins"] or counts["sensor_values_carried_forward"]:
        console.print(
            f"  gaps: {counts['empty_bins']:,} empty bins, {counts['sensor_values_carried_forward']:,} sensor values "
            f"carried forward (at most {manifest['rules']['carry_forward_s']:g} s)"
        )
    for finding in manifest["findings"]:
        console.print(f"  [yellow]note[/]: {finding}")
    console.print(_channels(manifest["channels"]))


def _channels(channels: dict[str, Any]) -> Grid:
    grid = Grid(box=None, header_style="bold", padding=(0, 1))
    for name in ("channel", "role", "unit"):
        grid.add_column(name, no_wrap=True)
    for name in ("absent", "min", "median", "max"):
        grid.add_column(name, justify="right", no_wrap=True)
    for name, entry in channels.items():
        if entry["count"]:
            numbers = [entry["min"], entry["quantiles"]["0.5"], entry["max"]]
            cells = [f"{entry['null_share']:.1%}", *(f"{value:.3g}" for value in numbers)]
        else:
            cells = ["100.0%", *("-",) * 3]
        grid.add_row(name, entry["role"], entry["unit"], *cells)
    return grid


def print_table(path: Path, console: Console) -> None:
    """Print the manifest of a table, or for a foreign table what can be said about it."""
    table = Table.read(path)
    if "counts" in table.manifest:
        print_summary(table.manifest, console)
        return
    console.print(
        f"{path} was not made by crossfeed: {len(table):,} rows of {table.period:g} s in {len(table.groups)} groups, "
        f"{int(table.present().sum())} of {len(table.schema.sensors)} sensors of the schema '{table.schema.name}'"
    )


def print_licence(kind: LogKind, console: Console) -> None:
    """Print under which terms a data set may be used and whom to cite."""
    console.print(f"[bold]{kind.title}[/]\nlicence: {kind.licence}\ncite: {kind.citation}\nhome: {kind.homepage}")
    if kind.non_commercial:
        console.print("[bold red]Not for commercial use.[/]")


def print_kind(kind: LogKind, console: Console) -> None:
    """Print what a kind of log declares: columns with the factors derived from their units, and the rules."""
    print_licence(kind, console)
    if kind.notes:
        console.print(f"note: {kind.notes}")
    rules = {name: value for name, value in asdict(kind.segmentation).items() if value not in (None, (), {}, 0.0, 1)}
    console.print(f"rows every {kind.period:g} s; sessions: {rules or 'one for each run'}", markup=False)
    grid = Grid("native column", "unit", "channel", "unit", "factor", "valid", box=None, header_style="bold")
    for column in kind.columns:
        scale, offset = kind.conversion(column)
        factor = f"{scale:g}" + (f" {offset:+g}" if offset else "")
        valid = f"{column.valid[0]:g} to {column.valid[1]:g}" if column.valid else ""
        grid.add_row(
            column.native, column.unit, column.channel, kind.schema.channel(column.channel).unit, factor, valid
        )
    console.print(grid)
