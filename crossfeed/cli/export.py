"""`crossfeed export`: a model for machines without torch."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json, Model


def export(
    model: Model,
    out: Annotated[Path, typer.Option("--out", "-o", help="The ONNX file to write.")],
    quantiles: Annotated[
        str,
        typer.Option(help="Levels the graph itself gives, such as 0.05,0.5,0.95; crossfeed.edge needs none."),
    ] = "",
    members: Annotated[
        int | None,
        typer.Option(help="Export the first so many members alone; --table tells what that costs.", show_default="all"),
    ] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Weights in int8; --table tells what that costs.")] = False,
    table: Annotated[
        Path | None,
        typer.Option("--table", "-t", help="Rows on which the smaller file is compared with the model, by CRPS."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write int8 although it costs more than 1 % CRPS.")] = False,
    json: Json = False,
) -> None:
    """Write a model as one ONNX file that numpy and onnxruntime can use (crossfeed.edge), checked against torch.

    Example: crossfeed export run/ --out model.onnx --int8 --table target.parquet
    """
    from crossfeed.cli.render.printing import print_json
    from crossfeed.errors import ConfigError
    from crossfeed.export.export import export_model
    from crossfeed.show.tables import plural

    try:
        levels = [float(level) for level in quantiles.split(",") if level.strip()]
    except ValueError as error:
        raise ConfigError(f"--quantiles {quantiles} holds no numbers.", expected="such as 0.05,0.5,0.95") from error
    done = export_model(model, out, levels=levels, members=members, int8=int8, table=table, force=force)
    if json:
        print_json(done)
        return
    typer.echo(f"{done.path}: {done.bytes / 1e6:.1f} MB, {done.metadata['precision']}, any batch, any sensors missing")
    typer.echo(f"largest difference to torch, in float32: {done.difference:.1e} z-units")
    kept = done.metadata["members"]
    compared = {"members": ("of the model", f"of {plural(kept, 'member')}"), "int8": ("in float32", "in int8")}
    for what, (before, after) in compared.items():
        if cost := done.prices.get(what):
            typer.echo(
                f"CRPS on {cost.windows} windows: {cost.before:.4f} {before}, {cost.after:.4f} {after} "
                f"({100 * cost.share:+.2f} %)"
            )
