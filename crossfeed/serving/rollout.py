"""Rolling a model forward over plans of any length, on sampled rows of its own.

Every row is forecast at the longest trained horizon that reaches back no further than now: row 7 with horizon 4 from
row 3, row 100 with horizon 16 from row 84. So no horizon is asked for that was not trained, and a row far ahead stands
on few forecasts made on forecasts: row 256 on 16 of them, not on 256.

N samples, T planned rows, L rows of a wave, R rows so far, K context rows, C sensors, A commands, D latent width.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.model.forecast import forecast_moments
from crossfeed.model.instance_norm import Statistics
from crossfeed.model.packed_weights import packed
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress
from crossfeed.serving.history import History
from crossfeed.serving.level import levels
from crossfeed.serving.plan import Plan

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

    Each path keeps the window statistics of measured rows (see `levels`), so every row is encoded only once.
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
    def sample(self, plan: Plan, noise_NTC: np.ndarray) -> np.ndarray:
        """Sampled futures (N, T, C) in physical units, NaN for absent sensors."""
        steps, samples = len(plan), len(noise_NTC)
        noise_NTC = noise_NTC[:, :steps]
        planned_TA = self._tensor(self.model.normaliser.transform_commands(plan.commands))
        # Slots never see commands after their own horizon, so what stands behind the plan's end is not read.
        a_RA = torch.cat([self._a_KA, planned_TA, planned_TA[-1:].expand(self.model.horizons[-1], -1)])
        context = self.model.config.context
        level = levels(self.model.instance_norm, self._x_RC, context, samples)
        row_NRD = self._encoded(self._x_RC[-context:].expand(samples, -1, -1), level)
        drawn = []
        with progress(f"Rolling {plan.name} forward", total=steps) as task:
            for wave in waves(steps, self.model.horizons):
                mean_NLC, scale_NLC = self._moments(wave, row_NRD, a_RA, level)
                noise_NLC = self._tensor(noise_NTC[:, wave.first - 1 : wave.last])
                x_NLC = torch.where(self._present_C, mean_NLC + scale_NLC * noise_NLC, torch.nan)
                drawn.append(x_NLC)
                row_NRD = torch.cat([row_NRD, self._encoded(x_NLC, level)], 1)
                task.advance(wave.last - wave.first + 1)
        paths = torch.cat(drawn, 1).double().cpu().numpy()
        assert paths.shape == (samples, steps, len(self._present_C))
        if not np.isfinite(paths[..., self.present]).all():
            raise ForecastError(
                f"Under the plan {plan.name} the forecasts are no longer numbers.",
                remedy="Check the plan's units, or shorten it.",
            )
        return np.asarray(self.model.normaliser.inverse_sensors(paths))

    def _encoded(self, x_NLC: Tensor, level: Statistics | None) -> Tensor:
        """One vector per row."""
        m_NLC = x_NLC.isfinite()
        return self.model.encode_rows(torch.where(m_NLC, x_NLC, 0.0), m_NLC, level, self._channels)

    def _moments(self, wave: Wave, row_NRD: Tensor, a_RA: Tensor, level: Statistics | None) -> tuple[Tensor, Tensor]:
        """Mean and scale (N, L, C) of the rows of a wave."""
        context, longest, samples = self.model.config.context, self.model.horizons[-1], len(row_NRD)
        mean: dict[int, Tensor] = {}
        scale: dict[int, Tensor] = {}
        for base in sorted(set(wave.bases)):
            parts = []
            for piece in (slice(start, start + _AT_ONCE) for start in range(0, samples, _AT_ONCE)):
                row_PKD = row_NRD[piece, base : base + context]
                a_PKA = a_RA[base : base + context].expand(len(row_PKD), -1, -1)
                future_PTA = a_RA[base + context : base + context + longest].expand(len(row_PKD), -1, -1)
                own = None if level is None else Statistics(level.centre_BC[piece], level.scale_BC[piece])
                parts.append(self._forecast(row_PKD, a_PKA, future_PTA, own))
            mean[base], scale[base] = (torch.cat(side) for side in zip(*parts))
        places = list(zip(wave.bases, wave.slots))
        return (
            torch.stack([mean[base][:, slot] for base, slot in places], 1),
            torch.stack([scale[base][:, slot] for base, slot in places], 1),
        )

    def _forecast(
        self, row_PKD: Tensor, a_PKA: Tensor, future_PTA: Tensor, level: Statistics | None
    ) -> tuple[Tensor, Tensor]:
        """Mean and scale at every trained horizon, in z-space."""
        mean_PHC, log_variance_PHC = forecast_moments(
            self.model, row_PKD, a_PKA, future_PTA, self.model.horizons, level
        )
        scale_PHC, freedom_C = torch.exp(0.5 * log_variance_PHC), self.model.head.degrees_of_freedom
        return mean_PHC, scale_PHC if freedom_C is None else scale_PHC * ((freedom_C - 2.0) / freedom_C).sqrt()

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.device)
