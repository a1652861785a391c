"""Rolling a model forward over plans of any length, on sampled rows of its own.

Every row is forecast at the longest trained horizon that reaches back no further than now: row 7 with horizon 4 from
row 3, row 100 with horizon 16 from row 84. So no horizon is asked for that was not trained, and a row far ahead stands
on few forecasts made on forecasts: row 256 on 16 of them, not on 256.

N samples, T planned rows, L rows of a wave, R rows so far, K context rows, C sensors, A commands.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.errors import ConfigError, ForecastError
from crossfeed.model.context import Rows
from crossfeed.model.packed_weights import packed
from crossfeed.model.parts.instance_norm import Statistics
from crossfeed.model.plan import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress
from crossfeed.serving.history import History
from crossfeed.serving.level import levels
from crossfeed.serving.plan import PlannedCommands

_AT_ONCE = 128  # windows in one pass: more would leave the caches of a CPU


@dataclass(frozen=True)
class Wave:
    """Rows first..last that can be forecast together, because all their bases lie before them."""

    first: int
    last: int
    bases: tuple[int, ...]  # of each row: the row after which its forecast is made; 0 is now
    slots: tuple[int, ...]  # of each row: the index of its horizon


def waves(steps: int, horizons: tuple[int, ...]) -> list[Wave]:
    """The order in which rows 1..steps are forecast."""
    if horizons[0] != 1:
        raise ConfigError(
            f"The shortest horizon of this model is {horizons[0]} rows, so it cannot be rolled forward row by row.",
            expected="a model trained with horizon 1 among its horizons",
        )
    found, known = [], 0
    while known < steps:
        rows = []
        for row in range(known + 1, steps + 1):
            slot = max(index for index, horizon in enumerate(horizons) if horizon <= row)
            if row - horizons[slot] > known:
                break
            rows.append((row - horizons[slot], slot))
        bases, slots = zip(*rows)
        found.append(Wave(known + 1, known + len(rows), bases, slots))
        known += len(rows)
    return found


class Rollout:
    """A model at one moment of one machine, ready to sample what follows under any plan.

    Each path keeps the level of measured rows (see `levels`), so every row is read only once.
    """

    def __init__(self, model: WorldModel, history: History) -> None:
        self.model, self.history = packed(model.eval()), history
        context, normaliser = model.config.context, model.normaliser
        self.device = next(model.parameters()).device
        self._x_RC = self._tensor(normaliser.transform_sensors(history.sensors))
        self._a_KA = self._tensor(normaliser.transform_commands(history.commands[-context:]))
        self._present_C = self._x_RC[-context:].isfinite().any(0)
        self._channels = model.worth_reading(self._present_C)

    @property
    def present(self) -> np.ndarray:
        """Which sensors the context shows; only these are forecast."""
        return np.asarray(self._present_C.cpu().numpy())

    @torch.inference_mode()
    def sample(
        self, plan: PlannedCommands, noise_NTC: np.ndarray, go_on: Callable[[], None] | None = None
    ) -> np.ndarray:
        """Sampled futures (N, T, C) in physical units, NaN for absent sensors; `noise_NTC` holds standard normals.

        `go_on` is asked before every pass of the network and raises when nobody waits for the answer any more.
        """
        steps, samples = len(plan), len(noise_NTC)
        noise_NTC = noise_NTC[:, :steps]
        planned_TA = self._tensor(self.model.normaliser.transform_commands(plan.commands))
        # Slots never see commands after their own horizon, so what stands behind the plan's end is not read.
        a_RA = torch.cat([self._a_KA, planned_TA, planned_TA[-1:].expand(self.model.horizons[-1], -1)])
        context = self.model.config.context
        level = levels(self.model.level, self._x_RC, context, samples)
        rows = self._read(self._x_RC[-context:].expand(samples, -1, -1), level)
        drawn = []
        with progress(f"Rolling {plan.name} forward", total=steps) as task:
            for wave in waves(steps, self.model.horizons):
                noise_NLC = self._tensor(noise_NTC[:, wave.first - 1 : wave.last])
                x_NLC = self._said(wave, rows, a_RA, samples, go_on).from_normal(noise_NLC)
                x_NLC = torch.where(self._present_C, x_NLC, torch.nan)
                drawn.append(x_NLC)
                rows = rows.followed_by(self._read(x_NLC, level))
                task.advance(wave.last - wave.first + 1)
        paths = torch.cat(drawn, 1).double().cpu().numpy()
        assert paths.shape == (samples, steps, len(self._present_C))
        if not np.isfinite(paths[..., self.present]).all():
            raise ForecastError(
                f"Under the plan {plan.name} the forecasts are no longer numbers.",
                remedy="Check the plan's units, or shorten it.",
            )
        return np.asarray(self.model.normaliser.inverse_sensors(paths))

    def _read(self, x_NLC: Tensor, level: Statistics | None) -> Rows:
        """Rows as the model keeps them."""
        m_NLC = x_NLC.isfinite()
        return self.model.read(torch.where(m_NLC, x_NLC, 0.0), m_NLC, level, self._channels)

    def _said(
        self, wave: Wave, rows: Rows, a_RA: Tensor, samples: int, go_on: Callable[[], None] | None
    ) -> Distribution:
        """What is forecast (N, L, C) for the rows of a wave, in z-space; no base is asked for more than is used."""
        context, horizons = self.model.config.context, self.model.horizons
        said: dict[tuple[int, int], Distribution] = {}
        for base in sorted(set(wave.bases)):
            window, parts = rows.window(base, base + context), []
            a_KA, future_TA = a_RA[base : base + context], a_RA[base + context : base + context + horizons[-1]]
            asked = sorted({slot for of, slot in zip(wave.bases, wave.slots) if of == base})
            for start in range(0, samples, _AT_ONCE):
                if go_on is not None:
                    go_on()
                count = min(_AT_ONCE, samples - start)
                plan = Plan.under(future_TA.expand(count, -1, -1), tuple(horizons[slot] for slot in asked))
                a_NKA = a_KA.expand(count, -1, -1)
                parts.append(self.model.follow_paths(window[start : start + count], a_NKA, plan))
            together = Distribution.concatenate(parts)
            said |= {(base, slot): together[:, number] for number, slot in enumerate(asked)}
        return Distribution.stack([said[row] for row in zip(wave.bases, wave.slots)], 1)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.device)
