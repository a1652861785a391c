"""Instance normalisation inside the network (Section 4.4) and its repairs; aware of presence, without parameters.

B windows, K context rows, L any rows, C sensors, H horizons. All values are in the global z-space of the normaliser.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm

Kind = Literal["none", "pure", "floored", "blended", "split", "centred", "anchored"]


class InstanceNormConfig(CheckedForm):
    """Which window statistics are taken out of the input and put back into the forecast.

    none: nothing. pure: the paper's variant, centre and scale of the window. floored: the scale never below `floor`.
    blended: towards the identity where the window's variance is below `threshold`. split: as pure for the mean, the
    variance is predicted in global space. centred: the centre only, global scale, global variance. anchored: as
    centred, and the forecast may scale the distance of the centre from the physical zero, for sensors whose zero is at
    most `reach` standard deviations from the source's mean.
    """

    kind: Kind = "anchored"
    epsilon: float = Field(default=1e-5, gt=0.0)
    floor: float = Field(default=0.1, gt=0.0)
    threshold: float = Field(default=0.01, gt=0.0)
    reach: float = Field(default=4.0, gt=0.0)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Centre and scale of each window and channel; identity (0, 1) for a channel the window never shows."""

    centre_BC: Tensor
    scale_BC: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> "Statistics":
        """The same with both of its tensors changed."""
        return Statistics(function(self.centre_BC), function(self.scale_BC))

    def where(self, known_BC: Tensor, other: "Statistics") -> "Statistics":
        """These where they are known, others elsewhere."""
        return Statistics(
            torch.where(known_BC, self.centre_BC, other.centre_BC), torch.where(known_BC, self.scale_BC, other.scale_BC)
        )


class InstanceNorm:
    """Takes window statistics out of rows and puts them back into forecasts."""

    def __init__(self, config: InstanceNormConfig) -> None:
        self.config = config

    @torch.no_grad()
    def statistics(self, x_BKC: Tensor, m_BKC: Tensor) -> Statistics | None:
        """Centre and scale over the present context entries; None when nothing is to be normalised."""
        kind = self.config.kind
        if kind == "none":
            return None
        count_BC = m_BKC.sum(1)
        seen_BC = count_BC > 0
        share_BKC = m_BKC / count_BC.clamp(min=1).unsqueeze(1)
        x_BKC = torch.where(m_BKC, x_BKC, 0.0)
        centre_BC = (share_BKC * x_BKC).sum(1)
        if kind in ("centred", "anchored"):
            return Statistics(centre_BC, torch.ones_like(centre_BC))
        variance_BC = (share_BKC * (x_BKC - centre_BC.unsqueeze(1)).square()).sum(1)
        scale_BC = (variance_BC + self.config.epsilon).sqrt()
        if kind == "floored":
            scale_BC = scale_BC.clamp(min=self.config.floor)
        if kind == "blended":
            trust_BC = (variance_BC / self.config.threshold).clamp(max=1.0)
            centre_BC, scale_BC = trust_BC * centre_BC, trust_BC * scale_BC + (1.0 - trust_BC)
        return Statistics(centre_BC, torch.where(seen_BC, scale_BC, 1.0))

    def normalise(self, x_BLC: Tensor, statistics: Statistics | None) -> Tensor:
        """Rows of the context, or of the future, in the space of the window."""
        if statistics is None:
            return x_BLC
        return (x_BLC - statistics.centre_BC.unsqueeze(1)) / statistics.scale_BC.unsqueeze(1)

    def restore_mean(self, mean_BHC: Tensor, statistics: Statistics | None) -> Tensor:
        """A mean in the space of the window, back in global z-space."""
        if statistics is None:
            return mean_BHC
        return mean_BHC * statistics.scale_BC.unsqueeze(1) + statistics.centre_BC.unsqueeze(1)

    def restore_log_variance(self, log_variance_BHC: Tensor, statistics: Statistics | None) -> Tensor:
        """A log-variance in the space it was predicted in, back in global z-space."""
        if statistics is None or self.config.kind in ("split", "centred", "anchored"):
            return log_variance_BHC
        return log_variance_BHC + 2.0 * statistics.scale_BC.log().unsqueeze(1)
