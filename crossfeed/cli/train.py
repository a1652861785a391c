"""`crossfeed train`: tables become a world model."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Device, Json, Resume


def train(
    table: Annotated[list[Path], typer.Option("--table", "-t", help="A table to train on; several are balanced.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run: model, history, summary.")],
    preset: Annotated[str | None, typer.Option(help="crossfeed (default), mended or paper.")] = None,
    size: Annotated[
        str | None, typer.Option(help="tiny, compact (default), base, medium or large; the paper's is base.")
    ] = None,
    budget: Annotated[
        Literal["quick", "normal", "thorough"] | None,
        typer.Option(help="How long: quick takes a quarter of the usual (normal) time, thorough three times as much."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file that changes the preset.")] = None,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change one setting, after --config.")
    ] = None,
    pretrained: Annotated[
        str,
        typer.Option(
            metavar="auto|none|fleet|FILE",
            help="Weights to begin with: auto takes the shipped 'fleet' where it fits, none begins with fresh ones.",
        ),
    ] = "auto",
    device: Device = "auto",
    resume: Resume = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard events.")] = False,
    json: Json = False,
) -> None:
    """Train a world model on tables, and say how much better it is than repeating the last value.

    How long it will take is said before the first epoch. It can be stopped at any moment; --resume goes on.

    Example: crossfeed train --table source.parquet --size compact --budget quick --out run
    """
    from crossfeed.cli.render.printing import next_step, print_json
    from crossfeed.cli.render.results import show_training
    from crossfeed.configuration import parse_assignments
    from crossfeed.errors import ConfigError
    from crossfeed.front.fit import fit
    from crossfeed.progress import be_quiet
    from crossfeed.training.devices.distributed import is_leading_process
    from crossfeed.training.record.folder import saved_config

    if not is_leading_process():
        be_quiet()
    if resume and saved_config(out) is None and is_leading_process():
        typer.echo(f"note: {out} holds no run to go on with; a new one begins there", err=True)
    if resume and budget is not None and saved_config(out) is not None:
        raise ConfigError(
            f"--budget {budget} comes too late: {out} goes on with the budget it began with.",
            remedy="Leave --budget away, or begin a new run in another folder.",
        )
    fitted = fit(
        table, size, preset, out, settings=parse_assignments(assign or ()), config=config, pretrained=pretrained,
        device=device, resume=resume, tensorboard=tensorboard, budget=budget or "normal",
    )  # fmt: skip
    if is_leading_process() and json:
        print_json(fitted.summary)
    elif is_leading_process():
        show_training(dict(fitted.summary), fitted.opened.path)
        next_step("evaluate", out, "--table", "OTHER.parquet", "--source", table[0])
