"""From the newest rows to the next seconds: the plan, the forecast, and what is learned on the way."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from crossfeed.errors import CrossfeedError
from crossfeed.live.program_plan import ProgramFollower
from crossfeed.live.promises import ForecastSummary, PromisedForecast
from crossfeed.live.row import Row
from crossfeed.live.shared_forecasts import DueWindow, SharedForecasts
from crossfeed.live.snapshot import PlanUsed
from crossfeed.live.source import Value
from crossfeed.live.trust import Trust
from crossfeed.model.live import LiveForecaster
from crossfeed.model.world_model import WorldModel

if TYPE_CHECKING:
    from crossfeed.live.learning import LiveLearner


class MachineForecaster:
    """Looks ahead for one machine; what it says it promises, so that it can be judged."""

    def __init__(
        self,
        model: WorldModel,
        forecasts: SharedForecasts,
        trust: Trust,
        follower: ProgramFollower,
        learner: "LiveLearner | None",
    ) -> None:
        self._model, self._forecasts, self._trust, self._follower = model, forecasts, trust, follower
        self._forecaster = LiveForecaster(forecasts.model)
        self._learner, self._tracked = learner, None
        self.learning = ""
        if learner is not None:
            # Imported on request: this brings the room of evaluation along.
            from crossfeed.live.tracked_intervals import TrackedIntervals

            self._tracked = TrackedIntervals(model.horizons, trust.period)

    async def forecast(
        self, rows: Sequence[Row], states: Mapping[str, Value], unread: int, reread: bool
    ) -> PromisedForecast | None:
        """The forecast after the last of the rows of the running session; None while they are too few."""
        plan: PlanUsed | None = None

        def prepare() -> DueWindow | None:
            nonlocal plan
            self._push(rows, unread, self._learn(rows) or reread)
            if self._forecaster.missing_rows:
                return None
            plan = self._follower.plan(states, rows[-1].time, rows[-1].values, self._model.horizons[-1])
            commands = np.array([plan.commands[name] for name in self._model.schema.command_names]).T
            return DueWindow(self._forecaster, commands)

        found = await self._forecasts.ask(prepare)
        if found is None:
            return None
        assert plan is not None
        forecast, summary = found.forecast, found.summary
        if self._tracked is not None:
            forecast = await asyncio.to_thread(self._tracked.widen, rows[-1], forecast, rows)
            summary = await asyncio.to_thread(ForecastSummary.of, forecast.distribution)
        promised = PromisedForecast(rows[-1], plan, forecast, summary, found.doubt)
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
            self.learning = f"it has stopped, and the locked model forecasts: {error.found}"
            return True
        self.learning = self._learner.sentence
        if changed:
            self._forecaster = LiveForecaster(self._learner.model)
        return changed

    def _push(self, rows: Sequence[Row], unread: int, reread: bool) -> None:
        """Push what is new, or everything after a change."""
        if reread:
            self._forecaster.reset()
            unread = self._model.config.context
        for row in rows[-unread:]:
            self._forecaster.push(row.values)

    def close(self) -> None:
        """Keep what was learned."""
        if self._learner is not None:
            self._learner.close()
