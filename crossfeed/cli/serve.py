"""`crossfeed serve` and `export`: a model behind an address, and a model for machines without torch."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.common import Device, Json, Model, MotionFile
from crossfeed.cli.live import Certificate, Key, Login, Policy, Trusted, source_options


def serve(
    model: Model,
    history: Annotated[Path | None, typer.Option(help="Table to forecast from; it is played back as if live.")] = None,
    live: Annotated[
        str | None,
        typer.Option(help="A machine: a growing LOG.csv, opc.tcp://HOST:4840, http://HOST:5000, mqtt://HOST/TOPIC."),
    ] = None,
    mapping: Annotated[Path | None, typer.Option(help="What the names of the live source mean.")] = None,
    programs: Annotated[Path | None, typer.Option(help="Folder with the NC programs of the live machine.")] = None,
    learn: Annotated[
        Path | None, typer.Option(help="Learn while watching the live machine; journal and model go into this folder.")
    ] = None,
    live_security: Policy = None,
    live_certificate: Certificate = None,
    live_key: Key = None,
    live_trust: Trusted = None,
    live_credentials: Login = None,
    speed: Annotated[float, typer.Option(min=0.1, max=100.0, help="How fast table or source are played back.")] = 1.0,
    limits: MotionFile = None,
    runs: Annotated[
        list[Path] | None, typer.Option(help="Folder with studies and comparisons to show; can be repeated.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8400,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine need a certificate.")
    ] = "127.0.0.1",
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key (PEM, without password).")] = None,
    proxy_does_tls: Annotated[
        bool, typer.Option("--proxy-does-tls", help="A proxy in front speaks TLS; we speak plain HTTP to it.")
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="Host name under which browsers reach it; can be repeated.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Keep the token for programs in this file, over restarts.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    device: Device = "auto",
) -> None:
    """Serve a model: a page in the browser, an API for programs, both on this machine alone unless told otherwise.

    Examples: crossfeed serve run/ --history log.parquet --open

    crossfeed serve run/ --live opc.tcp://192.168.0.7:4840 --mapping machine.yaml
    """
    import gc

    # Until the service is up nothing that is made is garbage, and looking for some takes half a second.
    gc.disable()
    try:
        from crossfeed.configuration import parse
        from crossfeed.studio.service import LiveSetup, make_service, start
        from crossfeed.studio.settings import ServeSettings

        machine = None
        if live is not None:
            options = source_options(mapping, live_security, live_certificate, live_key, live_trust, live_credentials)
            machine = LiveSetup(live, options, programs, learn)
        address = {
            "host": host, "port": port, "certificate": certificate, "key": key, "proxy_does_tls": proxy_does_tls,
            "names": tuple(name or ()),
        }  # fmt: skip
        service = make_service(
            model, parse(ServeSettings, address, "The address"), history=history, live=machine, speed=speed,
            limits=limits, runs=runs or (), device=device, token_file=token_file,
        )  # fmt: skip
        start(service, token_file, open_page)
    finally:
        gc.enable()


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
    from crossfeed.front.export import export_model
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
