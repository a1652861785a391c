"""A forecaster whose model sees machines in another frame than that of the windows it is judged on.

B windows, C sensors.
"""

from dataclasses import replace

import torch
from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch


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


def reframed(batch: WindowBatch, before: Normaliser, after: Normaliser) -> WindowBatch:
    """The windows in another z-space; absent entries stay zero, commands that it does not name are left out.

    A command that the windows do not have stands still.
    """
    names = before.command_names
    column = {name: names.index(name) for name in after.command_names if name in names}

    def sensors(values: Tensor, present: Tensor) -> Tensor:
        return torch.where(present, after.transform_sensors(before.inverse_sensors(values)), 0.0)

    def commands(values: Tensor) -> Tensor:
        known = before.inverse_commands(values)
        still = torch.zeros_like(known[..., 0])
        own = [known[..., column[name]] if name in column else still for name in after.command_names]
        return after.transform_commands(torch.stack(own, dim=-1))

    return replace(
        batch, x_BKC=sensors(batch.x_BKC, batch.m_BKC), future_x_BHC=sensors(batch.future_x_BHC, batch.future_m_BHC),
        a_BKA=commands(batch.a_BKA), mean_a_BHA=commands(batch.mean_a_BHA), future_a_BTA=commands(batch.future_a_BTA),
    )  # fmt: skip
