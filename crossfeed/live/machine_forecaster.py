"""From the newest rows to the next seconds: the plan, the forecast, and what is learned on the way.

Machines whose rows end at the same moment share one pass of the model: their windows are stacked, the answers split.
B windows, K context rows, C sensors, A commands, T planned steps, H horizons.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from crossfeed.errors import CrossfeedError
from crossfeed.live.program_plan import PlanFollower
from crossfeed.live.snapshot import LivePlannedCommands, Row
from crossfeed.live.source import Value
from crossfeed.live.trust import ForecastSummary, PromisedForecast, Trust
from crossfeed.model.forecast import Forecast, read_commands, to_forecast
from crossfeed.model.interface import Plan
from crossfeed.model.live import LiveForecaster, packed
from crossfeed.model.world_model import WorldModel
from crossfeed.processes import wide_products
from crossfeed.scenarios.rollout import SharedPass, answer_together

if TYPE_CHECKING:
    from crossfeed.live.learning import LiveLearner

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


class MachineForecaster:
    """Looks ahead for one machine; what it says it promises, so that it can be judged."""

    def __init__(
        self,
        model: WorldModel,
        forecasts: SharedForecasts,
        trust: Trust,
        follower: PlanFollower,
        learner: "LiveLearner | None",
    ) -> None:
        self._model, self._forecasts, self._trust, self._follower = model, forecasts, trust, follower
        self._forecaster = LiveForecaster(forecasts.model)
        self._learner, self._tracked = learner, None
        self.learning = ""
        if learner is not None:
            # Imported on request: this brings the room of evaluation along.
            from crossfeed.live.learning import TrackedIntervals

            self._tracked = TrackedIntervals(model.horizons, trust.period)

    async def forecast(
        self, rows: Sequence[Row], states: Mapping[str, Value], unread: int, reread: bool
    ) -> PromisedForecast | None:
        """The forecast after the last of the rows of the running session; None while they are too few."""
        plan: LivePlannedCommands | None = None

        def prepare() -> DueWindow | None:
            nonlocal plan
            self._push(rows, unread, self._learn(rows) or reread)
            if self._forecaster.missing_rows:
                return None
            plan = self._follower.plan(states, rows[-1].time, rows[-1].values, self._model.horizons[-1])
            commands = np.array([plan.commands[name] for name in self._model.schema.command_names]).T
            return DueWindow(self._forecaster, commands)

        answer = await self._forecasts.ask(prepare)
        if answer is None:
            return None
        assert plan is not None
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
