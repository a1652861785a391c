"""Learning beside the machine, on request: the code of `adaptation/`, a journal, and a guard that can take it all back.

Intervals follow the machine meanwhile: their widths grow and shrink with the errors so far. K context rows, H horizons,
T longest horizon, C sensors, A commands, L levels.
"""

import json
import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossfeed.configuration import parse
from crossfeed.errors import ForecastError, StorageError
from crossfeed.evaluation.adaptation.online import OnlineConfig
from crossfeed.evaluation.adaptation.parameters import Prepared, finish, observed_errors, prepare, update
from crossfeed.evaluation.conformal import ForecastTrace, adaptive_widths, centre_and_spread
from crossfeed.evaluation.metrics import LEVELS
from crossfeed.evaluation.opened_model import OpenedModel, WorldModelForecaster
from crossfeed.files import plain
from crossfeed.live.snapshot import Row
from crossfeed.model.distribution import Distribution, Quantiles
from crossfeed.model.forecast import Forecast
from crossfeed.model.world_model import WorldModel
from crossfeed.show.tables import plural
from crossfeed.training.optimiser import adamw
from crossfeed.windows.windows import WindowBatch

_TRACKED = 300  # forecasts whose errors are looked at
JOURNAL, LEARNED = "journal.jsonl", "learned.safetensors"
_GUARDED = 64  # windows over which the learned and the locked model are compared
_FEWEST = 24
_WORSE = 1.02
_KEPT = 2000
_AT_ONCE = 32  # windows taken in after one row; older ones are left out when rows come faster than they are learned


class TrackedIntervals:
    """Intervals whose widths follow the errors found so far, so that in the long run they hold what they promise."""

    def __init__(self, horizons: Sequence[int], period: float) -> None:
        self._horizons, self._period = tuple(horizons), period
        self._made: deque[tuple[int, np.ndarray, np.ndarray]] = deque(maxlen=_TRACKED)

    def widen(self, row: Row, forecast: Forecast, rows: Sequence[Row]) -> Forecast:
        """The forecast with tracked widths, which use only rows that have come."""
        centre, spread = (part.numpy() for part in centre_and_spread(forecast.distribution))
        self._made.append((round(row.time / self._period), centre, spread))
        stream = self._trace(forecast.sensors, rows)
        width_LHC = adaptive_widths(stream, self._horizons)[-1]
        return replace(forecast, distribution=_widened(forecast.distribution, width_LHC))

    def _trace(self, names: Sequence[str], rows: Sequence[Row]) -> ForecastTrace:
        by_number = {round(row.time / self._period): row for row in rows}
        clock = np.array([number for number, _, _ in self._made])
        x = np.full((len(clock), len(self._horizons), len(names)), np.nan)
        for index, number in enumerate(clock.tolist()):
            for position, horizon in enumerate(self._horizons):
                if (row := by_number.get(number + horizon)) is not None:
                    x[index, position] = row.floats(names)
        centre, spread = (np.stack([made[part] for made in self._made]) for part in (1, 2))
        return ForecastTrace(clock, centre, spread, x, np.isfinite(x))


def _widened(distribution: Distribution, width_LHC: np.ndarray) -> Quantiles:
    """The same median and mean with intervals of `width` predicted standard deviations to either side."""
    centre, spread = centre_and_spread(distribution)
    # Higher levels must not lie inside lower ones, whatever the widths were tracked to.
    widths = torch.from_numpy(np.maximum.accumulate(width_LHC, axis=0))
    pairs = list(zip(sorted(LEVELS), widths, strict=True))
    below = [(0.5 - level / 2.0, centre - width * spread) for level, width in reversed(pairs)]
    above = [(0.5 + level / 2.0, centre + width * spread) for level, width in pairs]
    levels, values = zip(*below, (0.5, centre), *above, strict=True)
    return Quantiles(levels, torch.stack(values, -1), distribution.plain().mean)


@dataclass(frozen=True, eq=False)
class _Window:
    batch: WindowBatch
    ahead_HC: torch.Tensor  # errors of the forecast as it was made


class LiveLearner:
    """Forecast first, learn once the targets were observed; worse than the locked model means back to it."""

    def __init__(self, model: OpenedModel, folder: Path, config: OnlineConfig | None = None) -> None:
        self._opened, self._config, self.folder = model, config or parse(OnlineConfig, {}, "Learning"), folder
        self._locked = WorldModelForecaster(model.model, "locked")
        self._windows: deque[_Window] = deque(maxlen=_KEPT)
        self._guarded: deque[tuple[float, float]] = deque(maxlen=_GUARDED)  # CRPS of the learned, of the locked model
        self._generator = torch.Generator().manual_seed(self._config.seed)
        self._done, self._lock, self._closed = -1.0, threading.Lock(), False
        self.updates = self.returns = self._since_return = 0
        self._begin()
        self._write("start", {"model": model.sha256, "config": self._config.model_dump(mode="json")})

    def _begin(self) -> None:
        self._prepared: Prepared = prepare(self._locked, self._config.mode, self._config.rank, self._config.seed)
        rate = torch.tensor(self._config.learning_rate)
        self._optimiser = adamw([(self._prepared.parameters, 0.0)], rate)
        self._new = self._since_return = 0

    @property
    def model(self) -> WorldModel:
        """The model that forecasts now."""
        forecaster = self._prepared.forecaster
        assert isinstance(forecaster, WorldModelForecaster)
        return forecaster.model

    @property
    def sentence(self) -> str:
        """What was learned so far, for people."""
        if not self.updates:
            return "no window has come due yet"
        often = "once" if self.returns == 1 else f"{self.returns} times"
        back = f"; it went back to the locked model {often}" if self.returns else ""
        if not self._since_return:
            return f"the locked model forecasts{back}"
        ratio = "" if self.ratio is None else f", its errors are {self.ratio:.1%} of those of the locked model"
        return f"{plural(self._since_return, 'step')} on {plural(len(self._windows), 'window')}{ratio}{back}"

    def observe(self, rows: Sequence[Row]) -> bool:
        """Take in windows whose targets have all come; True when the model has changed."""
        with self._lock:
            return not self._closed and self._observe(rows)

    def _observe(self, rows: Sequence[Row]) -> bool:
        model = self._opened.model
        context, longest = model.config.context, model.horizons[-1]
        ends = [end for end in range(context, len(rows) - longest + 1) if rows[end - 1].time > self._done]
        if ends:
            self._done = rows[ends[-1] - 1].time
            self._take([rows[end - context : end + longest] for end in ends[-_AT_ONCE:]])
        if self._worse():
            self._go_back("worse than the locked model, which forecasts again")
            return True
        if self._new < self._config.every:
            return False
        try:
            self._learn()
        except ForecastError as error:
            self._go_back(f"{error.found} The locked model forecasts again.")
        return True

    def _take(self, windows: Sequence[Sequence[Row]]) -> None:
        """Score both models on windows that have come due, in one pass each."""
        batches = [batch for rows in windows if bool((batch := self._batch(rows)).future_m_BHC.any())]
        if not batches:
            return
        together = _joined(batches)
        with torch.no_grad():
            learned, locked = self._prepared.forecaster.predict(together), self._locked.predict(together)
        present, target = together.future_m_BHC, together.future_x_BHC
        learned_crps, locked_crps = learned.crps(target), locked.crps(target)
        ahead = observed_errors(learned, together)
        for number, batch in enumerate(batches):
            self._windows.append(_Window(batch, ahead[number]))
            seen = present[number]
            self._guarded.append((float(learned_crps[number][seen].mean()), float(locked_crps[number][seen].mean())))
        self._new += len(batches)

    def _batch(self, rows: Sequence[Row]) -> WindowBatch:
        model = self._opened.model
        context, horizons = model.config.context, model.horizons

        def values(names: Sequence[str]) -> np.ndarray:
            return np.stack([row.floats(names) for row in rows])

        x = model.normaliser.transform_sensors(values(model.schema.sensor_names))
        a = model.normaliser.transform_commands(values(model.schema.command_names)).astype(np.float32)
        present = np.isfinite(x)
        x = np.where(present, x, 0.0).astype(np.float32)
        future = a[context:]
        targets = [context + horizon - 1 for horizon in horizons]
        means = np.stack([future[:horizon].mean(axis=0) for horizon in horizons])
        parts = (x[:context], present[:context], a[:context], x[targets], present[targets], means, future)
        zero = torch.zeros(1, dtype=torch.long)
        tensors = [*(torch.from_numpy(np.ascontiguousarray(part)).unsqueeze(0) for part in parts), zero, zero]
        return WindowBatch(**dict(zip(WindowBatch.__slots__, tensors, strict=True)))

    def _learn(self) -> None:
        config, windows = self._config, list(self._windows)
        recent, older = windows[-config.recent :], windows[: -config.recent]
        for _ in range(config.steps):
            drawn = torch.randperm(len(older), generator=self._generator)[: config.replay].tolist()
            chosen = [*recent, *(older[index] for index in drawn)]
            batch = _joined([window.batch for window in chosen])
            ahead = torch.stack([window.ahead_HC for window in chosen])
            update(self._prepared, batch, ahead, self._optimiser, config.clip_norm)
        self.updates += config.steps
        self._since_return += config.steps
        self._new = 0
        self._write("update", {"updates": self.updates, "windows": len(windows), "crps_ratio": self.ratio})

    @property
    def ratio(self) -> float | None:
        """CRPS of the learned model over that of the locked one, on the newest windows; below 1 it helps."""
        if not self._guarded:
            return None
        learned, locked = (sum(column) for column in zip(*self._guarded, strict=True))
        return learned / locked if locked > 0.0 else None

    def _worse(self) -> bool:
        ratio = self.ratio
        if not self._since_return or ratio is None:
            return False
        # A model whose forecasts are no numbers is worse than any, and no comparison says so.
        return not math.isfinite(ratio) or (len(self._guarded) >= _FEWEST and ratio > _WORSE)

    def _go_back(self, reason: str) -> None:
        self.returns += 1
        self._write("guard", {"crps_ratio": self.ratio, "what": reason})
        self._guarded.clear()
        self._windows = deque(
            (window for window in self._windows if bool(window.ahead_HC.isfinite().all())), maxlen=_KEPT
        )
        self._begin()

    def close(self) -> None:
        """Keep what was learned as a model file of its own; an update that is under way comes to its end first."""
        with self._lock:
            self._closed = True
            if self._since_return:
                finish(self._prepared)
                history = {"from": self._opened.sha256, "to": "live", "how": self._config.model_dump(mode="json")}
                self.model.save(self.folder / LEARNED, {**self._opened.provenance, "adapted_live": history})
            self._write("end", {"updates": self.updates, "returns": self.returns, "crps_ratio": self.ratio})

    def _write(self, event: str, facts: dict[str, Any]) -> None:
        line = json.dumps(plain({"time": datetime.now(UTC).isoformat(), "event": event, **facts}))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / JOURNAL).open("a", encoding="utf-8") as journal:
                journal.write(line + "\n")
        except OSError as error:
            raise StorageError(
                f"The journal of what is learned cannot be written: {error}.", expected="a folder of your own"
            ) from error


def _joined(batches: Sequence[WindowBatch]) -> WindowBatch:
    names = WindowBatch.__slots__
    return WindowBatch(**{name: torch.cat([getattr(batch, name) for batch in batches]) for name in names})
