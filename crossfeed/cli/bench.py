"""`crossfeed bench`: what a training step costs on this machine."""

from typing import Annotated

import typer

from crossfeed.cli.options import Device, Json


def bench(
    size: Annotated[
        str | None, typer.Option(help="tiny (default on a CPU), compact, base (default on a GPU), medium or large.")
    ] = None,
    preset: Annotated[str, typer.Option(help="crossfeed (default), mended or paper.")] = "crossfeed",
    batch: Annotated[int | None, typer.Option(help="Windows in a batch; 128 on a GPU, 32 on a CPU.", min=2)] = None,
    device: Device = "auto",
    seconds: Annotated[float, typer.Option(help="About how long each figure is measured.", min=0.0)] = 4.0,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change one setting of the preset.")
    ] = None,
    json: Json = False,
) -> None:
    """Time a training step, its parts and a plain pipeline on this machine, with synthetic windows.

    Example: crossfeed bench --size tiny --batch 32 --device cpu
    """
    from crossfeed.cli.render.bench import show_bench
    from crossfeed.cli.render.printing import print_result
    from crossfeed.training.devices.bench import bench as measure

    found = measure(size, preset, batch, device, seconds, tuple(assign or ()))
    print_result(found, json, lambda: show_bench(found))
