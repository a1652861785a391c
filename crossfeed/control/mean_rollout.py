"""A rollout of what a model expects along planned commands: its means are its next history, for many windows at once.

Rows between the trained horizons are asked for as `crossfeed.model.delayed_plans` has it. E members, B windows, T rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel

_UNKNOWN = 0.05  # standard deviations of the source by which members may disagree where nobody measured what is usual


def disagreement_threshold(model: WorldModel) -> float:
    """By how much the members of a model disagree about all but one in a hundred windows of its source."""
    measured = float(model.disagreement_threshold)
    return measured if measured > 0.0 else _UNKNOWN


@dataclass(frozen=True, eq=False)
class MeanRollout:
    """The forecast of every row, in z-space, and what each member of an ensemble expects there."""

    distribution: Distribution  # (B, T, C)
    member_EBTC: Tensor  # one member where the model is no ensemble

    @property
    def apart(self) -> Tensor:
        """How far the members are apart, (B, T, C)."""
        return self.member_EBTC.std(0, correction=0)


@torch.inference_mode()
def mean_rollout(
    model: WorldModel, x_BKC: Tensor, a_BKA: Tensor, planned_BTA: Tensor, members: bool = False
) -> MeanRollout:
    """Forecast every planned row; absent readings are NaN. The level stays that of the measured window."""
    context, reach = model.config.context, model.horizons[-1]
    m_BKC = x_BKC.isfinite()
    present_B1C = m_BKC.any(1, keepdim=True)
    level = model.level(torch.where(m_BKC, x_BKC, 0.0), m_BKC)
    a_BRA, x_BRC = torch.cat([a_BKA, planned_BTA], 1), x_BKC
    forecasts: list[Distribution] = []
    expected: list[Tensor] = []
    for first in range(0, planned_BTA.shape[1], reach):
        seen_BKC = x_BRC[:, first : first + context]
        there = seen_BKC.isfinite()
        rows = model.read(torch.where(there, seen_BKC, 0.0), there, level)
        encoded = model.context(rows, a_BRA[:, first : first + context])
        now_B1A, future_BLA = a_BRA[:, first + context - 1, None], planned_BTA[:, first : first + reach]
        if members and model.members > 1:
            plan = Plan.under(future_BLA, tuple(range(1, future_BLA.shape[1] + 1)))
            prediction = model.decode(encoded, plan)
            assert prediction.member_mean_EBHC is not None
            forecasts.append(prediction.distribution)
            expected.append(prediction.member_mean_EBHC)
        else:
            forecasts.append(model.decode_rows(encoded, now_B1A, future_BLA))
            expected.append(forecasts[-1].mean.unsqueeze(0))
        mean_BLC = forecasts[-1].mean
        x_BRC = torch.cat([x_BRC, torch.where(present_B1C, mean_BLC, torch.nan)], 1)
    return MeanRollout(Distribution.concatenate(forecasts, 1), torch.cat(expected, 2))
