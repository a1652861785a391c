"""Everything one running service holds, built before the first request."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.programs.limits import MotionLimits
from crossfeed.serving.history import History
from crossfeed.studio.access import Keys
from crossfeed.studio.batching import Batcher
from crossfeed.studio.engine import ForecastEngine, Question
from crossfeed.studio.long_work import LongWork
from crossfeed.studio.metrics import Gauge, Metrics
from crossfeed.studio.moments import Moments
from crossfeed.studio.refusal import RefusalError
from crossfeed.studio.settings import ServeSettings
from crossfeed.studio.shown_machine import ShownMachine
from crossfeed.studio.uploads import Uploads

log = logging.getLogger("crossfeed.studio")
_COLOURS = {"green": 0.0, "amber": 1.0, "red": 2.0}


@dataclass(eq=False)
class Service:
    """Model, queues, uploads, what runs beside it; `moments` is a table, `beside` a machine or a replay."""

    opened: OpenedModel
    settings: ServeSettings
    keys: Keys
    moments: Moments | None = None
    shown_machine: ShownMachine | None = None
    folders: Sequence[Path] = ()
    motion: MotionLimits = field(default_factory=MotionLimits)

    def __post_init__(self) -> None:
        limits = self.settings.limits
        self.metrics, self.uploads, self.streams = Metrics(), Uploads(limits.uploads), 0
        newest = _Newest(self.moments, self.shown_machine) if self.moments or self.shown_machine else None
        self.engine = ForecastEngine(self.opened, newest, self.uploads, limits, self.motion)
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
        except asyncio.CancelledError:
            raise
        except CrossfeedError as error:
            log.error("what ran beside the service ended: %s", error)
        except Exception:
            log.exception("what ran beside the service ended")

    def _watch(self) -> None:
        self.metrics.watch(Gauge("crossfeed_streams", "Open WebSocket streams.", lambda: [({}, self.streams)]))
        self.metrics.watch(
            Gauge("crossfeed_what_ifs", "Comparisons under way or waiting.", lambda: [({}, self.long_work.inside)])
        )
        if self.shown_machine is None:
            return
        shown = self.shown_machine
        self.metrics.watch(
            Gauge(
                "crossfeed_live_age_seconds", "Age of the newest row and of the forecast.",
                lambda: [
                    ({"of": name.removesuffix("_age")}, value)
                    for name in ("row_age", "forecast_age")
                    if (value := shown.snapshot().get(name)) is not None
                ],
            )
        )  # fmt: skip
        self.metrics.watch(
            Gauge(
                "crossfeed_live_light", "0 green, 1 amber, 2 red.",
                lambda: [
                    ({"sensor": name}, _COLOURS[light["colour"]])
                    for name, light in shown.snapshot().get("lights", {}).items()
                ],
            )
        )  # fmt: skip
        self.metrics.watch(
            Gauge(
                "crossfeed_live_events_total", "What happened to the live source.",
                lambda: [
                    ({"kind": name}, float(value)) for name, value in shown.snapshot().get("counters", {}).items()
                ],
            )
        )  # fmt: skip


class _Newest:
    """The newest moment of what runs beside the service, or a named moment of the table."""

    def __init__(self, table: Moments | None, shown_machine: ShownMachine | None) -> None:
        self.table, self.shown_machine = table, shown_machine

    def at(self, session: str | None, at: float | None) -> History:
        if session is None and at is None and self.shown_machine is not None and self.shown_machine.history is not None:
            return self.shown_machine.history
        if self.table is None:
            if session is None and at is None:
                raise RefusalError(409, "Too few live rows have arrived for a forecast.", remedy="Wait some seconds.")
            raise RefusalError(409, "There is no table to choose a moment from.", expected="no 'session' and no 'at'")
        return self.table.at(session, at)

    def sessions(self) -> list[dict[str, Any]]:
        return [] if self.table is None else self.table.sessions()
