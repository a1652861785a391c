"""Everything one running service holds, built before the first request."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.programs.limits import MotionLimits
from crossfeed.studio.access import Keys, log
from crossfeed.studio.engine import ForecastEngine, Question
from crossfeed.studio.metrics import LabelledValue, Metrics
from crossfeed.studio.moments import Moments, TableMoments
from crossfeed.studio.queues import Batcher, LongWork
from crossfeed.studio.settings import ServeSettings
from crossfeed.studio.shown_machine import ShownMachine
from crossfeed.studio.uploads import Uploads

_COLOURS = {"green": 0.0, "amber": 1.0, "red": 2.0}


@dataclass(eq=False)
class Service:
    """Model, queues, uploads; `shown_machine` is what runs beside it: a machine, or a replay of the table."""

    opened: OpenedModel
    settings: ServeSettings
    keys: Keys
    table: TableMoments | None = None
    shown_machine: ShownMachine | None = None
    folders: Sequence[Path] = ()
    motion: MotionLimits = field(default_factory=MotionLimits)

    def __post_init__(self) -> None:
        limits = self.settings.limits
        self.metrics, self.uploads, self.streams = Metrics(), Uploads(limits.uploads), 0
        moments = Moments(self.table, self.shown_machine)
        self.engine = ForecastEngine(self.opened, moments, self.uploads, limits, self.motion)
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
            told = {} if now is None else {"row": now.row_age, "forecast": now.forecast_age}
            return [({"of": of}, age) for of, age in told.items() if age is not None]

        def lights() -> Iterable[LabelledValue]:
            now = snapshot()
            told = {} if now is None else now.lights
            return [({"sensor": name}, _COLOURS[light.colour]) for name, light in told.items()]

        def events() -> Iterable[LabelledValue]:
            now = snapshot()
            return [] if now is None else [({"kind": kind}, float(n)) for kind, n in asdict(now.counters).items()]

        self.metrics.watch("crossfeed_live_age_seconds", "Age of the newest row and of the forecast.", ages)
        self.metrics.watch("crossfeed_live_light", "0 green, 1 amber, 2 red.", lights)
        self.metrics.watch("crossfeed_live_events_total", "What happened to the live source.", events)
