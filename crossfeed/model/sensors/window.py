"""A window as its sensors see it: each value from the window's own level, its spread, its last value, its presence.

B windows, R rows, K context rows, C sensors, E features of a sensor.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crossfeed.model.parts.instance_norm import Statistics

FAINTEST = 0.01  # spread, in standard deviations of the source, below which differences do not matter


@dataclass(frozen=True, slots=True)
class SensorRows:
    """Rows as they were measured, with the level from which they are seen."""

    x_BRC: Tensor
    m_BRC: Tensor
    level: Statistics
    channels: Tensor | None = None  # those worth reading, where the others are absent throughout

    def window(self, start: int, stop: int) -> "SensorRows":
        """The rows from `start` up to `stop`."""
        return replace(self, x_BRC=self.x_BRC[:, start:stop], m_BRC=self.m_BRC[:, start:stop])

    def followed_by(self, later: "SensorRows") -> "SensorRows":
        """These rows and later ones that are seen from the same level."""
        x_BRC, m_BRC = torch.cat([self.x_BRC, later.x_BRC], 1), torch.cat([self.m_BRC, later.m_BRC], 1)
        return replace(self, x_BRC=x_BRC, m_BRC=m_BRC)

    def __len__(self) -> int:
        return self.x_BRC.shape[1]


@dataclass(frozen=True, slots=True)
class SensorWindow:
    """What tokens and forecasts are made of; values of absent sensors are 0 and are not to be read."""

    features_BCE: Tensor
    present_BC: Tensor
    centre_BC: Tensor
    last_BC: Tensor
    channels: Tensor | None = None  # which sensors these are, where not all are looked at

    @classmethod
    def of(cls, rows: SensorRows) -> "SensorWindow":
        """The window that these K rows make."""
        centre_BC, m_BKC = rows.level.centre_BC, rows.m_BRC
        x_BKC = torch.where(m_BKC, rows.x_BRC, centre_BC.unsqueeze(1))
        away_BKC = x_BKC - centre_BC.unsqueeze(1)
        count_BC = m_BKC.sum(1)
        spread_BC = (away_BKC.square().sum(1) / count_BC.clamp(min=1)).sqrt()
        number_K1 = torch.arange(1, m_BKC.shape[1] + 1, device=m_BKC.device).unsqueeze(-1)
        newest_BC = torch.where(m_BKC, number_K1, 1).amax(1) - 1
        # Taken as it was measured: a level that is subtracted and added again leaves its rounding behind.
        last_BC = x_BKC.gather(1, newest_BC.unsqueeze(1)).squeeze(1)
        columns = [
            away_BKC,
            m_BKC.to(away_BKC.dtype),
            *(values.unsqueeze(1) for values in (spread_BC, torch.log(spread_BC + FAINTEST), last_BC - centre_BC)),
        ]
        # In one piece: a product with a turned array is slower, and rounds otherwise where weights are frozen.
        features_BCE = torch.cat(columns, 1).transpose(1, 2).contiguous()
        return cls(features_BCE, count_BC > 0, centre_BC, last_BC)

    def map(self, function: Callable[[Tensor], Tensor]) -> "SensorWindow":
        """The same with each of its tensors changed; windows lie along the first axis."""
        features_BCE, present_BC = function(self.features_BCE), function(self.present_BC)
        return SensorWindow(features_BCE, present_BC, function(self.centre_BC), function(self.last_BC), self.channels)

    def only(self, channels: Tensor) -> "SensorWindow":
        """The window of some of the sensors, as if the machine had no others."""
        return replace(self.map(lambda values: values.index_select(1, channels)), channels=channels)
