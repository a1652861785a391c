"""A model beside a running machine: rows as they are born, a forecast for each, and whether to believe it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from crossfeed.errors import CrossfeedError, LogError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.machine_forecaster import MachineForecaster, SharedForecasts
from crossfeed.live.program_plan import PlanFollower, ProgramFollower
from crossfeed.live.snapshot import Counters, Light, LivePlannedCommands, RecentRows, Snapshot, worst
from crossfeed.live.source import Arrival, BoundedQueue, LiveSource, SourceClock, backoff, listening
from crossfeed.live.trust import PromisedForecast, PromiseRecord, Trust
from crossfeed.logs.declaration import LogFormat
from crossfeed.programs.motion import MotionLimits

if TYPE_CHECKING:
    from crossfeed.live.learning import LiveLearner
    from crossfeed.live.row_maker import ArrivalReader

_TICK_S = 0.25  # ages and lights move at least so often
_FORECAST_S = 0.5  # a forecast is made at least so often, however far behind we are
_SHOWN_ROWS = 300


class Monitor:
    """Reads a source, keeps the newest rows, forecasts after each of them and tells its listeners."""

    def __init__(
        self,
        model: OpenedModel,
        source: LiveSource,
        programs: Path | None = None,
        *,
        follower: PlanFollower | None = None,
        forecasts: SharedForecasts | None = None,
        limits: MotionLimits | None = None,
        learner: "LiveLearner | None" = None,
        speed: float = 1.0,
        waits_for_source: bool = False,
    ) -> None:
        """With `waits_for_source` the machine need not be there yet; monitors with the same `forecasts` share passes.

        Without a `follower` the running program of the folder `programs` is the plan. A learner
        (`crossfeed.live.learning`) moves a copy of the model while it watches.
        """
        self.model, self.source, self.programs, self.waits_for_source = model, source, programs, waits_for_source
        self._forecasts = SharedForecasts(model.model) if forecasts is None else forecasts
        self._limits, self._learner = limits or MotionLimits(), learner
        self._follower, self._clock = follower, SourceClock(speed, source.replays)
        self._shown_rows = max(_SHOWN_ROWS, model.model.config.context)
        self._trust = Trust(model)
        self._reader: ArrivalReader | None = None
        self._forecaster: MachineForecaster | None = None
        self._queue = BoundedQueue()
        self._promised: PromisedForecast | None = None
        self._next_forecast = 0.0
        self._forecast_error = self._source_error = ""
        self._listeners: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Listen until cancelled, or until the source cannot be had at all."""
        try:
            await self._work()
        except CrossfeedError as error:
            self._source_error = error.found
            self._publish()
            raise

    async def _open(self) -> LogFormat:
        """What the source will tell; asked again, where that is wanted, until there is one."""
        waits = backoff()
        while True:
            try:
                return await self.source.open()
            except LogError as error:
                if not self.waits_for_source:
                    raise
                self._source_error = f"{error.found} It is tried again."
                self._publish()
            await asyncio.sleep(next(waits))

    async def _work(self) -> None:
        # Imported late: this brings polars along, which a first page need not wait for.
        from crossfeed.live.row_maker import ArrivalReader

        log_format = await self._open()
        self.model.check_rows(log_format.period, f"The source {self.source.title}")
        schema = self.model.model.schema
        self._reader, self._source_error = ArrivalReader(log_format, schema, self._shown_rows, self._clock), ""
        self._trust.period = log_format.period
        follower = self._follower or ProgramFollower(self.programs, schema, log_format.period, self._limits)
        forecaster = self._forecaster = MachineForecaster(
            self.model.model, self._forecasts, self._trust, follower, self._learner
        )
        try:
            async with listening(self.source, self._queue.put) as heard:
                while True:
                    arrived = await self._queue.take(_TICK_S)
                    await self._digest(arrived, self._reader, forecaster)
                    self._publish()
                    if heard.done() and not len(self._queue):
                        heard.result()
                        return
        finally:
            forecaster.close()

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

    async def _digest(self, arrived: Sequence[Arrival], reader: "ArrivalReader", forecaster: MachineForecaster) -> None:
        if reader.take(arrived):
            self._trust.observe(reader.rows.running())
        if not reader.unread:
            return
        await asyncio.sleep(0)  # let the source hand over what has arrived meanwhile
        if len(self._queue) and time.monotonic() < self._next_forecast:
            return  # behind: newer rows wait already, and a forecast from older ones would only make them older
        self._next_forecast = time.monotonic() + _FORECAST_S
        unread, reread = reader.unread, reader.reread
        reader.unread, reader.reread = 0, False
        try:
            self._promised = await forecaster.forecast(reader.rows.running(), reader.states, unread, reread)
            self._forecast_error = ""
        except CrossfeedError as error:
            self._promised, self._forecast_error = None, error.found
            reader.reread = True

    @property
    def promise_records(self) -> Mapping[str, PromiseRecord]:
        """How the latest forecasts of each sensor were kept."""
        return self._trust.promises.records

    @property
    def forecast_age(self) -> float | None:
        """Seconds since the end of the row from which the present forecast starts."""
        return None if self._promised is None else self._clock.age(self._promised.row.time)

    def snapshot(self) -> Snapshot:
        """Everything that is known now."""
        model, schema, reader, promised = self.model.model, self.model.model.schema, self._reader, self._promised
        rows = reader.rows if reader else None
        age = None if rows is None or rows.newest is None else self._clock.age(rows.newest.time)
        channels = {column.channel for column in reader.log_format.columns} if reader else set()
        missing = model.config.context - (len(rows.running()) if rows is not None else 0)
        lights = self._trust.lights(channels, age, self._forecast_error, max(missing, 0))
        verdict = Light(worst(lights), self._trust.verdict(lights, self._clock.skew_warning))
        return Snapshot(
            machine=reader.log_format.machine if reader else "",
            source=self.source.title,
            clock=datetime.now(UTC),
            row_age=age,
            forecast_age=self.forecast_age,
            period=reader.log_format.period if reader else 0.0,
            sensors=schema.sensor_names,
            commands=schema.command_names,
            units={channel.name: channel.unit for channel in schema.channels},
            recent=RecentRows.of(list(rows) if rows is not None else [], schema),
            plan=promised.plan if promised else LivePlannedCommands("none", "there is no forecast yet"),
            horizons=tuple(model.horizons),
            forecast=promised.intervals() if promised else {},
            lights=lights,
            verdict=Light("red", self._source_error) if self._source_error else verdict,
            counters=reader.counters(self._queue.dropped) if reader else Counters(),
            notices=tuple(reader.notices) if reader else (),
            learning=self._forecaster.learning if self._forecaster else "",
        )
