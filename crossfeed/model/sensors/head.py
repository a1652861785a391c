"""From a query to a mixture: stand still, come to rest, or move, in proportion to what is commanded.

The first component stands on the last measured value, the second on the physical zero. The others move: away from a
point between last value and mean of the window, by a distance and, for sensors with a zero within reach, by a factor
seen from that zero. The factor follows the change of the commands with learned exponents, so that a spindle at 70 % or
a stop means the same on machines with other levels and gains. What stands goes along with changed commands in the same
way. Exponents start where physics has them: the power of a drive goes with its speed, what a spindle needs for cutting
goes with the feeds.

E members, B windows, H horizons, C sensors, K context rows, S rows, G command groups, V moving components, W = V + 1
components that follow commands, M = V + 2 components. What comes out of the linear map has a first axis of members,
which is left out of the names here: everything else is the same for all of them.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from crossfeed.model.config import SensorConfig
from crossfeed.model.distribution import Mixture
from crossfeed.model.sensors.commands import SMALL
from crossfeed.model.sensors.members import MemberLinear
from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser

WIDEST = 8.0  # bound of a log-spread, bent towards it smoothly
STEEPEST = 1.5  # largest exponent of a command's change
LOWEST, HIGHEST = -4.0, 1.1  # bounds of the logarithm of a factor
NEVER = -30.0  # log-weight of a component that does not apply
USUAL = 0.25  # exponent from which movers start
FAINT = 0.02  # exponent from which standing starts
PROPORTIONAL = ("power", "rotational speed", "feed")  # quantities that go with the speed of their drive
CUTTING = 0.2  # forces go with the feed by some 0.75, and about a quarter of what a spindle does is cutting


class MixtureHead(nn.Module):
    """One linear map, read as the parts of a mixture."""

    zero_C: Tensor
    reached_C: Tensor
    prior_CWG: Tensor

    def __init__(self, config: SensorConfig, schema: Schema, normaliser: Normaliser) -> None:
        super().__init__()
        groups = len(schema.command_groups)
        self.movers, self.groups, self.context = config.movers, groups, config.context
        self.noise_floor = config.noise_floor
        self.parts = {"weight": self.movers + 2, "spread": self.movers + 2, "distance": self.movers}
        self.parts |= {"recency": self.movers, "factor": self.movers, "exponent": (self.movers + 1) * self.groups}
        self.linear = MemberLinear(config.members, config.width, sum(self.parts.values()))
        self._begin()
        usual_W1 = torch.tensor([FAINT] + [USUAL] * self.movers).unsqueeze(-1)
        known_C1G = physical_exponents(schema).unsqueeze(1)
        prior_CWG = torch.maximum(known_C1G, usual_W1)
        self.register_buffer("prior_CWG", (prior_CWG / STEEPEST).logit(), persistent=False)
        zero_C, reached_C = normaliser.zero_within(config.reach)
        reached_C &= np.array([sensor.has_zero for sensor in schema.sensors])
        self.register_buffer("reached_C", torch.from_numpy(reached_C), persistent=False)
        self.register_buffer("zero_C", torch.from_numpy(np.where(reached_C, zero_C, 0.0)), persistent=False)

    @torch.no_grad()
    def _begin(self) -> None:
        """Start as persistence with a little doubt: what is forecast first is sensible, and gradients are small."""
        nn.init.zeros_(self.linear.weight)
        pieces = torch.split(self.linear.bias.zero_(), list(self.parts.values()), -1)
        bias = dict(zip(self.parts, pieces, strict=True))
        bias["weight"][:, 0], bias["weight"][:, 1] = 1.0, -2.0
        bias["spread"][:, :2] = -2.0
        bias["spread"][:, 2:] = torch.linspace(-0.5, -1.5, self.movers)

    def forward(
        self,
        query_EBHCD: Tensor,
        centre_BC: Tensor,
        last_BC: Tensor,
        effort_BSG: Tensor,
        step_H: Tensor,
        channels: Tensor | None = None,
    ) -> Mixture:
        """The mixtures (E, B, H, C) in global z-space, of some sensors or of all.

        `step_H` are the planned steps of the horizons, counted from 0.
        """
        known = (self.zero_C, self.reached_C, self.prior_CWG)
        zero_C, reached_C, prior_CWG = (one if channels is None else one.index_select(0, channels) for one in known)
        with torch.autocast(query_EBHCD.device.type, enabled=False):
            raw = self.linear(query_EBHCD.to(self.linear.weight.dtype))
            part = dict(zip(self.parts, raw.split(list(self.parts.values()), -1), strict=True))
            centre_B1C1, last_B1C1 = (values[:, None, :, None] for values in (centre_BC, last_BC))
            # What stands is the last value, whatever it is moved by: recency 1, and no factor of its own.
            recency_BHCW = functional.pad(torch.sigmoid(part["recency"]), (1, 0), value=1.0)
            own_BHCW = functional.pad(part["factor"].tanh(), (1, 0))
            from_BHCW = torch.lerp(centre_B1C1.expand_as(recency_BHCW), last_B1C1.expand_as(recency_BHCW), recency_BHCW)
            factor_BHCW = self._factor(own_BHCW, part["exponent"], recency_BHCW, prior_CWG, effort_BSG, step_H)
            zero_C1, reached_C1 = zero_C.unsqueeze(-1), reached_C.unsqueeze(-1)
            # In this form nothing is lost where the factor is 1, and what stands is exactly the last value.
            moved_BHCW = from_BHCW + torch.where(reached_C1, factor_BHCW - 1.0, 0.0) * (from_BHCW - zero_C1)
            stands_BHC1, moves_BHCV = moved_BHCW[..., :1], moved_BHCW[..., 1:] + part["distance"]
            # Where nothing comes to rest the component has no weight, but far from its level even that would count.
            rest_B1C1 = torch.where(reached_C1, zero_C1, last_B1C1)
            mean_BHCM = torch.cat([stands_BHC1, rest_B1C1.expand_as(stands_BHC1), moves_BHCV], -1)
            applies_CM = functional.pad(reached_C1, (1, self.movers), value=True)
            log_weight_BHCM = torch.where(applies_CM, part["weight"], NEVER)
            bent_BHCM = WIDEST * torch.tanh(part["spread"] / WIDEST)
            return Mixture(log_weight_BHCM, mean_BHCM, self.noise_floor + bent_BHCM.exp())

    def _factor(
        self,
        own_BHCW: Tensor,
        exponent_BHCE: Tensor,
        recency_BHCW: Tensor,
        prior_CWG: Tensor,
        effort_BSG: Tensor,
        step_H: Tensor,
    ) -> Tensor:
        """By what the distance from the physical zero is multiplied when the commands change."""
        planned_BHG = effort_BSG.index_select(1, self.context + step_H)
        usual = effort_BSG[:, : self.context].mean(1)[:, None, None, None]
        last = effort_BSG[:, self.context - 1][:, None, None, None]
        planned = planned_BHG[:, :, None, None]
        before_BHCWG = torch.lerp(usual, last, recency_BHCW.unsqueeze(-1))
        change_BHCWG = torch.log((planned + SMALL) / (before_BHCWG + SMALL))
        said_BHCWG = torch.unflatten(exponent_BHCE, -1, (self.movers + 1, self.groups))
        exponent_BHCWG = STEEPEST * torch.sigmoid(said_BHCWG + prior_CWG)
        return (own_BHCW + (exponent_BHCWG * change_BHCWG).sum(-1)).clamp(LOWEST, HIGHEST).exp()


def physical_exponents(schema: Schema) -> Tensor:
    """By which power of a group of commands (C, G) a sensor goes as far as physics tells; 0 where it tells nothing."""
    groups = schema.command_groups
    known_CG = torch.zeros(len(schema.sensors), len(groups))
    for number, members in enumerate(groups):
        drives = {schema.commands[command].place for command in members} - {""}
        feeds = all(schema.commands[command].quantity == "feed" for command in members)
        for row, sensor in enumerate(schema.sensors):
            if sensor.quantity in PROPORTIONAL and sensor.place in drives:
                known_CG[row, number] = 1.0
            elif feeds and sensor.feels_the_cut:
                known_CG[row, number] = CUTTING
    return known_CG
