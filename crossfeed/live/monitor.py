"""A model beside a running machine: rows as they are born, a forecast for each, and whether to believe it."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from crossfeed.errors import CrossfeedError, LogError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.backoff import backoff
from crossfeed.live.clock import SourceClock
from crossfeed.live.machine_rows import MachineRows
from crossfeed.live.plan import as_array
from crossfeed.live.program_plan import ProgramFollower
from crossfeed.live.promises import Said
from crossfeed.live.queue import BoundedQueue
from crossfeed.live.row import Row
from crossfeed.live.snapshot import ChannelForecast, Counters, Light, PlanUsed, Recent, Snapshot, worst
from crossfeed.live.source import LINE, OVERRIDES, Arrival, LiveSource, Mark, Notice, Sample, Value
from crossfeed.live.trust import Trust
from crossfeed.machines.declaration import MICROSECONDS, PROGRAM, LogFormat
from crossfeed.model.live import LiveForecaster
from crossfeed.programs.limits import MotionLimits

if TYPE_CHECKING:
    from crossfeed.live.learning import LiveLearner, TrackedIntervals
    from crossfeed.live.rows import RowMaker

_TICK_S = 0.25  # ages and lights move at least so often
_FORECAST_S = 0.5  # a forecast is made at least so often, however far behind we are
_SHOWN_ROWS = 300
_SHOWN_NOTICES = 20
_FOLLOWED = (PROGRAM, LINE, *OVERRIDES)
# Of several monitors one after the other: side by side all of them would be as late as the last.
_FORECASTS = ThreadPoolExecutor(1, "live-forecasts")


class Monitor:
    """Reads a source, keeps the newest rows, forecasts after each of them and tells whoever listens."""

    def __init__(
        self,
        model: OpenedModel,
        source: LiveSource,
        programs: Path | None = None,
        *,
        limits: MotionLimits | None = None,
        learn: Path | None = None,
        speed: float = 1.0,
        shown_rows: int = _SHOWN_ROWS,
        patient: bool = False,
    ) -> None:
        """A patient one waits for a machine that is not there yet, and says so meanwhile."""
        self.model, self.source, self.programs, self.patient = model, source, programs, patient
        self._limits = limits or MotionLimits()
        self._clock = SourceClock(speed)
        self._shown_rows = max(shown_rows, model.model.config.context)
        self._learner = None if learn is None else _learner(model, learn)
        self._tracked: TrackedIntervals | None = None
        self._forecaster = LiveForecaster(model.model)
        self._trust = Trust(model)
        self._follower: ProgramFollower | None = None
        self._states: dict[str, Value] = {}
        self._counts: Counter[str] = Counter()
        self._notices: deque[str] = deque(maxlen=_SHOWN_NOTICES)
        self._kind: LogFormat | None = None
        self._maker: RowMaker | None = None
        self._rows: MachineRows | None = None
        self._queue = BoundedQueue()
        self._said: Said | None = None
        self._reread, self._unread, self._next_forecast = False, 0, 0.0
        self._problem = self._absent = ""
        self._listeners: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Listen until cancelled, or until the source cannot be had at all."""
        try:
            await self._work()
        except CrossfeedError as error:
            self._absent = error.found
            self._publish()
            raise

    async def _open(self) -> LogFormat:
        """What the source will tell; a patient monitor asks again until there is one."""
        waits = backoff()
        while True:
            try:
                return await self.source.open()
            except LogError as error:
                if not self.patient:
                    raise
                self._absent = f"{error.found} It is tried again."
                self._publish()
            await asyncio.sleep(next(waits))

    async def _work(self) -> None:
        # Imported while nobody waits for a page: this brings polars along.
        from crossfeed.live.rows import RowMaker

        log_format = await self._open()
        self.model.check_rows(log_format.period, f"The source {self.source.title}")
        self._kind, self._absent = log_format, ""
        self._maker = RowMaker(log_format)
        self._rows = MachineRows(log_format.schema, self.model.model.schema, self._shown_rows)
        self._trust.period = log_format.period
        if self._learner is not None:
            from crossfeed.live.learning import TrackedIntervals

            self._tracked = TrackedIntervals(self.model.model.horizons, log_format.period)
        self._follower = ProgramFollower(self.programs, self.model.model.schema, log_format.period, self._limits)
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                arrived = await self._queue.take(_TICK_S)
                await self._digest(arrived)
                self._publish()
                if listening.done() and not len(self._queue):
                    listening.result()
                    return
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await listening
            await self.source.close()
            if self._learner is not None:
                self._learner.close()

    async def _listen(self) -> None:
        async for arrival in self.source.arrivals():
            self._queue.put(arrival)

    async def updates(self) -> AsyncIterator[Snapshot]:
        """A snapshot after every change; a slow listener misses some, never the newest."""
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            while True:
                await changed.wait()
                changed.clear()
                yield self.snapshot()
        finally:
            self._listeners.discard(changed)

    def _publish(self) -> None:
        for changed in self._listeners:
            changed.set()

    async def _digest(self, arrived: Sequence[Arrival]) -> None:
        assert self._maker is not None
        assert self._rows is not None
        for arrival in arrived:
            if isinstance(arrival, Sample):
                self._take(arrival)
            elif isinstance(arrival, Notice):
                self._note(arrival)
            else:
                assert isinstance(arrival, Mark)
        fresh = self._maker.rows()
        if fresh:
            known = self._rows.newest
            self._counts["rows"] += sum(known is None or row.time > known.time for row in fresh)
            self._reread |= self._rows.take(fresh)
            self._unread += len(fresh)
            self._trust.observe(self._rows.running())
        if not self._unread:
            return
        await asyncio.sleep(0)  # let the source hand over what has arrived meanwhile
        if len(self._queue) and time.monotonic() < self._next_forecast:
            return  # behind: newer rows wait already, and a forecast from older ones would only make them older
        await self._look_ahead()

    async def _look_ahead(self) -> None:
        assert self._rows is not None
        newest, reread, unread = self._rows.newest, self._reread, self._unread
        assert newest is not None
        self._reread, self._unread = False, 0
        self._next_forecast = time.monotonic() + _FORECAST_S
        try:
            loop = asyncio.get_running_loop()
            self._said = await loop.run_in_executor(_FORECASTS, self._forecast, newest, reread, unread)
            self._problem = ""
        except CrossfeedError as error:
            self._said, self._problem = None, error.found
            self._reread = True

    def _take(self, sample: Sample) -> None:
        assert self._maker is not None
        self._counts["samples"] += 1
        newest = self._maker.newest
        if newest is None or sample.time > newest:
            self._clock.see(sample.time)
        if sample.channel in _FOLLOWED and (newest is None or sample.time >= newest - MICROSECONDS):
            self._states[sample.channel] = sample.value
        if not self._maker.add(sample):
            self._counts["late"] += 1

    def _note(self, notice: Notice) -> None:
        assert self._maker is not None
        self._counts[notice.kind] += 1
        if notice.kind == "gap":
            self._maker.mask(notice.begin, notice.end)
        if notice.kind != "doubled":
            self._notices.appendleft(f"{datetime.now(UTC):%H:%M:%S} {notice.text}")

    def _forecast(self, newest: Row, reread: bool, unread: int) -> Said | None:
        """Push what is new, or everything after a change, and look ahead."""
        assert self._rows is not None
        running = self._rows.running()
        if self._learner is not None and self._learner.observe(running):
            self._forecaster, reread = LiveForecaster(self._learner.model), True
        if reread:
            self._forecaster.reset()
            unread = self.model.model.config.context
        for row in running[-unread:]:
            self._forecaster.push(row.values)
        if self._forecaster.missing_rows:
            return None
        plan = self._plan(newest)
        forecast = self._forecaster.forecast(as_array(plan, self.model.model.schema))
        if self._tracked is not None:
            forecast = self._tracked.widen(newest, forecast, running)
        said = Said.from_forecast(newest, plan, forecast)
        self._trust.promise(said, running)
        return said

    def _plan(self, newest: Row) -> PlanUsed:
        assert self._follower is not None
        return self._follower.plan(self._states, newest.time, newest.values, self.model.model.horizons[-1])

    @property
    def forecast_age(self) -> float | None:
        """Seconds since the end of the row from which the present forecast starts."""
        return None if self._said is None else self._clock.age(self._said.row.time)

    def snapshot(self) -> Snapshot:
        """Everything that is known now."""
        model, schema = self.model.model, self.model.model.schema
        newest = self._rows.newest if self._rows is not None else None
        age = None if newest is None else self._clock.age(newest.time)
        told = {column.channel for column in self._kind.columns} if self._kind else set()
        missing = model.config.context - len(self._rows.running()) if self._rows is not None else model.config.context
        lights = self._trust.lights(told, age, self._problem, max(missing, 0))
        verdict = Light(worst(lights), self._trust.verdict(lights, self._clock.remark))
        return Snapshot(
            machine=self._kind.machine if self._kind else "",
            source=self.source.title,
            clock=datetime.now(UTC),
            row_age=age,
            forecast_age=self.forecast_age,
            period=self._maker.period if self._maker else 0.0,
            sensors=schema.sensor_names,
            commands=schema.command_names,
            units={channel.name: channel.unit for channel in schema.channels},
            recent=self._recent(),
            plan=self._said.plan if self._said else PlanUsed("none", "there is no forecast yet"),
            horizons=tuple(model.horizons),
            forecast=self._intervals(),
            lights=lights,
            verdict=Light("red", self._absent) if self._absent else verdict,
            counters=self._counters(),
            notices=tuple(self._notices),
        )

    def _recent(self) -> Recent:
        rows = list(self._rows) if self._rows is not None else []
        schema = self.model.model.schema
        return Recent(
            tuple(row.time for row in rows),
            {name: tuple(row.values[name] for row in rows) for name in schema.sensor_names},
            {name: tuple(row.values[name] for row in rows) for name in schema.command_names},
        )

    def _intervals(self) -> dict[str, ChannelForecast]:
        """Median and 90 % of every sensor that the machine shows."""
        if self._said is None:
            return {}
        said, forecast = self._said, self._said.forecast
        columns = [(column, name) for column, name in enumerate(forecast.sensors) if name in forecast.measured]
        return {
            name: ChannelForecast(*(tuple(values[:, column].tolist()) for values in (said.median, said.low, said.high)))
            for column, name in columns
        }

    def _counters(self) -> Counters:
        counts = self._counts
        return Counters(
            samples=counts["samples"],
            rows=counts["rows"],
            gaps=counts["gap"],
            late=counts["late"],
            dropped=self._queue.dropped,
            doubled=counts["doubled"],
            reconnects=counts["reconnect"],
            restarts=counts["restart"],
            skew=round(self._clock.skew, 3),
        )


def _learner(model: OpenedModel, folder: Path) -> "LiveLearner":
    from crossfeed.live.learning import LiveLearner

    return LiveLearner(model, folder)
