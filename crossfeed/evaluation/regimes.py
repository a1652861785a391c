"""What the machine is told to do around a forecast: idle, steady, start-up or stop.

B windows, T future steps, H horizons, A commands. Regimes come from commands alone: they are known beforehand, so
sorting errors by them cannot favour anyone.
"""

import numpy as np
import torch
from torch import Tensor

from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser

REGIMES = ("idle", "steady", "start-up", "stop")
# A command counts as "on" above this share of its root mean square over the train rows.
ON_SHARE = 0.01


def regimes(
    last_a_BA: Tensor, future_a_BTA: Tensor, horizons: tuple[int, ...], schema: Schema, normaliser: Normaliser
) -> Tensor:
    """The regime of each window and horizon, as an index into `REGIMES`.

    The last change of the spindle command in (t, t+h] decides: off to on is a start-up, on to off a stop; without a
    change the machine is steady (on) or idle (off). A schema without a rotational-speed command uses all commands.
    """
    spindles = [i for i, command in enumerate(schema.commands) if command.quantity == "rotational speed"]
    columns = spindles or list(range(len(schema.commands)))
    series_BTA = normaliser.inverse_commands(torch.cat([last_a_BA[:, None], future_a_BTA], 1).double())
    threshold_A = series_BTA.new_tensor(ON_SHARE * np.hypot(normaliser.command_location, normaliser.command_scale))
    on_BT = (series_BTA.abs() > threshold_A)[..., columns].any(-1)
    changed_BT = on_BT[:, 1:] != on_BT[:, :-1]
    # Whether any change happened up to t+h; after the last change the machine is on (start-up) or off (stop).
    any_change_BT = changed_BT.cumsum(1) > 0
    steps = torch.tensor(horizons, device=on_BT.device) - 1
    on_BH, change_BH = on_BT[:, 1:][:, steps], any_change_BT[:, steps]
    return torch.where(change_BH, torch.where(on_BH, 2, 3), torch.where(on_BH, 1, 0))
