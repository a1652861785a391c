"""Contexts of a sensor model, and some of the windows of a batch."""

from dataclasses import replace

from torch import Tensor

from crossfeed.model.sensors.model import SensorContext, SensorModel
from crossfeed.windows.windows import WindowBatch


def encode(model: SensorModel, batch: WindowBatch) -> SensorContext:
    context = model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
    assert isinstance(context, SensorContext)
    return context


def chosen(batch: WindowBatch, windows_B: Tensor | slice) -> WindowBatch:
    """Some of the windows."""
    return replace(batch, **{name: getattr(batch, name)[windows_B] for name in batch.__dataclass_fields__})
