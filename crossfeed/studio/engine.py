"""The model behind the service: quick forecasts that share passes, and plans rolled forward and compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel, WorldModelForecaster
from crossfeed.files import plain
from crossfeed.model.forecast import forecast
from crossfeed.model.live import packed
from crossfeed.programs.motion import MotionLimits
from crossfeed.scenarios.history import History
from crossfeed.scenarios.measures import check_sensors, warnings_about, warnings_of
from crossfeed.scenarios.plan import PlannedCommands
from crossfeed.scenarios.rollout import answer_together
from crossfeed.scenarios.what_if import what_if
from crossfeed.studio.moments import MonitoredMachine, TableMoments, sent_moment
from crossfeed.studio.plans import Uploads, make_plans
from crossfeed.studio.requests import ForecastRequest, MomentRequest, PlansRequest, RefusalError, WhatIfRequest
from crossfeed.studio.settings import Limits


def ready_to_answer(opened: OpenedModel) -> OpenedModel:
    """The model with its weights laid out once for many small questions."""
    twin = packed(opened.model.eval())
    return replace(opened, forecaster=WorldModelForecaster(twin, opened.forecaster.name))


@dataclass(frozen=True, eq=False)
class Question:
    """One window under one plan; those with equal horizons can share a pass."""

    rows: np.ndarray  # (K, sensors + commands)
    plan: PlannedCommands
    horizons: tuple[int, ...]
    levels: tuple[float, ...]


@dataclass(eq=False)
class ForecastEngine:
    """A model that answers."""

    opened: OpenedModel
    table: TableMoments | None
    shown_machine: MonitoredMachine | None
    uploads: Uploads
    limits: Limits
    motion: MotionLimits

    def moment(self, asked: MomentRequest) -> History:
        """The rows before the forecast: as sent, of a named moment of the table, or the newest beside the service."""
        if asked.history is not None:
            return sent_moment(asked, self.opened)
        newest = asked.session is None and asked.at is None
        if newest and self.shown_machine is not None and (history := self.shown_machine.history) is not None:
            return history
        if self.table is not None:
            return self.table.at(asked.session, asked.at)
        if self.shown_machine is None:
            raise RefusalError(
                409,
                "The service has no history of its own.",
                expected="rows under 'history' in the request",
                remedy="Start crossfeed serve with --history or --live.",
            )
        if newest:
            raise RefusalError(409, "Too few live rows have arrived for a forecast.", remedy="Wait some seconds.")
        raise RefusalError(409, "There is no table to choose a moment from.", expected="no 'session' and no 'at'")

    def _plans(self, asked: PlansRequest, history: History) -> list[PlannedCommands]:
        longest = self.opened.model.horizons[-1]
        return make_plans(asked.plans, history, self.uploads, self.limits, self.motion, longest, asked.seconds)

    def questions(self, asked: ForecastRequest) -> tuple[History, list[Question]]:
        """What has to be computed for a quick forecast."""
        model, history = self.opened.model, self.moment(asked)
        plans = self._plans(asked, history)
        context = model.config.context
        rows = np.concatenate([history.sensors[-context:], history.commands[-context:]], axis=1)
        return history, [
            Question(rows, plan, tuple(h for h in model.horizons if h <= len(plan)), tuple(asked.levels))
            for plan in plans
        ]

    def answer_all(self, questions: Sequence[Question]) -> list[dict[str, Any] | Exception]:
        """Distributions in physical units; questions of equal horizons go through the network together."""
        return answer_together(questions, lambda question: question.horizons, self._together)

    def _together(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        model, horizons = self.opened.model, questions[0].horizons
        distribution = forecast(
            model, np.stack([question.rows for question in questions]),
            np.stack([question.plan.commands[: horizons[-1]] for question in questions]), horizons,
        )  # fmt: skip
        levels = sorted({level for question in questions for level in question.levels})
        values = dict(zip(levels, distribution.quantiles(levels)))
        sensors = model.schema.sensor_names
        answers = []
        for window, question in enumerate(questions):
            present = np.isfinite(question.rows[:, : len(sensors)]).any(axis=0)
            answers.append(
                {
                    "horizons": list(horizons),
                    "sensors": {
                        name: {
                            "mean": distribution.mean[window, :, column].tolist(),
                            "quantiles": {f"{x:g}": values[x][window, :, column].tolist() for x in question.levels},
                        }
                        for column, name in enumerate(sensors)
                        if present[column]
                    },
                }
            )
        return answers

    def forecast_content(
        self, history: History, questions: Sequence[Question], answers: Sequence[Any]
    ) -> dict[str, Any]:
        """The answer to a quick forecast: each plan with its commands and its fan."""
        period = history.period
        plans = {
            question.plan.name: {
                "time": [horizon * period for horizon in question.horizons],
                "duration": len(question.plan) * period,
                "commands": dict(zip(history.schema.command_names, question.plan.commands.T)),
                "sensors": answer["sensors"],
                "warnings": warnings_of(question.plan, history, self.opened.provenance),
            }
            for question, answer in zip(questions, answers)
        }
        content = {
            "machine": history.group.machine,
            "session": history.group.session,
            "at": history.at,
            "period": period,
            "units": {channel.name: channel.unit for channel in (*history.schema.sensors, *history.schema.commands)},
            "plans": plans,
            "warnings": warnings_about(history, self.opened.provenance),
        }
        return dict(plain(content))

    def compare(self, asked: WhatIfRequest, go_on: Callable[[], None]) -> dict[str, Any]:
        """Plans rolled forward on sampled futures."""
        if asked.samples > self.limits.samples:
            raise RefusalError(422, f"{asked.samples} samples were asked for.", expected=f"20 to {self.limits.samples}")
        model, history = self.opened.model, self.moment(asked)
        check_sensors(asked.limits, model.schema, np.isfinite(history.sensors).any(axis=0), "The limited sensor")
        go_on()
        plans = self._plans(asked, history)
        answer = what_if(
            self.opened, history, plans, samples=asked.samples, seed=asked.seed, limits=asked.limits, go_on=go_on
        )
        return {**answer.to_dict(), "doubts": list(answer.all_warnings)}
