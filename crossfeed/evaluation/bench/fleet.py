"""The model of many machines as one of the contenders: as it came, or after it has learned on."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import Budget, Size
from crossfeed.evaluation.baselines.contenders import Fitted, arm_config
from crossfeed.evaluation.bench.own_logs import JudgedWindows, OwnLogs
from crossfeed.evaluation.forecaster import Forecaster, InFrame
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.evaluation.opened_model import OpenedModel, WorldModelForecaster, open_model
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.model.distribution import Distribution
from crossfeed.model.model_file import FLEET, locate_model
from crossfeed.model.new_machine import in_frame, readable_schema
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig
from crossfeed.windows.frame import fit_frame
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split_tables import DataConfig, SplitTables
from crossfeed.windows.windows import WindowBatch, WindowSet


class BySession(Forecaster):
    """Asks for each window the forecaster of its session; all of one family."""

    def __init__(self, name: str, listens: bool, windows: WindowSet, of_session: Callable[[str], Forecaster]) -> None:
        self.name, self.uses_future_commands = name, listens
        self._sessions = [count.session for count in windows.counts]
        stops = torch.cumsum(torch.tensor([count.rows for count in windows.counts]), 0)
        self._stops = stops.to(windows.last_W.device)
        # Windows come session after session: the last few forecasters are enough.
        self._of_session = lru_cache(maxsize=2)(of_session)

    def predict(self, batch: WindowBatch) -> Distribution:
        session_B = torch.bucketize(batch.last_index_B, self._stops, right=True)
        numbers = sorted(set(session_B.tolist()))
        rows = [(session_B == number).nonzero().flatten() for number in numbers]
        parts = [
            self._of_session(self._sessions[number]).predict(_some(batch, row_B))
            for number, row_B in zip(numbers, rows, strict=True)
        ]
        return Distribution.concatenate(parts)[torch.cat(rows).argsort()]


def _some(batch: WindowBatch, index_B: Tensor) -> WindowBatch:
    return WindowBatch(**{name: getattr(batch, name)[index_B] for name in WindowBatch.__dataclass_fields__})


AS_IT_CAME, LEARNED_ON = "as it came", "learned on"


def open_fleet(path: Path | str, device: str) -> OpenedModel:
    """The model of many machines; a missing file and a model of one machine are refused."""
    if not Path(locate_model(path)).is_file():
        raise ConfigError(
            f"There is no model of many machines at {path}."
            if str(path) != FLEET
            else "This installation carries no fleet file.",
            expected="a model trained with model.identity=described and data.normaliser=frame",
            remedy="Name one with --fleet PATH, or leave fleet out of --models.",
        )
    opened = open_model(path, device, many_machines=True)
    if not opened.model.normaliser.is_placeholder:
        raise ConfigError(
            f"{path} is a model of one machine, not of many.",
            expected="a model trained with model.identity=described and data.normaliser=frame",
            remedy="Leave --fleet away to take the one that is shipped.",
        )
    return opened


@dataclass(frozen=True)
class FleetContender:
    """The fleet before this machine; `schema` is how it reads the table as it came.

    Once it has learned on it reads further commands as well; the judged windows hold those too.
    """

    opened: OpenedModel
    logs: OwnLogs
    judged: JudgedWindows

    @cached_property
    def schema(self) -> Schema:
        return readable_schema(self.logs.table.schema, self.opened.model.schema)

    @cached_property
    def scored(self) -> EvaluationSet:
        """The judged windows as the fleet reads them."""
        found = self.logs.table
        schema = readable_schema(found.schema, self.opened.model.schema, further=True)
        return self.judged.of_table(align(found.laid_out(self.logs.test), schema), self.judged.space_for(schema))

    def with_beginnings(self) -> Fitted:
        """At 0 minutes: each session in a frame from its own first rows, nothing learned."""
        beginnings = align(self.logs.beginnings(), self.schema)
        of_session = {group.session: group for group in beginnings.groups}

        def met(session: str) -> Forecaster:
            return self._in(self._frame(beginnings.select([of_session[session]])))

        forecaster = BySession(FLEET, True, self.scored.windows, met)
        return self._fitted(forecaster, 0.0, {"kept": AS_IT_CAME, "frame": "first rows of each session"})

    def as_it_came(self, rows: Table) -> Fitted:
        """In a frame from these rows, nothing learned."""
        return self._fitted(self._in(self._frame(align(rows, self.schema))), 0.0, {"kept": AS_IT_CAME})

    def learned_on(
        self, rows: Table, sides: Table, budget: Budget, size: Size, config: RunConfig, seed: int, folder: Path
    ) -> Fitted:
        """After learning on the train pieces, if that is better on the validation pieces; else as it came."""
        began = time.monotonic()
        asked = arm_config("crossfeed", budget, size, seed, config)
        device = self.judged.device
        run = train(sides, asked, folder, resume=folder.exists(), device=device, pretrained=self.opened.path)
        learned = WorldModel.load(run.model, device=device)
        crps = {
            AS_IT_CAME: self._on_validation(
                align(sides, self.schema), lambda frame: in_frame(self.opened.model, self.schema, frame)
            ),
            LEARNED_ON: self._on_validation(align(sides, learned.schema), lambda _: learned),
        }
        details: dict[str, Any] = {"validation_crps": crps, "stages": run.summary["stages"]}
        seconds = time.monotonic() - began
        if crps[LEARNED_ON] >= crps[AS_IT_CAME]:
            came = self.as_it_came(rows)
            return self._fitted(came.forecaster, seconds, {**details, "kept": AS_IT_CAME})
        forecaster = InFrame(WorldModelForecaster(learned, FLEET), learned.normaliser, self.scored.normaliser)
        return self._fitted(forecaster, seconds, {**details, "kept": LEARNED_ON})

    def _on_validation(self, sides: Table, of_frame: Callable[[Normaliser], WorldModel]) -> float:
        """CRPS on the validation pieces, in the frame of the train pieces."""
        data = DataConfig(split_by="side", normaliser="frame")
        source = SplitTables.of([sides], data, self._usual)
        frame = source.normaliser("frame")
        windows = source.windows(
            "validation", frame, self.judged.context, self.judged.horizons, data.stride, self.judged.device
        )
        judged = EvaluationSet(windows, sides.schema, frame, self.judged.space_for(sides.schema), "session")
        crps = score_windows(WorldModelForecaster(of_frame(frame), FLEET), judged).metrics()["crps"]
        assert crps is not None, "validation windows show at least one sensor"
        return crps

    @property
    def _usual(self) -> dict[str, float]:
        return dict(self.opened.provenance.get("usual_scales", {}))

    def _frame(self, rows: Table) -> Normaliser:
        return fit_frame(self.schema, rows.sensors, rows.commands, self._usual)

    def _in(self, frame: Normaliser) -> InFrame:
        model = in_frame(self.opened.model, self.schema, frame)
        return InFrame(WorldModelForecaster(model, FLEET), frame, self.scored.normaliser)

    def _fitted(self, forecaster: Forecaster, seconds: float, details: dict[str, Any]) -> Fitted:
        parameters = sum(p.numel() for p in self.opened.model.parameters())
        return Fitted(forecaster, parameters, seconds, details)
