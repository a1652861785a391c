"""Rolling a model forward over plans of any length, on sampled rows of its own.

Every row is forecast at the longest trained horizon that reaches back no further than now: row 7 with horizon 4 from
row 3, row 100 with horizon 16 from row 84. So no horizon is asked for that was not trained, and a row far ahead stands
on few forecasts made on forecasts: row 256 on 16 of them, not on 256.

N samples, T planned rows, K context rows, W windows, C sensors, A commands, H horizons.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.model.packed_weights import packed
from crossfeed.model.predictor import mean_commands
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress
from crossfeed.serving.history import History
from crossfeed.serving.plan import Plan

_AT_ONCE = 64  # windows in one pass: more would leave the caches of a CPU


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
    """A model at one moment of one machine, ready to sample what follows under any plan."""

    def __init__(self, model: WorldModel, history: History) -> None:
        self.model, self.history = packed(model.eval()), history
        context, normaliser = model.config.context, model.normaliser
        self.device = next(model.parameters()).device
        self._x_KC = self._tensor(normaliser.transform_sensors(history.sensors[-context:]))
        self._a_KA = self._tensor(normaliser.transform_commands(history.commands[-context:]))
        self._present_C = self._x_KC.isfinite().any(0)
        self._channels = model.worth_reading(self._present_C)

    @property
    def present(self) -> np.ndarray:
        """Which sensors the context shows; only these are forecast."""
        return np.asarray(self._present_C.cpu().numpy())

    @torch.inference_mode()
    def sample(self, plan: Plan, noise_NTC: np.ndarray) -> np.ndarray:
        """Sampled futures (N, T, C) in physical units, NaN for absent sensors."""
        context, steps, samples = self.model.config.context, len(plan), len(noise_NTC)
        noise = self._tensor(noise_NTC[:, :steps])
        planned_TA = self._tensor(self.model.normaliser.transform_commands(plan.commands))
        # Slots never see commands after their own horizon, so what stands behind the plan's end is not read.
        beyond = planned_TA[-1:].expand(self.model.horizons[-1], -1)
        a_RA = torch.cat([self._a_KA, planned_TA, beyond])
        x_NRC = torch.full((samples, context + steps, len(self._present_C)), torch.nan, device=self.device)
        x_NRC[:, :context] = self._x_KC
        with progress(f"Rolling {plan.name} forward", total=steps) as task:
            for wave in waves(steps, self.model.horizons):
                mean_NLC, scale_NLC = self._moments(wave, x_NRC, a_RA)
                drawn_NLC = mean_NLC + scale_NLC * noise[:, wave.first - 1 : wave.last]
                rows = slice(context + wave.first - 1, context + wave.last)
                x_NRC[:, rows] = torch.where(self._present_C, drawn_NLC, torch.nan)
                task.advance(wave.last - wave.first + 1)
        paths = x_NRC[:, context:].double().cpu().numpy()
        if not np.isfinite(paths[..., self.present]).all():
            raise ForecastError(
                f"Under the plan {plan.name} the forecasts are no longer numbers.",
                remedy="Check the plan's units, or shorten it.",
            )
        return np.asarray(self.model.normaliser.inverse_sensors(paths))

    def _moments(self, wave: Wave, x_NRC: Tensor, a_RA: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale (N, L, C) of the rows of a wave; forecasts made now are the same for all samples."""
        context, longest, samples = self.model.config.context, self.model.horizons[-1], len(x_NRC)
        mean: dict[int, Tensor] = {}
        scale: dict[int, Tensor] = {}
        for base in sorted(set(wave.bases)):
            x_WKC = x_NRC[: 1 if base == 0 else samples, base : base + context]
            count = len(x_WKC)
            a_WKA = a_RA[base : base + context].expand(count, -1, -1)
            future_WTA = a_RA[base + context : base + context + longest].expand(count, -1, -1)
            parts = [
                self._forecast(x_WKC[piece], a_WKA[piece], future_WTA[piece])
                for piece in (slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE))
            ]
            mean[base], scale[base] = (torch.cat(side).expand(samples, -1, -1) for side in zip(*parts))
        places = list(zip(wave.bases, wave.slots))
        return (
            torch.stack([mean[base][:, slot] for base, slot in places], 1),
            torch.stack([scale[base][:, slot] for base, slot in places], 1),
        )

    def _forecast(self, x_WKC: Tensor, a_WKA: Tensor, future_WTA: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale at every trained horizon, in z-space."""
        model, m_WKC = self.model, x_WKC.isfinite()
        context = model.encode(torch.where(m_WKC, x_WKC, 0.0), m_WKC, a_WKA, self._channels)
        latent_WHD = model.predict(context.z_BD, mean_commands(future_WTA, model.horizons), future_WTA)
        prediction = model.decode(latent_WHD, context)
        return prediction.mean_BHC, prediction.scale

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.device)
