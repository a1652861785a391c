"""From a model and where its rows come from to a running service, built before the first request."""

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError, need
from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.live.monitor import Monitor
from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.logs.align import as_table
from crossfeed.programs.motion import MotionLimits, read_motion_limits
from crossfeed.progress import be_quiet, console
from crossfeed.studio.engine import ForecastEngine, Question, ready_to_answer
from crossfeed.studio.model_facts import record_folder
from crossfeed.studio.moments import Companion, MonitoredMachine, TableMoments, TableReplay
from crossfeed.studio.plans import Uploads
from crossfeed.studio.queues import Batcher, LabelledValue, LongWork, Metrics
from crossfeed.studio.settings import Keys, ServeSettings, log

_COLOURS = {"green": 0.0, "amber": 1.0, "red": 2.0}


@dataclass(eq=False)
class Service:
    """Model, queues, uploads; `shown_machine` is what runs beside it: a machine, or a replay of the table."""

    opened: OpenedModel
    settings: ServeSettings
    keys: Keys
    table: TableMoments | None = None
    shown_machine: MonitoredMachine | None = None
    folders: Sequence[Path] = ()
    motion: MotionLimits = field(default_factory=MotionLimits)

    def __post_init__(self) -> None:
        limits = self.settings.limits
        self.metrics, self.uploads, self.streams = Metrics(), Uploads(limits.uploads), 0
        self.engine = ForecastEngine(self.opened, self.table, self.shown_machine, self.uploads, limits, self.motion)
        self.batcher: Batcher[Question, dict[str, Any]] = Batcher(
            self.engine.answer_all, limits.batch, limits.waiting, self.metrics
        )
        self.long_work = LongWork(limits.what_ifs, limits.waiting_what_ifs, limits.answer_seconds, self.metrics)
        # Where there is one: what runs beside the service begins when the first connection can be taken.
        self.taking_connections: asyncio.Event | None = None
        self._watch()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Whatever runs beside the service lives as long as it; its end is logged, not fatal."""
        task = asyncio.create_task(self._run_shown_machine()) if self.shown_machine is not None else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            self.batcher.close()
            self.long_work.close()

    async def _run_shown_machine(self) -> None:
        assert self.shown_machine is not None
        if self.taking_connections is not None:
            await self.taking_connections.wait()
        try:
            await self.shown_machine.run()
        except CrossfeedError as error:
            log.error("what ran beside the service ended: %s", error)
        except Exception:
            log.exception("what ran beside the service ended")

    def _watch(self) -> None:
        self.metrics.watch("crossfeed_streams", "Open WebSocket streams.", lambda: [({}, self.streams)])
        self.metrics.watch(
            "crossfeed_what_ifs", "Comparisons under way or waiting.", lambda: [({}, self.long_work.inside)]
        )
        if self.shown_machine is None:
            return
        snapshot = self.shown_machine.snapshot

        def ages() -> Iterable[LabelledValue]:
            now = snapshot()
            return [
                ({"of": of}, age)
                for of, age in (("row", now.row_age), ("forecast", now.forecast_age))
                if age is not None
            ]

        self.metrics.watch("crossfeed_live_age_seconds", "Age of the newest row and of the forecast.", ages)
        self.metrics.watch(
            "crossfeed_live_light",
            "0 green, 1 amber, 2 red.",
            lambda: [({"sensor": name}, _COLOURS[light.colour]) for name, light in snapshot().lights.items()],
        )
        self.metrics.watch(
            "crossfeed_live_events_total",
            "What happened to the live source.",
            lambda: [({"kind": kind}, float(count)) for kind, count in asdict(snapshot().counters).items()],
        )


@dataclass(frozen=True)
class LiveSetup:
    """A live source by its address, how to be let in, where the machine's NC programs lie, where to learn."""

    address: str
    options: SourceOptions | None = None
    programs: Path | None = None
    learn: Path | None = None
    companion: Companion | None = None


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
    motion = MotionLimits() if limits is None else read_motion_limits(limits)
    plain = open_model(model, device, many_machines=history is not None and live is None)
    table = None if history is None else as_table(history, plain.model.schema)
    if table is not None:
        plain = plain.fitted_to(table)
    opened = ready_to_answer(plain)
    moments = None
    if table is not None and history is not None:
        moments = TableMoments(table, opened, history.name)
    shown_machine = None
    if live is not None:
        shown_machine = _machine(live, plain, opened, motion, speed)
    elif moments is not None:
        replay = TableReplay(moments, speed)
        shown_machine = MonitoredMachine(opened, Monitor(opened, replay, follower=replay, speed=speed))
    return Service(opened, settings, keys, moments, shown_machine, _folders(opened, runs), motion)


def _machine(
    live: LiveSetup, plain: OpenedModel, opened: OpenedModel, motion: MotionLimits, speed: float
) -> MonitoredMachine:
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
    terminal = console()
    terminal.print(f"Open [bold]{link}[/]  (lets one browser in, once)")
    where = f"in {token_file}" if token_file is not None else service.keys.token
    terminal.print(f"For programs: {address}/docs, token {where}")
    be_quiet()  # bars of single answers would cross each other
    if open_page:
        import webbrowser

        webbrowser.open(link)
