"""The demo goes on beside a running machine: machine B behind OPC UA, the locked model beside it, the page open."""

import json
import logging
import socket
from collections.abc import Callable
from pathlib import Path

from crossfeed.demo.selection import LOCK, STUDY
from crossfeed.errors import ConfigError
from crossfeed.live.simulated.serve import SimulatedFeed, make_server, serve
from crossfeed.programs.bundled import program_path
from crossfeed.progress import console
from crossfeed.studio.service import LiveSetup, make_service, start
from crossfeed.studio.settings import ServeSettings

MACHINE, PROGRAM = "spinner_630", "bundled:face_pocket"


def show_live(folder: Path, port: int = 8400, open_page: bool = True) -> None:
    """Serve the locked model of a finished demo beside a simulated machine, until Ctrl-C."""
    feed = SimulatedFeed(MACHINE, PROGRAM)
    opcua = free_port()
    console().print(f"Machine B ({feed.name}) works on {feed.program} behind OPC UA; the locked model looks on.")
    for library in ("asyncua", "transitions"):
        logging.getLogger(library).setLevel(logging.CRITICAL)

    async def work(ready: Callable[[], None]) -> None:
        await serve(feed, make_server("opcua", feed, opcua), on_ready=lambda _: ready())

    programs = program_path(PROGRAM).parent
    live = LiveSetup(f"opc.tcp://127.0.0.1:{opcua}/crossfeed", programs=programs, companion=work)
    start(make_service(locked_model(folder), ServeSettings(port=port), live=live, runs=(folder,)), open_page=open_page)


def locked_model(folder: Path) -> Path:
    """The model that the demo locked before machine B was opened."""
    lock = folder / LOCK
    if not lock.is_file():
        raise ConfigError(
            f"The demo in {folder} has locked no model.",
            expected="a demo that was told to its end",
            remedy="Run crossfeed demo in another folder with --out.",
        )
    run = json.loads(lock.read_text(encoding="utf-8"))["run"]
    return folder / STUDY / "runs" / str(run) / "model.safetensors"


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
