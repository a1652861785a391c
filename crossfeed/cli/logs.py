"""`crossfeed data`, `ingest`, `audit`, `windows` and `program`: raw logs become tables, and what is in them."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.common import Json, MachineName, MotionFile, TableFile

app = typer.Typer(name="data", help="Public data sets and the description of your own logs.", no_args_is_help=True)


@app.command("list")
def list_log_formats(json: Json = False) -> None:
    """List the kinds of log that crossfeed knows.

    Example: crossfeed data list
    """
    from crossfeed.cli.render.inputs import show_log_formats
    from crossfeed.cli.render.printing import print_result
    from crossfeed.logs.log_formats import log_formats as known_log_formats

    log_formats = list(known_log_formats().values())
    facts = [{"kind": log.name, "title": log.title, "licence": log.licence} for log in log_formats]
    print_result(facts, json, lambda: show_log_formats(log_formats))


@app.command()
def show(
    what: Annotated[str, typer.Argument(help="A kind of log, or a table made by `crossfeed ingest`.")],
    json: Json = False,
) -> None:
    """Show a kind's columns, units, rules and licence, or a table's manifest.

    Example: crossfeed data show joanneum
    """
    from crossfeed.cli.render.inputs import show_log_format, show_table
    from crossfeed.cli.render.printing import print_json
    from crossfeed.logs.log_formats import log_format_named
    from crossfeed.logs.table import Table

    if json:
        print_json(Table.read(what).manifest)
    elif Path(what).suffix == ".parquet":
        show_table(Path(what))
    else:
        show_log_format(log_format_named(what))


@app.command()
def divide(
    table: Annotated[Path, typer.Argument(help="A table made by `crossfeed ingest`.")],
    first: Annotated[Path, typer.Argument(help="Table to write: the runs to learn from.")],
    second: Annotated[Path, typer.Argument(help="Table to write: the other runs.")],
    runs: Annotated[str, typer.Option(help="Runs for the second table, with commas.")] = "",
    last: Annotated[int | None, typer.Option(help="Or the last so many runs.")] = None,
    every: Annotated[int | None, typer.Option(help="Or every n-th run.")] = None,
    hide: Annotated[str, typer.Option(help="Sensors that the second table lacks, with commas.")] = "",
    machine: Annotated[str, typer.Option(help="Name of the machine in the second table.")] = "",
) -> None:
    """Divide the runs of a machine in two tables; the second can lack sensors, as another machine would.

    Example: crossfeed data divide mill.parquet source.parquet target.parquet --last 6 --hide z_load --machine mill_b
    """
    from crossfeed.logs.align import choose_runs
    from crossfeed.logs.align import divide as divide_runs
    from crossfeed.logs.table import Table

    whole = Table.read(table)
    chosen = choose_runs(whole, [name for name in runs.split(",") if name], last, every)
    for path, part in zip(
        (first, second), divide_runs(whole, chosen, [name for name in hide.split(",") if name], machine), strict=True
    ):
        part.write(path)
        typer.echo(f"{path}: {len({group.run for group in part.groups})} runs, {len(part):,} rows")


@app.command()
def template(
    source: Annotated[
        Path | None, typer.Option("--from", help="A log, a folder of logs or a Devices.xml to write the mapping from.")
    ] = None,
) -> None:
    """Print a commented mapping to adapt to your own logs, or one written from a log, with a ? at every guess.

    Example: crossfeed data template --from logs/a > mapping.yaml
    """
    from crossfeed.logs.mapping import TEMPLATE

    if source is None:
        typer.echo(TEMPLATE, nl=False)
        return
    from crossfeed.logs.template import template_from

    typer.echo(template_from(source), nl=False)


@app.command()
def fetch(
    log_format: Annotated[str, typer.Argument(help="thws, joanneum or michigan.")],
    to: Annotated[Path, typer.Option("--to", "--out", "-o", help="Folder to download to.")],
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="Do not ask whether the licence is accepted.")
    ] = False,
    base_url: Annotated[str | None, typer.Option(help="Fetch from a mirror instead of the publisher.")] = None,
) -> None:
    """Download a public data set; an interrupted download goes on where it stopped.

    Example: crossfeed data fetch thws --to logs/thws --accept-licence
    """
    from rich.console import Console

    from crossfeed.cli.render.inputs import show_licence
    from crossfeed.errors import ConfigError
    from crossfeed.logs.files import fetch as fetch_files
    from crossfeed.logs.log_formats import log_format_named

    found = log_format_named(log_format)
    show_licence(found, Console(highlight=False, stderr=True))  # also with --quiet: it is asked about
    if not accept_licence and not typer.confirm("Do you accept the licence?", default=False, err=True):
        raise ConfigError("The licence was not accepted; nothing was downloaded.", remedy="Add --accept-licence.")
    for path in fetch_files(found, to, base_url):
        typer.echo(path)


def ingest(
    log_format: Annotated[str, typer.Argument(help="thws, joanneum, michigan, mtconnect or table.")],
    path: Annotated[Path, typer.Argument(help="Log file, folder, glob or zip archive.")],
    out: TableFile,
    rule: Annotated[
        Literal["crossfeed", "paper"], typer.Option(help="Causal bins, or the bins and filled gaps of the paper.")
    ] = "crossfeed",
    period: Annotated[float | None, typer.Option(help="Seconds between rows (default: as the kind says).")] = None,
    mapping: Annotated[
        Path | None, typer.Option(help="Describes the columns; for the kinds 'table' and 'mtconnect'.")
    ] = None,
    machine: MachineName = None,
    std: Annotated[bool, typer.Option("--std", help="Keep each sensor's standard deviation inside the bin.")] = False,
    unpack_limit: Annotated[float, typer.Option(min=0.0, help="Gigabytes that an archive may become.")] = 4.0,
    json: Json = False,
) -> None:
    """Turn raw logs into one canonical table.

    Example: crossfeed ingest joanneum logs/joanneum target.parquet
    """
    from crossfeed.cli.render.inputs import show_manifest
    from crossfeed.cli.render.printing import next_step, print_result
    from crossfeed.logs.log_formats import log_format_named
    from crossfeed.logs.pipeline import ingest as run_ingest

    table = run_ingest(
        log_format_named(log_format, mapping), path, rule=rule, period=period, deviation=std, machine=machine,
        unpack_limit=unpack_limit * 1e9,
    )  # fmt: skip
    table.write(out)

    def show() -> None:
        show_manifest(table.manifest, out)
        next_step("audit", out)

    print_result(table.manifest, json, show)


def audit(
    tables: Annotated[list[Path], typer.Argument(help="Parquet or CSV tables; crossfeed need not have made them.")],
    split: Annotated[Path | None, typer.Option(help="A split as JSON: lists of sessions for each side.")] = None,
    normaliser: Annotated[Path | None, typer.Option(help="A normaliser as JSON, or a model.safetensors.")] = None,
    windows: Annotated[Path | None, typer.Option(help="A window list: columns first, last, part.")] = None,
    raw: Annotated[
        list[str] | None, typer.Option(help="KIND=PATH of raw logs, to probe their ingest for causality.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run this check only; may be repeated.")] = None,
    json: Json = False,
) -> None:
    """Check tables for wrong units, swapped columns, leaks and more; exit code 1 on a violation.

    Example: crossfeed audit source.parquet target.parquet --split split.json
    """
    from crossfeed.cli.render.printing import next_step, print_result
    from crossfeed.cli.render.results import show_audit
    from crossfeed.windows.audits.run import audit as run_audit

    logs = []
    for text in raw or ():
        log_format, found, path = text.partition("=")
        if not found:
            raise typer.BadParameter(f"'{text}' should look like joanneum=logs/joanneum", param_hint="--raw")
        logs.append((log_format, Path(path)))
    report = run_audit(tables, split=split, normaliser=normaliser, windows=windows, raw=logs, only=only or ())

    def show() -> None:
        show_audit(report)
        if not report.violations:
            next_step("train", "--table", tables[0], "--out", "run")

    print_result(report, json, show)
    raise typer.Exit(report.exit_code)


def windows(
    table: Annotated[Path, typer.Argument(help="A table made by `crossfeed ingest`.")],
    by: Annotated[
        Literal["session", "program", "run", "day", "none"],
        typer.Option(help="What stays on one side; none for no split."),
    ] = "session",
    seed: Annotated[int, typer.Option(help="Seed of the split; no other seed touches it.")] = 20260820,
    context: Annotated[int, typer.Option(help="Rows a window shows.")] = 32,
    horizons: Annotated[str, typer.Option(help="Rows ahead that are asked for.")] = "1,2,4,8,16",
    stride: Annotated[int, typer.Option(help="Rows between the ends of neighbouring windows.")] = 1,
    save_split: Annotated[Path | None, typer.Option(help="Write the split to this JSON file.")] = None,
    json: Json = False,
) -> None:
    """Show the split of a table and the windows of each side.

    Example: crossfeed windows source.parquet --by program --save-split split.json
    """
    from crossfeed.cli.render.inputs import show_counts
    from crossfeed.cli.render.printing import print_json
    from crossfeed.logs.table import Table
    from crossfeed.windows.split import split_table
    from crossfeed.windows.split_tables import count_windows

    try:
        ahead = [int(part) for part in horizons.split(",")]
    except ValueError:
        raise typer.BadParameter("give whole numbers with commas, such as 1,2,4", param_hint="--horizons") from None
    read = Table.read(table)
    split = None if by == "none" else split_table(read, by, seed)
    counts = count_windows(read, split, context, ahead, stride)
    if split is not None and save_split is not None:
        split.write(save_split)
    if json:
        sides = split.model_dump(mode="json") if split else None
        print_json({"split": sides, "parts": [part.to_dict() for part in counts]})
    else:
        show_counts(counts, split)
    for part in counts:
        part.windows.require_any()


def program(
    file: Annotated[str, typer.Argument(help="NC program (Siemens 840D or ISO), or a name such as bundled:bracket.")],
    limits: MotionFile = None,
    feed_override: Annotated[float, typer.Option(help="Feed override, in per cent.")] = 100.0,
    rapid_override: Annotated[float, typer.Option(help="Rapid override, in per cent, up to 100.")] = 100.0,
    rate: Annotated[float, typer.Option(help="Commands per second in the picture and the CSV file.")] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(help="Write the path and the commands over time as PNG, SVG, PDF.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the mean commands of each interval as CSV.")] = None,
    json: Json = False,
) -> None:
    """Show what an NC program does: length, times, tools, speeds, and every line that was not clear.

    Example: crossfeed program part.mpf --plot part.png --csv commands.csv
    """
    from crossfeed.cli.render.inputs import show_program
    from crossfeed.cli.render.printing import print_result
    from crossfeed.programs.figures import draw_program, summarise
    from crossfeed.programs.motion import MotionLimits, read_motion_limits
    from crossfeed.programs.parse import program_path, read_program
    from crossfeed.programs.plan import plan
    from crossfeed.programs.trajectory import write_commands
    from crossfeed.progress import console

    parsed = read_program(program_path(file))
    motion_limits = read_motion_limits(limits) if limits else MotionLimits()
    trajectory = plan(parsed, motion_limits, feed_override=feed_override / 100.0, rapid_override=rapid_override / 100.0)
    if plot:
        draw_program(parsed, trajectory, plot, rate)
        console().print(f"Picture written to {plot}", markup=False)
    if csv:
        write_commands(trajectory.sample(rate, "mean"), trajectory.tools, csv)
        console().print(f"Commands written to {csv}", markup=False)
    summary = summarise(parsed, trajectory)
    print_result(summary, json, lambda: show_program(summary))
