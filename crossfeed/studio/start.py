"""From a model and where its rows come from to a service that runs."""

import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.extras import need
from crossfeed.ingest.align import as_table
from crossfeed.programs.limits import MotionLimits, read_limits
from crossfeed.progress import be_quiet, console
from crossfeed.studio.access import Keys
from crossfeed.studio.engine import ready_to_answer
from crossfeed.studio.model_facts import record_folder
from crossfeed.studio.moments import TableMoments
from crossfeed.studio.replay import Replay
from crossfeed.studio.service import Service
from crossfeed.studio.settings import ServeSettings
from crossfeed.studio.shown_machine import ShownMachine

if TYPE_CHECKING:
    from crossfeed.live.open_source import SourceOptions
    from crossfeed.studio.monitored_machine import Companion


@dataclass(frozen=True)
class LiveSetup:
    """A live source by its address, how to be let in, where the machine's NC programs lie, where to learn."""

    address: str
    options: "SourceOptions | None" = None
    programs: Path | None = None
    learn: Path | None = None
    companion: "Companion | None" = None


def make_service(
    model: Path,
    settings: ServeSettings,
    *,
    history: Path | None = None,
    live: LiveSetup | None = None,
    speed: float = 1.0,
    limits: Path | None = None,
    runs: Sequence[Path] = (),
    device: str = "auto",
    token_file: Path | None = None,
) -> Service:
    """Open everything that is named; what is wrong with it is said before anybody connects."""
    for package in ("fastapi", "uvicorn", "websockets"):
        need(package, "The studio", "serve")
    keys = Keys.fresh() if token_file is None else Keys.kept_in(token_file)
    motion = MotionLimits() if limits is None else read_limits(limits)
    plain = open_model(model, device, meets=history is not None and live is None)
    table = None if history is None else as_table(history, plain.model.schema)
    if table is not None:
        plain = plain.meets(table)
    opened = ready_to_answer(plain)
    moments = None
    if table is not None and history is not None:
        moments = TableMoments(table, opened, history.name)
    shown_machine: ShownMachine | None = None
    if live is not None:
        shown_machine = _machine(live, plain, opened, motion, speed)
    elif moments is not None:
        shown_machine = Replay(opened, moments, speed)
    return Service(opened, settings, keys, moments, shown_machine, _folders(opened, runs), motion)


def _machine(
    live: LiveSetup, plain: OpenedModel, opened: OpenedModel, motion: MotionLimits, speed: float
) -> ShownMachine:
    # Imported here: a table alone needs nothing that listens, and is served a fifth of a second earlier.
    from crossfeed.live.monitor import Monitor
    from crossfeed.live.open_source import open_source
    from crossfeed.studio.monitored_machine import MonitoredMachine

    source = open_source(live.address, live.options)
    learner = None
    if live.learn is not None:
        from crossfeed.live.learning import LiveLearner

        # Whoever learns moves weights, so that they must not be laid out for answering alone.
        learner = LiveLearner(plain, live.learn)
    monitor = Monitor(opened, source, live.programs, limits=motion, learner=learner, speed=speed, waits_for_source=True)
    return MonitoredMachine(opened, monitor, live.companion)


def _folders(opened: OpenedModel, named: Sequence[Path]) -> Sequence[Path]:
    """Where studies and comparisons are looked for: as named, else around the model."""
    if named:
        return tuple(named)
    folder = record_folder(opened.path)
    if folder is None:
        return ()
    return (folder.parent,) if (folder / "study.db").is_file() else (folder,)


def start(service: Service, token_file: Path | None = None, open_page: bool = False) -> None:
    """Serve until Ctrl-C."""
    # Imported here: `make_service` has said by now which package is missing.
    from crossfeed.studio.server import serve

    console().print(f"Serving [bold]{service.opened.forecaster.name}[/]. Stop with Ctrl-C.")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    serve(service, lambda address, link: _ready(service, address, link, token_file, open_page))


def _ready(service: Service, address: str, link: str, token_file: Path | None, open_page: bool) -> None:
    gc.freeze()  # what was made on the way stays to the end
    gc.enable()
    be_quiet(False)
    told = console()
    told.print(f"Open [bold]{link}[/]  (lets one browser in, once)")
    where = f"in {token_file}" if token_file is not None else service.keys.token
    told.print(f"For programs: {address}/docs, token {where}")
    be_quiet()  # bars of single answers would cross each other
    if open_page:
        import webbrowser

        webbrowser.open(link)
