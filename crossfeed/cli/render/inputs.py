"""Logs, tables, windows, programs, fleets and model files on a terminal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from crossfeed.cli.render.printing import note, print_table, say, show
from crossfeed.progress import output
from crossfeed.show.tables import MISSING, Column, ResultTable, columns, plain_table, plural, significant

if TYPE_CHECKING:
    from crossfeed.logs.declaration import LogFormat
    from crossfeed.sim.factory.compare import FleetComparison
    from crossfeed.sim.factory.describe import Match
    from crossfeed.sim.factory.shards import ShardSummary
    from crossfeed.sim.log_files import LogSummary
    from crossfeed.windows.split import Split
    from crossfeed.windows.split_tables import PartCount

LOST = {"groups_too_short": "groups too short", "lost_to_commands": "miss a command", "lost_to_gaps": "over a gap"}
SHOWN_FINDINGS = 20


def _short(value: float | None) -> str:
    """Three digits that matter, for quantities of any size in their own unit."""
    return MISSING if value is None else significant(value)


def show_manifest(manifest: dict[str, Any], written: Path | None = None) -> None:
    """Print what came in, what was kept, what was repaired, and the channels with units and ranges."""
    from crossfeed.logs.resample import WAITING, values_ahead

    counts, rules = manifest["counts"], manifest["rules"]
    say(f"{manifest['machine']} ({manifest['kind']}), licence {manifest['licence']}")
    doubled = counts["duplicates_dropped"]
    say(
        (f"{plural(counts['rows_read'], 'row')} read, {doubled:,} of them twice -> " if doubled else "")
        + f"{plural(counts['raw_rows'], 'raw row')} -> {plural(counts['kept_rows'], 'kept row')} -> "
        f"{plural(counts['rows'], 'row')} of {rules['period_s']:g} s; "
        f"{plural(counts['sessions'], 'session')} in {plural(counts['runs'], 'run')}; rule {rules['rule']}"
    )
    for noun, entries in (("row", counts["dropped_rows"]), ("session", counts["dropped_sessions"])):
        say(*(f"  {plural(count, noun)} dropped: {why}" for why, count in entries.items()))
    for what, count in manifest["repairs"].items():
        say(f"  repaired {'once' if count == 1 else f'{count:,} times'}: {what}")
    if early := counts.get("rows_before_the_first_known_command_dropped"):
        beginning = WAITING.replace(" ", "_")
        waiting = {what.removeprefix(beginning): rows for what, rows in counts.items() if what.startswith(beginning)}
        late = ", ".join(f"{name} in {rows:,}" for name, rows in waiting.items())
        say(f"  {plural(early, 'row')} dropped: some command was not known yet: no {late}")
        if early > counts["rows"] / 10:
            note("a command that is told late is better left out of the mapping")
    carried, limit = counts["sensor_values_carried_forward"], rules["carry_forward_s"]
    if counts["empty_bins"] or carried:
        say(
            f"  gaps: {plural(counts['empty_bins'], 'empty bin')}, {plural(carried, 'sensor value')} "
            f"carried forward ({'without limit' if limit is None else f'at most {limit:g} s'})"
        )
    if ahead := values_ahead(manifest):
        note(f"{plural(ahead, 'value')} filled from later rows, which the audit names")
    for finding in manifest["findings"]:
        note(str(finding))
    rows = [
        [name, entry["role"], entry["unit"], f"{entry['null_share']:.1%}",
         *map(_short, (entry["min"], entry["quantiles"]["0.5"], entry["max"]))]
        for name, entry in manifest["channels"].items()
        if entry["count"]
    ]  # fmt: skip
    print_table("", ["channel", "role", "unit", "absent", "min", "median", "max"], rows, words=3)
    absent = [name for name, entry in manifest["channels"].items() if not entry["count"]]
    if absent:
        say(f"not measured: {', '.join(absent)}")
    if written is not None:
        say(f"wrote {written}")


def show_table(path: Path) -> None:
    """Print the manifest of a table, or for a foreign table what can be said about it."""
    from crossfeed.logs.table import Table

    table = Table.read(path)
    if "counts" in table.manifest:
        show_manifest(table.manifest)
        return
    groups, sensors = plural(len(table.groups), "group"), f"{int(table.present().sum())} of {len(table.schema.sensors)}"
    say(
        f"{path} was not made by crossfeed: {plural(len(table), 'row')} of {table.period:g} s in {groups}, {sensors} "
        f"sensors of the schema '{table.schema.name}'"
    )


def show_log_formats(log_formats: "Sequence[LogFormat]") -> None:
    """Print every kind of log that is known, and the one that a mapping describes."""
    rows = [
        (log.name, log.title, f"{len(log.schema.sensors)} + {len(log.schema.commands)}", log.licence,
         "yes" if log.downloads else "by hand")
        for log in log_formats
    ]  # fmt: skip
    rows.append(("table", "any CSV or Parquet, described by a mapping", "yours", "yours", "-"))
    print_table("", ["kind", "what", "channels", "licence", "fetch"], rows, words=5)


def show_licence(log: "LogFormat", console: Console) -> None:
    """Print under which terms a data set may be used and whom to cite."""
    console.print(f"[bold]{log.title}[/]\nlicence: {log.licence}\ncite: {log.citation}\nhome: {log.homepage}")
    if log.non_commercial:
        console.print("[bold red]Not for commercial use.[/]")


def show_log_format(log: "LogFormat") -> None:
    """Print what a kind of log declares: columns with the factors derived from their units, and the rules."""
    show_licence(log, output())
    if log.notes:
        say(f"note: {log.notes}")
    rules = {name: value for name, value in asdict(log.segmentation).items() if value not in (None, (), {}, 0.0, 1)}
    say(f"rows every {log.period:g} s; sessions: {rules or 'one for each run'}")
    rows = []
    for column in log.columns:
        scale, offset = log.conversion(column)
        factor = f"{scale:g}" + (f" {offset:+g}" if offset else "")
        valid = f"{column.valid[0]:g} to {column.valid[1]:g}" if column.valid else ""
        unit = log.schema.channel(column.channel).unit
        rows.append([column.native, column.unit, column.channel, unit, factor, valid])
    print_table("", ["native column", "unit", "channel", "unit", "factor", "valid"], rows, words=6)


def show_simulated(summaries: "Sequence[LogSummary]") -> None:
    """Print what the simulator wrote; the ranges of the channels while there are few machines."""
    heads = columns(
        ("machine", "machine", "text"), ("files", "files", "count"), ("raw_rows", "rows written", "count"),
        ("rows", "rows kept", "count"), ("sessions", "sessions", "count"), ("time", "machine time"),
    )  # fmt: skip
    rows = tuple(
        {"machine": one.machine, "files": len(one.files), "raw_rows": one.raw_rows, "rows": one.rows,
         "sessions": one.sessions, "time": f"{one.seconds:,.0f} s"}
        for one in summaries
    )  # fmt: skip
    show(ResultTable("simulated", "", heads, rows))
    few = len(summaries) <= 2
    if few:
        show(_ranges(summaries))
    for summary in summaries:
        say(*(f"note: {remark}" for remark in summary.remarks), *(f"wrote {path}" for path in summary.files if few))


def _ranges(summaries: "Sequence[LogSummary]") -> ResultTable:
    """Lowest and highest value of every channel, a column per machine."""
    from crossfeed.schema import canonical

    rows = []
    for channel in canonical().channels:
        spans = [summary.ranges.get(channel.name) for summary in summaries]
        if any(spans):
            shown = (f"{span['low']:,.2f} to {span['high']:,.2f}" if span else "not logged" for span in spans)
            rows.append([channel.name, channel.unit, *shown])
    machines = [f"{summary.machine}, lowest to highest" for summary in summaries]
    return plain_table("", ["channel", "unit", *machines], rows, words=2 + len(machines))


def show_counts(counts: "Sequence[PartCount]", split: "Split | None") -> None:
    """Print sessions, rows and windows of each side, and why some windows are not offered."""
    first = counts[0].windows
    title = f"context {first.context}, horizons {', '.join(map(str, first.horizons))}, stride {first.stride}"
    names = ("sessions", "programs", "rows", "windows")
    heads = (
        Column("part", "part", "text"), *(Column(name, name, "count") for name in names),
        Column("hash", "hash", "text"), Column("lost", "not offered", "text"),
    )  # fmt: skip
    rows = []
    for part in counts:
        content = part.to_dict()
        lost = ", ".join(f"{content[name]:,} {words}" for name, words in LOST.items() if content[name])
        numbers = {name: content[name] for name in names}
        rows.append({"part": part.part, **numbers, "hash": str(content["window_hash"])[:8], "lost": lost})
    show(ResultTable("windows", title, heads, tuple(rows)))
    if split:
        say(f"split by {split.by}, seed {split.seed}, hash {split.hash()[:12]}")


def show_model(description: dict[str, Any]) -> None:
    """Print channels, sizes, configuration, provenance and hashes of a model file."""
    from crossfeed.configuration import leaves

    title = f"{description['path']}: channels of the schema '{description['schema']}'"
    rows = [
        [*(channel[name] for name in ("name", "kind", "quantity", "unit")),
         *(f"{channel[name]:.4g}" for name in ("location", "scale"))]
        for channel in description["channels"]
    ]  # fmt: skip
    show(plain_table(title, ["channel", "kind", "quantity", "unit", "train mean", "scale"], rows, words=4))
    provenance, parameters = dict(description["provenance"]), description["parameters"]
    run = leaves(provenance.pop("config", {}))
    facts = {
        "parameters": {"all": f"{sum(parameters.values()):,}", **{name: f"{n:,}" for name, n in parameters.items()}},
        "model": description["config"],
        "training and data": {name: value for name, value in run.items() if name.startswith(("training.", "data."))},
        "normaliser": description["normaliser"],
        "provenance": leaves(provenance),
        "hashes": description["hashes"],
    }
    for title, values in facts.items():
        print_table(title, ["", " "], [[name, _text(value)] for name, value in values.items()], words=2)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def show_program(summary: dict[str, Any]) -> None:
    """Print lengths, times, tools and speeds of an NC program, then the first findings."""
    print_table(summary["name"], ["", " "], _program_facts(summary), words=2)
    if not summary["findings"]:
        return
    rows = ([str(one.line), one.severity, one.text, one.reason] for one in summary["findings"][:SHOWN_FINDINGS])
    show(plain_table("Findings", ["line", "", "text", "finding"], rows, words=4))
    if len(summary["findings"]) > SHOWN_FINDINGS:
        say(f"{len(summary['findings']) - SHOWN_FINDINGS} more findings; --json lists all of them.")


def _program_facts(summary: dict[str, Any]) -> list[tuple[str, str]]:
    calls = ", ".join(f"{name} x{count}" for name, count in summary["skipped_calls"].items())
    understood = f"{summary['understood_motion_lines']} of {summary['motion_lines']} ({summary['understood']:.1%})"
    return [
        ("lines, blocks", f"{summary['lines']}, {summary['blocks']}"),
        ("motion lines understood", understood),
        ("path length", f"{summary['path_length']:.1f} mm"),
        ("  cutting", f"{summary['cutting_length']:.1f} mm"),
        ("  rapid", f"{summary['rapid_length']:.1f} mm"),
        ("total time", _time(summary["total_time"])),
        ("  cutting", f"{_time(summary['cutting_time'])} (as programmed {_time(summary['programmed_cutting_time'])})"),
        ("  rapid", _time(summary["rapid_time"])),
        ("tools", ", ".join(summary["tools"]) or "none named"),
        ("spindle speeds", _span(summary["spindle_speeds"], "rpm")),
        ("feeds", _span(summary["feeds"], "mm/min")),
        ("skipped calls", calls or "none"),
        ("findings", str(len(summary["findings"]) or "none")),
    ]


def _time(seconds: float) -> str:
    return f"{int(seconds // 60)} min {seconds % 60:.1f} s"


def _span(values: tuple[float, ...], unit: str) -> str:
    """All values while they are few, otherwise their range."""
    if len(values) <= 8:
        return f"{', '.join(f'{value:g}' for value in values)} {unit}" if values else "none"
    return f"{len(values)} values from {values[0]:g} to {values[-1]:g} {unit}"


def show_shards(folder: Path, shards: "Sequence[ShardSummary]") -> None:
    """Print what a fleet folder holds now, period by period."""
    machines, rows = Counter[float](), Counter[float]()
    for shard in shards:
        machines[shard.period] += shard.machines
        rows[shard.period] += shard.rows
    counts = Counter(shard.period for shard in shards)
    cells = (
        [f"{period:g} s", *(f"{count[period]:,}" for count in (counts, machines, rows))] for period in sorted(rows)
    )
    print_table("", ["rows every", "shards", "machines", "rows"], cells)
    made = sum(shard.made for shard in shards)
    found = f", {len(shards) - made:,} of them found" if made < len(shards) else ""
    say(
        f"{folder}: {plural(sum(machines.values()), 'machine')}, {sum(rows.values()):,} rows in "
        f"{plural(len(shards), 'shard')}{found}"
    )


def show_matches(matches: "Sequence[Match]") -> None:
    """Print a real log's channels beside what nine of ten simulated machines show; a cross marks what lies outside."""
    from crossfeed.sim.factory.describe import FACTS

    rows = []
    for channel in dict.fromkeys(match.channel for match in matches):
        own = [match for match in matches if match.channel == channel]
        cells = (
            f"{'' if match.inside else 'x '}{_short(match.real)}\n{_short(match.low)} to {_short(match.high)}"
            for match in own
        )
        rows.append([channel, f"{own[0].machines:,}", *cells])
    show(plain_table("", ["channel", "machines", *FACTS], rows))
    inside = sum(match.inside for match in matches)
    say(f"{inside} of {plural(len(matches), 'fact')} lie within what nine of ten simulated machines show")


def show_fleet_comparison(found: "FleetComparison") -> None:
    """Print how well the fleet is told from the real log, and the features that do it."""
    say(
        f"{found.machine}: {plural(found.real_windows, 'real window')} against {found.fleet_windows:,} of "
        f"{plural(found.fleet_machines, 'machine')} of the fleet, a row every {found.period:g} s",
        f"trees tell them apart with an area under the curve of {found.auc:.3f} (0.5 = not at all)",
    )
    rows = [
        [gap.name, gap.auc, gap.real, gap.low, gap.middle, gap.high, "" if gap.low <= gap.real <= gap.high else "x"]
        for gap in found.gaps
    ]
    print_table("", ["feature", "alone", "real", "fleet, 5 %", "50 %", "95 %", "outside"], rows)
    say(f"{found.inside:.0%} of the features lie within what nine of ten simulated machines show")
