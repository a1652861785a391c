"""Forecasts in another frame than that of the windows: one for all sessions, or one for each.

B windows, C sensors.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet


class InFrame(Forecaster):
    """A forecaster that reads windows in its own frame and answers in that of the windows."""

    def __init__(self, inner: Forecaster, frame: Normaliser, windows: Normaliser) -> None:
        self.name, self.uses_future_commands = inner.name, inner.uses_future_commands
        self._inner, self._frame, self._windows = inner, frame, windows

    def predict(self, batch: WindowBatch) -> Distribution:
        forecast = self._inner.predict(reframed(batch, self._windows, self._frame))
        scale = self._frame.sensor_scale / self._windows.sensor_scale
        location = (self._frame.sensor_location - self._windows.sensor_location) / self._windows.sensor_scale
        like = batch.x_BKC
        return forecast.moved(torch.from_numpy(location).to(like), torch.from_numpy(scale).to(like))


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


def reframed(batch: WindowBatch, before: Normaliser, after: Normaliser) -> WindowBatch:
    """The windows in another z-space; absent entries stay zero, commands that it does not name are left out."""
    named = [before.command_names.index(name) for name in after.command_names]

    def sensors(values: Tensor, present: Tensor) -> Tensor:
        return torch.where(present, after.transform_sensors(before.inverse_sensors(values)), 0.0)

    def commands(values: Tensor) -> Tensor:
        return after.transform_commands(before.inverse_commands(values)[..., named])

    return replace(
        batch, x_BKC=sensors(batch.x_BKC, batch.m_BKC), future_x_BHC=sensors(batch.future_x_BHC, batch.future_m_BHC),
        a_BKA=commands(batch.a_BKA), mean_a_BHA=commands(batch.mean_a_BHA), future_a_BTA=commands(batch.future_a_BTA),
    )  # fmt: skip


def _some(batch: WindowBatch, index_B: Tensor) -> WindowBatch:
    return WindowBatch(**{name: getattr(batch, name)[index_B] for name in WindowBatch.__dataclass_fields__})
