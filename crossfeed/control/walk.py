"""Walking a model along planned commands at trained horizons only, for any number of windows at once.

Row 7 is forecast with horizon 4 from row 3, which is itself expected. Horizons between the trained ones would
save these steps and are worse: a run-up of the spindle is smeared over its neighbours. E members, B windows, T rows.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.model.plan import Plan
from crossfeed.model.sensors.model import SensorContext, SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.serving.rollout import waves

_UNKNOWN = 0.05  # standard deviations of the source by which members may disagree where nobody measured what is usual


def usual_doubt(model: WorldModel) -> float:
    """By how much the members of a model disagree about all but one in a hundred windows of its source."""
    measured = float(model.usual_doubt) if isinstance(model, SensorModel) else 0.0
    return measured if measured > 0.0 else _UNKNOWN


@dataclass(frozen=True, eq=False)
class Walk:
    """What is said of every row, in z-space, and what each member of an ensemble expects there."""

    said: Distribution  # (B, T, C)
    member_EBTC: Tensor  # one member where the model is no ensemble

    @property
    def apart(self) -> Tensor:
        """How far the members are apart, (B, T, C)."""
        return self.member_EBTC.std(0, correction=0)


@torch.inference_mode()
def walk(model: WorldModel, x_BKC: Tensor, a_BKA: Tensor, planned_BTA: Tensor, members: bool = False) -> Walk:
    """Forecast every planned row; absent readings are NaN. The level stays that of the measured window."""
    context, reach = model.config.context, model.horizons[-1]
    m_BKC = x_BKC.isfinite()
    present_B1C = m_BKC.any(1, keepdim=True)
    level = model.level(torch.where(m_BKC, x_BKC, 0.0), m_BKC)
    a_BRA = torch.cat([a_BKA, planned_BTA, planned_BTA[:, -1:].expand(-1, reach, -1)], 1)
    x_BRC = x_BKC
    said: list[Distribution] = []
    expected: list[Tensor] = []
    for wave in waves(planned_BTA.shape[1], model.horizons):
        by_base = {}
        for base in sorted(set(wave.bases)):
            seen_BKC = x_BRC[:, base : base + context]
            there = seen_BKC.isfinite()
            rows = model.read(torch.where(there, seen_BKC, 0.0), there, level)
            encoded = model.context(rows, a_BRA[:, base : base + context])
            plan = Plan.under(a_BRA[:, base + context : base + context + reach], model.horizons)
            spoken = model.decode(encoded, plan).distribution
            mean_EBHC = spoken.mean.unsqueeze(0)
            if members and isinstance(model, SensorModel) and len(model.members) > 1:
                parts = model.members_say(cast(SensorContext, encoded), plan)
                mean_EBHC = torch.stack([mixture.mean for _, mixture in parts])
            by_base[base] = (spoken, mean_EBHC)
        found = [(by_base[base], slot) for base, slot in zip(wave.bases, wave.slots)]
        said += [spoken[:, slot] for (spoken, _), slot in found]
        expected += [mean_EBHC[:, :, slot] for (_, mean_EBHC), slot in found]
        new_BLC = torch.stack([each.mean for each in said[-len(found) :]], 1)
        x_BRC = torch.cat([x_BRC, torch.where(present_B1C, new_BLC, torch.nan)], 1)
    return Walk(Distribution.stack(said, 1), torch.stack(expected, 2))
