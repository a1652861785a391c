"""`crossfeed train`, `inspect`, `adapt` and `reproduce`: tables become a world model, and a model learns a machine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.common import Device, Json, Model, Resume


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
    from crossfeed.training.folder import saved_config
    from crossfeed.training.hardware import is_leading_process

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


def inspect(
    model: Annotated[Path, typer.Argument(help="A model file, or the folder of a run or of an adaptation.")],
    json: Json = False,
) -> None:
    """Show configuration, channels, normaliser, provenance, sizes and hashes of a model file.

    Example: crossfeed inspect run
    """
    from crossfeed.cli.render.inputs import show_model
    from crossfeed.cli.render.printing import print_result
    from crossfeed.training.summary import describe

    description = describe(model)
    print_result(description, json, lambda: show_model(description))


def adapt(
    model: Model,
    table: Annotated[Path, typer.Option("--table", "-t", help="The table of the new machine.")],
    fractions: Annotated[str, typer.Option(help="Leading shares of each run to learn from.")] = "0,0.05,0.1,0.2",
    online: Annotated[bool, typer.Option("--online", help="Learn while the machine runs instead.")] = False,
    mode: Annotated[
        Literal["head", "predictor", "channels", "low-rank", "all"], typer.Option(help="What may change.")
    ] = "predictor",
    steps: Annotated[int | None, typer.Option(help="Gradient steps: 50 in all, online 2 per update.")] = None,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="Seed of the batches.")] = 0,
    protocol: Annotated[
        Literal["paper", "crossfeed"], typer.Option(help="paper: squared error, each share judged on what follows it.")
    ] = "crossfeed",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for adaptation.json and models.")] = None,
    source: Annotated[Path | None, typer.Option(help="Source table, for models with a robust normaliser.")] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Adapt a model to another machine and judge it on rows it has not learned from.

    Examples: crossfeed adapt run/ --table target.parquet --fractions 0,0.1,0.2 --out adapted/
    crossfeed adapt run/ --table target.parquet --online
    """
    from crossfeed.cli.render.printing import next_step, print_result
    from crossfeed.cli.render.results import show_adaptation
    from crossfeed.evaluation.adaptation.fewshot import parse_fractions
    from crossfeed.front.fit import adaptations
    from crossfeed.front.fitted_model import load

    result = adaptations(
        load(model, device), table, parse_fractions(fractions), online=online, mode=mode, steps=steps, rate=rate,
        seed=seed, protocol=protocol, source=source, out=out,
    ).result  # fmt: skip

    def show() -> None:
        show_adaptation(result)
        if out is not None and result.models:
            next_step("forecast", out, "--history", table, "--commands", "table", "--at", "60")

    print_result(result, json, show)


def reproduce(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training run.")],
    table: Annotated[list[Path], typer.Option("--table", "-t", help="Its tables, in their order.")],
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads; those of the run if left out. Others can change the last bits.")
    ] = None,
    pretrained: Annotated[Path | None, typer.Option(help="The file its body came from, where it had one.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Keep the second run here.")] = None,
    json: Json = False,
) -> None:
    """Train a finished run again from its own configuration and compare every bit; exit code 1 if one differs.

    Example: crossfeed reproduce run/ --table source.parquet
    """
    from crossfeed.cli.render.printing import print_json
    from crossfeed.logs.table import Table
    from crossfeed.training.reproduce import reproduce as run_again

    found = run_again(run, [Table.read(path) for path in table], threads=threads, pretrained=pretrained, out=out)
    if json:
        print_json(found)
    else:
        typer.echo(found.verdict)
        for line in found.differences:
            typer.echo(f"  {line}")
    raise typer.Exit(0 if found.same else 1)
