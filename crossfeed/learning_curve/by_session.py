"""Forecasts by another forecaster for each session."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.evaluation.forecaster import Forecaster
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
