"""`crossfeed adapt`: teach a model a new machine."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Device, Json, Model


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
    from crossfeed.adaptation.fewshot import parse_fractions
    from crossfeed.cli.render.printing import next_step, print_result
    from crossfeed.cli.render.results import show_adaptation
    from crossfeed.front.adapt import adaptations
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
