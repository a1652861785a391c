"""`crossfeed serve`: the model behind an address, with a page to look at and an API to ask."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.live import Certificate, Key, Login, Policy, Trusted, source_options
from crossfeed.cli.options import Device, Model, MotionFile


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
