"""A model beside a running machine: rows as they are born, a forecast for each, and whether to believe it.

Machines whose rows end at the same moment share one pass of the model: their windows are stacked, the answers split.
B windows, K context rows, C sensors, A commands, T planned steps, H horizons.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from crossfeed.errors import CrossfeedError, LogError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.program_plan import PlanFollower, ProgramFollower
from crossfeed.live.snapshot import Counters, Light, LivePlannedCommands, RecentRows, Row, Snapshot, worst
from crossfeed.live.source import Arrival, BoundedQueue, LiveSource, SourceClock, Value, backoff, listening
from crossfeed.live.trust import ForecastSummary, PromisedForecast, PromiseRecord, Trust
from crossfeed.logs.declaration import LogFormat
from crossfeed.model.forecast import Forecast, read_commands, to_forecast
from crossfeed.model.interface import Plan
from crossfeed.model.live import LiveForecaster, packed
from crossfeed.model.world_model import WorldModel
from crossfeed.processes import wide_products
from crossfeed.programs.motion import MotionLimits
from crossfeed.scenarios.rollout import SharedPass, answer_together

if TYPE_CHECKING:
    from crossfeed.live.learning import LiveLearner, TrackedIntervals
    from crossfeed.live.row_maker import ArrivalReader

_TICK_S = 0.25  # ages and lights move at least so often
_FORECAST_S = 0.5  # a forecast is made at least so often, however far behind we are
_SHOWN_ROWS = 300
_MOST = 64  # windows in one pass


@dataclass(frozen=True, eq=False)
class WindowForecast:
    """The answer for one window; `doubt` is how far the members of the model are apart, where it has several."""

    forecast: Forecast
    summary: ForecastSummary
    doubt: float | None = None


@dataclass(frozen=True, eq=False)
class DueWindow:
    """A machine that is due: its newest rows, and the commands (T, A) of the next ones."""

    forecaster: LiveForecaster
    commands: np.ndarray


Prepare = Callable[[], DueWindow | None]


class SharedForecasts(SharedPass[Prepare, WindowForecast | None]):
    """One model for all who watch; given to several monitors, it forecasts for those that are due in one pass.

    Asked for the window that a function makes, in the thread of the pass; the answer is None where it makes none.
    """

    def __init__(self, model: WorldModel) -> None:
        super().__init__(_answer_all, _MOST)
        self.model = packed(model.eval())


def _answer_all(questions: Sequence[Prepare]) -> list[WindowForecast | Exception | None]:
    windows = [_prepared(prepare) for prepare in questions]
    due = [window for window in windows if isinstance(window, DueWindow)]
    # A machine whose model learns has weights of its own.
    answers = iter(answer_together(due, lambda window: id(window.forecaster.model), forecast_together))
    return [next(answers) if isinstance(window, DueWindow) else window for window in windows]


def _prepared(prepare: Prepare) -> DueWindow | CrossfeedError | None:
    try:
        return prepare()
    except CrossfeedError as error:
        return error


@wide_products()
@torch.inference_mode()
def forecast_together(windows: Sequence[DueWindow]) -> list[WindowForecast]:
    """The forecasts of windows of one model, each as it would be alone."""
    model = windows[0].forecaster.model
    if len(windows) == 1 and model.keeps_rows:
        # The paper's network keeps the rows it has read: alone, a machine costs one row.
        alone = windows[0].forecaster.forecast(windows[0].commands)
        return [WindowForecast(alone, ForecastSummary.of(alone.distribution))]
    pairs = [window.forecaster.window() for window in windows]
    x_BKC, a_BKA = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    future_BTA = torch.cat([read_commands(model, window.commands, model.horizons) for window in windows])
    present_BC = x_BKC.isfinite().any(1)
    worth = model.channels_to_read(present_BC.any(0), absent_too=False)
    context = model.encode(x_BKC, x_BKC.isfinite(), a_BKA, worth)
    prediction = model.decode(context, Plan.under(future_BTA, model.horizons))
    apart_BHC = prediction.disagreement
    together = to_forecast(model, prediction.distribution, model.horizons, present_BC.any(0), single=False)
    summary, names = ForecastSummary.of(together.distribution), model.schema.sensor_names
    return [
        WindowForecast(
            replace(
                together,
                distribution=together.distribution[number],
                measured=tuple(name for name, seen in zip(names, present_C.tolist(), strict=True) if seen),
            ),
            summary[number],
            None if apart_BHC is None else float(apart_BHC[number][:, present_C].mean()),
        )
        for number, present_C in enumerate(present_BC)
    ]


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
        self._opened, self._model, self.source = model, model.model, source
        self.programs, self.waits_for_source = programs, waits_for_source
        self._forecasts = SharedForecasts(model.model) if forecasts is None else forecasts
        self._forecaster = LiveForecaster(self._forecasts.model)
        self._limits, self._learner, self._learning = limits or MotionLimits(), learner, ""
        self._tracked: TrackedIntervals | None = None
        self._follower, self._clock = follower, SourceClock(speed, source.replays)
        self._shown_rows = max(_SHOWN_ROWS, model.model.config.context)
        self._trust = Trust(model)
        self._reader: ArrivalReader | None = None
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
        self._opened.check_rows(log_format.period, f"The source {self.source.title}")
        schema = self._model.schema
        self._reader, self._source_error = ArrivalReader(log_format, schema, self._shown_rows, self._clock), ""
        self._trust.period = log_format.period
        self._follower = self._follower or ProgramFollower(self.programs, schema, log_format.period, self._limits)
        if self._learner is not None:
            # Imported on request: this brings the room of evaluation along.
            from crossfeed.live.learning import TrackedIntervals

            self._tracked = TrackedIntervals(self._model.horizons, log_format.period)
        try:
            async with listening(self.source, self._queue.put) as heard:
                while True:
                    arrived = await self._queue.take(_TICK_S)
                    await self._digest(arrived, self._reader)
                    self._publish()
                    if heard.done() and not len(self._queue):
                        heard.result()
                        return
        finally:
            if self._learner is not None:
                self._learner.close()  # keeps what was learned

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

    async def _digest(self, arrived: Sequence[Arrival], reader: "ArrivalReader") -> None:
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
            self._promised = await self._forecast(reader.rows.running(), reader.states, unread, reread)
            self._forecast_error = ""
        except CrossfeedError as error:
            self._promised, self._forecast_error = None, error.found
            reader.reread = True

    async def _forecast(
        self, rows: Sequence[Row], states: Mapping[str, Value], unread: int, reread: bool
    ) -> PromisedForecast | None:
        """The forecast after the last of the rows of the running session; None while they are too few."""
        follower, plan = self._follower, LivePlannedCommands("none", "")
        assert follower is not None

        def prepare() -> DueWindow | None:
            nonlocal plan
            fresh = rows[-unread:]
            if self._learn(rows) or reread:
                self._forecaster.reset()
                fresh = rows[-self._model.config.context :]
            for row in fresh:
                self._forecaster.push(row.values)
            if self._forecaster.missing_rows:
                return None
            plan = follower.plan(states, rows[-1].time, rows[-1].values, self._model.horizons[-1])
            commands = np.array([plan.commands[name] for name in self._model.schema.command_names]).T
            return DueWindow(self._forecaster, commands)

        answer = await self._forecasts.ask(prepare)
        if answer is None:
            return None
        forecast, summary = answer.forecast, answer.summary
        if self._tracked is not None:
            forecast = await asyncio.to_thread(self._tracked.widen, rows[-1], forecast, rows)
            summary = await asyncio.to_thread(ForecastSummary.of, forecast.distribution)
        promised = PromisedForecast(rows[-1], plan, forecast, summary, answer.doubt)
        self._trust.promise(promised)
        return promised

    def _learn(self, rows: Sequence[Row]) -> bool:
        """Let the model learn; True when it changed. What goes wrong with learning must not cost the forecasts."""
        if self._learner is None:
            return False
        try:
            changed = self._learner.observe(rows)
        except CrossfeedError as error:
            self._learner, self._forecaster = None, LiveForecaster(self._forecasts.model)
            self._learning = f"it has stopped, and the locked model forecasts: {error.found}"
            return True
        self._learning = self._learner.sentence
        if changed:
            self._forecaster = LiveForecaster(self._learner.model)
        return changed

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
        model, schema, reader, promised = self._model, self._model.schema, self._reader, self._promised
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
            learning=self._learning,
        )
