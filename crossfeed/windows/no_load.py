"""What a spindle needs for turning alone, read from its own logs: about the least it ever needed at that speed.

The rest of its effort is cutting. A spindle that cuts without a pause hides what it needs for turning; then less is
taken for cutting than is.

B windows, N rows, E efforts of spindles, V bins of speed.
"""

import numpy as np
import torch
from torch import Tensor

from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowSet

STANDING = 1e-3  # in scales of the commands
STEADY = 4  # rows with one speed, after which a spindle no longer accelerates
BINS = 16  # of speed
LEAST = 0.1  # quantile of an effort that counts as turning alone
FEWEST = 20  # rows of a bin that tell it


class NoLoadEffort:
    """Efforts of spindles (`sensor_E`, driven by `command_E`) and by speed how much of them is turning alone."""

    def __init__(self, schema: Schema, normaliser: Normaliser, windows: WindowSet) -> None:
        device = windows.last_W.device
        drives = driven_efforts(schema)
        sensors, commands = list(drives), list(drives.values())
        self.sensor_E, self.command_E = (torch.tensor(part, device=device) for part in (sensors, commands))
        self.zero_E = torch.from_numpy(normaliser.sensor_zero[sensors]).float().to(device)
        self.standing_E = torch.from_numpy(normaliser.command_zero[commands]).float().to(device)
        effort_NE = (windows.x_NC[:, self.sensor_E] - self.zero_E).abs()
        effort_NE[~windows.m_NC[:, self.sensor_E]] = torch.nan
        speed_NE = self.speed(windows.a_NA)
        tables = [_least(*columns) for columns in zip(speed_NE.T.cpu().numpy(), effort_NE.T.cpu().numpy(), strict=True)]
        self._tables = [tuple(torch.from_numpy(part).float().to(device) for part in table) for table in tables]

    def speed(self, a_A: Tensor) -> Tensor:
        """How fast the spindle of each effort is told to turn (..., E), whichever way round."""
        return (a_A[..., self.command_E] - self.standing_E).abs()

    def __call__(self, speed_E: Tensor) -> Tensor:
        """What turning at these speeds (..., E) needs, from zero; infinite where nothing was logged that tells it."""
        needs = [
            least_V[torch.bucketize(speed.contiguous(), edge_V)]
            for speed, (edge_V, least_V) in zip(speed_E.unbind(-1), self._tables, strict=True)
        ]
        return torch.stack(needs, -1)


def _least(speed_N: np.ndarray, effort_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper edges of the bins of speed, and for each bin, and what is faster than all, the effort of turning alone."""
    steady_N = speed_N > STANDING
    for rows in range(1, STEADY):
        steady_N[rows:] &= speed_N[rows:] == speed_N[:-rows]
    steady_N[: STEADY - 1] = False
    steady_N &= np.isfinite(effort_N)
    if not steady_N.any():
        return np.zeros(0), np.array([np.inf])
    speed_N, effort_N = speed_N[steady_N], effort_N[steady_N]
    edge_V = np.unique(np.quantile(speed_N, np.linspace(0.0, 1.0, BINS + 1), method="inverted_cdf"))
    bin_N = np.searchsorted(edge_V, speed_N)
    least = [
        np.quantile(effort_N[bin_N == number], LEAST) if (bin_N == number).sum() >= FEWEST else np.inf
        for number in range(len(edge_V))
    ]
    return edge_V, np.array([*least, np.inf])


def driven_efforts(schema: Schema) -> dict[int, int]:
    """For every effort of a spindle the commanded speed that drives it: the one whose name shares most words with it.

    Without a commanded speed nothing is known of any of them.
    """
    speeds = [number for number, command in enumerate(schema.commands) if command.quantity == "rotational speed"]
    efforts = [number for number, sensor in enumerate(schema.sensors) if sensor.feels_the_cut] if speeds else []

    def shared(effort: int, speed: int) -> int:
        return len(set(schema.sensors[effort].words) & set(schema.commands[speed].words))

    return {effort: max(speeds, key=lambda speed: shared(effort, speed)) for effort in efforts}
