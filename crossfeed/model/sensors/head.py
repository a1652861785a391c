"""From a query to a mixture: stand still, come to rest, or move, in proportion to what is commanded.

The first component stands on the last measured value, the second on the physical zero. The others move: away from a
point between last value and mean of the window, by a distance and, for sensors with a zero within reach, by a factor
seen from that zero. The factor follows the change of the commands with learned exponents, so that a spindle at 70 % or
a stop means the same on machines with other levels and gains.

B windows, H horizons, C sensors, K context rows, S rows, G command groups, V moving components, M = V + 2 components.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.distribution import Mixture
from crossfeed.model.sensors.commands import SMALL
from crossfeed.model.sensors.config import SensorConfig
from crossfeed.windows.normalise import Normaliser

WIDEST = 8.0  # bound of a log-spread, bent towards it smoothly
STEEPEST = 1.5  # largest exponent of a command's change
LOWEST, HIGHEST = -4.0, 1.1  # bounds of the logarithm of a factor
NEVER = -30.0  # log-weight of a component that does not apply


class MixtureHead(nn.Module):
    """One linear map, read as the parts of a mixture."""

    zero_C: Tensor
    reached_C: Tensor

    def __init__(self, config: SensorConfig, normaliser: Normaliser, groups: int) -> None:
        super().__init__()
        self.movers, self.groups, self.context = config.movers, groups, config.context
        self.noise_floor = config.noise_floor
        self.parts = {"weight": self.movers + 2, "spread": self.movers + 2, "distance": self.movers}
        self.parts |= {"recency": self.movers, "factor": self.movers, "exponent": self.movers * groups}
        self.linear = nn.Linear(config.width, sum(self.parts.values()))
        self._begin()
        sensors = len(normaliser.sensor_names)
        zero_C = normaliser.transform_sensors(np.zeros((1, sensors)))[0]
        reached_C = np.isfinite(zero_C) & (np.abs(zero_C) <= config.reach)
        self.register_buffer("reached_C", torch.from_numpy(reached_C), persistent=False)
        self.register_buffer("zero_C", torch.from_numpy(np.where(reached_C, zero_C, 0.0)).float(), persistent=False)

    @torch.no_grad()
    def _begin(self) -> None:
        """Start as persistence with a little doubt: what is forecast first is sensible, and gradients are small."""
        nn.init.zeros_(self.linear.weight)
        pieces = torch.split(self.linear.bias.zero_(), list(self.parts.values()))
        bias = dict(zip(self.parts, pieces, strict=True))
        bias["weight"][0], bias["weight"][1] = 1.0, -2.0
        bias["spread"][:2] = -2.0
        bias["spread"][2:] = torch.linspace(-0.5, -1.5, self.movers)
        bias["exponent"].fill_(-1.5)

    def forward(
        self, query_BHCD: Tensor, centre_BC: Tensor, last_BC: Tensor, effort_BSG: Tensor, step_H: Tensor
    ) -> Mixture:
        """The mixture in global z-space; `step_H` are the planned steps of the horizons, counted from 0."""
        with torch.autocast(query_BHCD.device.type, enabled=False):
            said = self.linear(query_BHCD.to(self.linear.weight.dtype))
            part = dict(zip(self.parts, said.split(list(self.parts.values()), -1), strict=True))
            centre_B1C1, last_B1C1 = (values[:, None, :, None] for values in (centre_BC, last_BC))
            recency_BHCV = torch.sigmoid(part["recency"])
            from_BHCV = centre_B1C1 + recency_BHCV * (last_B1C1 - centre_B1C1)
            factor_BHCV = self._factor(part["factor"], part["exponent"], recency_BHCV, effort_BSG, step_H)
            zero_C1, reached_C1 = self.zero_C.unsqueeze(-1), self.reached_C.unsqueeze(-1)
            moved_BHCV = torch.where(reached_C1, zero_C1 + factor_BHCV * (from_BHCV - zero_C1), from_BHCV)
            shape = (*said.shape[:-1], 1)
            # Where nothing comes to rest the component has no weight, but far from its level even that would count.
            rest_B1C1 = torch.where(reached_C1, zero_C1, last_B1C1)
            mean_BHCM = torch.cat([last_B1C1.expand(shape), rest_B1C1.expand(shape), moved_BHCV + part["distance"]], -1)
            applies_CM = functional.pad(reached_C1, (1, self.movers), value=True)
            log_weight_BHCM = torch.where(applies_CM, part["weight"], NEVER)
            bent_BHCM = WIDEST * torch.tanh(part["spread"] / WIDEST)
            return Mixture(log_weight_BHCM, mean_BHCM, self.noise_floor + bent_BHCM.exp())

    def _factor(
        self, own_BHCV: Tensor, exponent_BHCE: Tensor, recency_BHCV: Tensor, effort_BSG: Tensor, step_H: Tensor
    ) -> Tensor:
        """By what the distance from the physical zero is multiplied when the commands change."""
        planned_BHG = effort_BSG.index_select(1, self.context + step_H)
        usual = effort_BSG[:, : self.context].mean(1)[:, None, None, None]
        last = effort_BSG[:, self.context - 1][:, None, None, None]
        planned = planned_BHG[:, :, None, None]
        before_BHCVG = usual + recency_BHCV.unsqueeze(-1) * (last - usual)
        change_BHCVG = torch.log((planned + SMALL) / (before_BHCVG + SMALL))
        exponent_BHCVG = STEEPEST * torch.sigmoid(torch.unflatten(exponent_BHCE, -1, (self.movers, self.groups)))
        return (own_BHCV.tanh() + (exponent_BHCVG * change_BHCVG).sum(-1)).clamp(LOWEST, HIGHEST).exp()
