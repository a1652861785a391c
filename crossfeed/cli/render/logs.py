"""Manifests, kinds of log and simulated logs on a terminal."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from crossfeed.cli.render.grid import MISSING, grid, print_table, short
from crossfeed.grid import plural
from crossfeed.ingest.resample import WAITING, values_ahead
from crossfeed.ingest.table import Table
from crossfeed.machines.declaration import LogFormat
from crossfeed.machines.simulated.log_files import LogSummary
from crossfeed.progress import output


def show_manifest(manifest: dict[str, Any], written: Path | None = None) -> None:
    """Print what came in, what was kept, what was repaired, and the channels with units and ranges."""
    console, counts = output(), manifest["counts"]
    console.print(f"[bold]{manifest['machine']}[/] ({manifest['kind']}), licence {manifest['licence']}")
    doubled = counts["duplicates_dropped"]
    console.print(
        (f"{plural(counts['rows_read'], 'row')} read, {doubled:,} of them twice -> " if doubled else "")
        + f"{plural(counts['raw_rows'], 'raw row')} -> {plural(counts['kept_rows'], 'kept row')} -> "
        f"{plural(counts['rows'], 'row')} of {manifest['rules']['period_s']:g} s; "
        f"{plural(counts['sessions'], 'session')} in {plural(counts['runs'], 'run')}; rule {manifest['rules']['rule']}"
    )
    for noun, entries in (("row", counts["dropped_rows"]), ("session", counts["dropped_sessions"])):
        for why, count in entries.items():
            console.print(f"  {plural(count, noun)} dropped: {why}", markup=False)
    for what, count in manifest["repairs"].items():
        console.print(f"  repaired {'once' if count == 1 else f'{count:,} times'}: {what}", markup=False)
    if early := counts.get("rows_before_the_first_known_command_dropped"):
        beginning = WAITING.replace(" ", "_")
        waiting = {what.removeprefix(beginning): rows for what, rows in counts.items() if what.startswith(beginning)}
        late = ", ".join(f"{name} in {rows:,}" for name, rows in waiting.items())
        console.print(f"  {plural(early, 'row')} dropped: some command was not known yet: no {late}", markup=False)
        if early > counts["rows"] / 10:
            console.print("  [yellow]note[/]: a command that is told late is better left out of the mapping")
    carried, limit = counts["sensor_values_carried_forward"], manifest["rules"]["carry_forward_s"]
    if counts["empty_bins"] or carried:
        console.print(
            f"  gaps: {plural(counts['empty_bins'], 'empty bin')}, {plural(carried, 'sensor value')} "
            f"carried forward ({'without limit' if limit is None else f'at most {limit:g} s'})"
        )
    if ahead := values_ahead(manifest):
        console.print(f"  [yellow]note[/]: {plural(ahead, 'value')} filled from later rows, which the audit names")
    for finding in manifest["findings"]:
        console.print(f"  [yellow]note[/]: {finding}")
    console.print(_channels(manifest["channels"]))
    absent = [name for name, entry in manifest["channels"].items() if not entry["count"]]
    if absent:
        console.print(f"not measured: {', '.join(absent)}", markup=False)
    if written is not None:
        console.print(f"wrote {written}", markup=False)


def _channels(channels: dict[str, Any]) -> Grid:
    table = grid("", ["channel", "role", "unit", "absent", "min", "median", "max"], words=3, boxed=False)
    for name, entry in channels.items():
        if entry["count"]:
            numbers = [entry["min"], entry["quantiles"]["0.5"], entry["max"]]
            table.add_row(name, entry["role"], entry["unit"], f"{entry['null_share']:.1%}", *map(short, numbers))
    return table


def show_table(path: Path) -> None:
    """Print the manifest of a table, or for a foreign table what can be said about it."""
    table = Table.read(path)
    if "counts" in table.manifest:
        show_manifest(table.manifest)
        return
    groups, sensors = plural(len(table.groups), "group"), f"{int(table.present().sum())} of {len(table.schema.sensors)}"
    output().print(
        f"{path} was not made by crossfeed: {plural(len(table), 'row')} of {table.period:g} s in {groups}, {sensors} "
        f"sensors of the schema '{table.schema.name}'"
    )


def show_log_formats(log_formats: Sequence[LogFormat]) -> None:
    """Print every kind of log that is known, and the one that a mapping describes."""
    rows = [
        (log.name, log.title, f"{len(log.schema.sensors)} + {len(log.schema.commands)}", log.licence,
         "yes" if log.downloads else "by hand")
        for log in log_formats
    ]  # fmt: skip
    rows.append(("table", "any CSV or Parquet, described by a mapping", "yours", "yours", MISSING))
    print_table("", ["kind", "what", "channels", "licence", "fetch"], rows, words=5)


def show_licence(log: LogFormat, console: Console) -> None:
    """Print under which terms a data set may be used and whom to cite."""
    console.print(f"[bold]{log.title}[/]\nlicence: {log.licence}\ncite: {log.citation}\nhome: {log.homepage}")
    if log.non_commercial:
        console.print("[bold red]Not for commercial use.[/]")


def show_log_format(log: LogFormat) -> None:
    """Print what a kind of log declares: columns with the factors derived from their units, and the rules."""
    console = output()
    show_licence(log, console)
    if log.notes:
        console.print(f"note: {log.notes}")
    rules = {name: value for name, value in asdict(log.segmentation).items() if value not in (None, (), {}, 0.0, 1)}
    console.print(f"rows every {log.period:g} s; sessions: {rules or 'one for each run'}", markup=False)
    rows = []
    for column in log.columns:
        scale, offset = log.conversion(column)
        factor = f"{scale:g}" + (f" {offset:+g}" if offset else "")
        valid = f"{column.valid[0]:g} to {column.valid[1]:g}" if column.valid else ""
        unit = log.schema.channel(column.channel).unit
        rows.append([column.native, column.unit, column.channel, unit, factor, valid])
    print_table("", ["native column", "unit", "channel", "unit", "factor", "valid"], rows, words=6)


def show_simulated(summaries: Sequence[LogSummary]) -> None:
    """Print what the simulator wrote; the ranges of the channels while there are few machines."""
    console = output()
    table = grid("", ["machine", "files", "rows written", "rows kept", "sessions", "machine time"])
    for summary in summaries:
        counts = (len(summary.files), summary.raw_rows, summary.rows, summary.sessions)
        table.add_row(summary.machine, *(f"{count:,}" for count in counts), f"{summary.seconds:,.0f} s")
    console.print(table)
    few = len(summaries) <= 2
    if few:
        console.print(_ranges(summaries))
    for summary in summaries:
        for remark in summary.remarks:
            console.print(f"note: {escape(remark)}")
        if few:
            console.print("\n".join(f"wrote {escape(str(path))}" for path in summary.files))


def _ranges(summaries: Sequence[LogSummary]) -> Grid:
    """Lowest and highest value of every channel, a column per machine."""
    machines = [f"{summary.machine}, lowest to highest" for summary in summaries]
    table = grid("", ["channel", "unit", *machines], words=2 + len(machines))
    spans = [{row[0]: row for row in summary.ranges.rows()} for summary in summaries]
    for name in dict.fromkeys(name for span in spans for name in span):
        unit = next(span[name][1] for span in spans if name in span)
        shown = (f"{span[name][2]:,.2f} to {span[name][3]:,.2f}" if name in span else "not logged" for span in spans)
        table.add_row(name, unit, *shown)
    return table
