"""From the newest rows to the next seconds: the plan, the forecast, and what is learned on the way."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.plan import as_array
from crossfeed.live.program_plan import ProgramFollower
from crossfeed.live.promises import Outline, Said
from crossfeed.live.row import Row
from crossfeed.live.shared_forecasts import DueWindow, SharedForecasts
from crossfeed.live.snapshot import PlanUsed
from crossfeed.live.source import Value
from crossfeed.live.trust import Trust
from crossfeed.model.live import LiveForecaster


class Outlook:
    """Looks ahead for one machine; what it says it promises, so that it can be judged."""

    def __init__(
        self,
        model: OpenedModel,
        forecasts: SharedForecasts,
        trust: Trust,
        follower: ProgramFollower,
        learn: Path | None = None,
    ) -> None:
        self._model, self._forecasts, self._trust, self._follower = model.model, forecasts, trust, follower
        self._forecaster = LiveForecaster(forecasts.model)
        self._learner = self._tracked = None
        if learn is not None:
            # Imported on request: this brings the room of training along.
            from crossfeed.live.learning import LiveLearner
            from crossfeed.live.tracked_intervals import TrackedIntervals

            self._learner = LiveLearner(model, learn)
            self._tracked = TrackedIntervals(model.model.horizons, trust.period)

    async def look(self, rows: Sequence[Row], states: Mapping[str, Value], unread: int, reread: bool) -> Said | None:
        """The forecast after the last of the rows of the running session; None while they are too few."""
        plan: PlanUsed | None = None

        def prepare() -> DueWindow | None:
            nonlocal plan
            self._push(rows, unread, reread)
            if self._forecaster.missing_rows:
                return None
            plan = self._follower.plan(states, rows[-1].time, rows[-1].values, self._model.horizons[-1])
            return DueWindow(self._forecaster, as_array(plan, self._model.schema))

        foreseen = await self._forecasts.ask(prepare)
        if foreseen is None:
            return None
        assert plan is not None
        forecast, outline = foreseen.forecast, foreseen.outline
        if self._tracked is not None:
            forecast = self._tracked.widen(rows[-1], forecast, rows)
            outline = Outline.of(forecast.distribution)
        said = Said(rows[-1], plan, forecast, outline, foreseen.doubt)
        self._trust.promise(said)
        return said

    def _push(self, rows: Sequence[Row], unread: int, reread: bool) -> None:
        """Push what is new, or everything after a change."""
        if self._learner is not None and self._learner.observe(rows):
            self._forecaster, reread = LiveForecaster(self._learner.model), True
        if reread:
            self._forecaster.reset()
            unread = self._model.config.context
        for row in rows[-unread:]:
            self._forecaster.push(row.values)

    def close(self) -> None:
        """Keep what was learned."""
        if self._learner is not None:
            self._learner.close()
