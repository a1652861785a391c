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

    Window statistics (instance normalisation) are held at those of the last measured window. Statistics of sampled rows
    would let every small bias move the level on which the next forecast stands (benchmarks/rollout.md shows how far);
    held ones also mean that each row is encoded only once.
    """

    def __init__(self, model: WorldModel, history: History) -> None:
        self.model, self.history = packed(model.eval()), history
        context, normaliser = model.config.context, model.normaliser
        self.device = next(model.parameters()).device
        self._x_1KC = self._tensor(normaliser.transform_sensors(history.sensors[-context:])).unsqueeze(0)
        self._a_KA = self._tensor(normaliser.transform_commands(history.commands[-context:]))
        self._present_C = self._x_1KC[0].isfinite().any(0)
        self._channels = model.worth_reading(self._present_C)
        self._held = model.instance_norm.statistics(self._x_1KC, self._x_1KC.isfinite())

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
        row_NRD = self._encoded(self._x_1KC).expand(samples, -1, -1)
        drawn = []
        with progress(f"Rolling {plan.name} forward", total=steps) as task:
            for wave in waves(steps, self.model.horizons):
                mean_NLC, scale_NLC = self._moments(wave, row_NRD, a_RA)
                noise_NLC = self._tensor(noise_NTC[:, wave.first - 1 : wave.last])
                x_NLC = torch.where(self._present_C, mean_NLC + scale_NLC * noise_NLC, torch.nan)
                drawn.append(x_NLC)
                row_NRD = torch.cat([row_NRD, self._encoded(x_NLC)], 1)
                task.advance(wave.last - wave.first + 1)
        paths = torch.cat(drawn, 1).double().cpu().numpy()
        assert paths.shape == (samples, steps, len(self._present_C))
        if not np.isfinite(paths[..., self.present]).all():
            raise ForecastError(
                f"Under the plan {plan.name} the forecasts are no longer numbers.",
                remedy="Check the plan's units, or shorten it.",
            )
        return np.asarray(self.model.normaliser.inverse_sensors(paths))

    def _encoded(self, x_NLC: Tensor) -> Tensor:
        """One vector per row."""
        m_NLC = x_NLC.isfinite()
        return self.model.encode_rows(
            torch.where(m_NLC, x_NLC, 0.0), m_NLC, _repeated(self._held, len(x_NLC)), self._channels
        )

    def _moments(self, wave: Wave, row_NRD: Tensor, a_RA: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale (N, L, C) of the rows of a wave; forecasts made now are the same for all samples."""
        context, longest, samples = self.model.config.context, self.model.horizons[-1], len(row_NRD)
        mean: dict[int, Tensor] = {}
        scale: dict[int, Tensor] = {}
        for base in sorted(set(wave.bases)):
            row_WKD = row_NRD[: 1 if base == 0 else samples, base : base + context]
            parts = []
            for row_PKD in torch.split(row_WKD, _AT_ONCE):
                a_PKA = a_RA[base : base + context].expand(len(row_PKD), -1, -1)
                future_PTA = a_RA[base + context : base + context + longest].expand(len(row_PKD), -1, -1)
                parts.append(self._forecast(row_PKD, a_PKA, future_PTA))
            mean[base], scale[base] = (torch.cat(side).expand(samples, -1, -1) for side in zip(*parts))
        places = list(zip(wave.bases, wave.slots))
        return (
            torch.stack([mean[base][:, slot] for base, slot in places], 1),
            torch.stack([scale[base][:, slot] for base, slot in places], 1),
        )

    def _forecast(self, row_PKD: Tensor, a_PKA: Tensor, future_PTA: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale at every trained horizon, in z-space."""
        held = _repeated(self._held, len(row_PKD))
        mean_PHC, log_variance_PHC = forecast_moments(self.model, row_PKD, a_PKA, future_PTA, self.model.horizons, held)
        scale_PHC, freedom_C = torch.exp(0.5 * log_variance_PHC), self.model.head.degrees_of_freedom
        return mean_PHC, scale_PHC if freedom_C is None else scale_PHC * ((freedom_C - 2.0) / freedom_C).sqrt()

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.device)


def _repeated(statistics: Statistics | None, count: int) -> Statistics | None:
    if statistics is None:
        return None
    return Statistics(statistics.centre_BC.expand(count, -1), statistics.scale_BC.expand(count, -1))
