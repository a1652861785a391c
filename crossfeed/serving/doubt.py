"""Is this plan like anything the model has learned? Where the members of an ensemble disagree, nobody knows."""

import numpy as np
import torch

from crossfeed.model.interface import Plan
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.serving.history import History
from crossfeed.serving.plan import PlannedCommands


def doubt_about(model: WorldModel, history: History, plan: PlannedCommands) -> list[str]:
    """A warning when the members disagree about this plan more than about 99 in 100 windows of the source."""
    longest, context = model.horizons[-1], model.config.context
    if not isinstance(model, SensorModel) or model.members == 1 or len(plan) < longest:
        return []
    found, usual = disagreement(model, history, plan.commands[:longest], context), float(model.usual_doubt)
    if not found > usual > 0.0:
        return []
    return [
        f"the {model.members} members of the model disagree about this plan by {found:.2g} standard deviations; "
        f"in 99 of 100 windows of the source it was less than {usual:.2g}: it is unlike what was learned"
    ]


@torch.inference_mode()
def disagreement(model: SensorModel, history: History, commands: np.ndarray, context: int) -> float:
    """How far apart the members are, on average over present sensors and horizons, in z-units."""
    device = model.step_H.device

    def rows(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(device).unsqueeze(0)

    x_1KC = rows(model.normaliser.transform_sensors(history.sensors[-context:]))
    past_1KA = rows(model.normaliser.transform_commands(history.commands[-context:]))
    planned_1TA = rows(model.normaliser.transform_commands(commands))
    m_1KC = x_1KC.isfinite()
    x_1KC = torch.where(m_1KC, x_1KC, 0.0)
    rows_read = model.eval().read(x_1KC, m_1KC, model.level(x_1KC, m_1KC))
    encoded = model.context(rows_read, past_1KA)
    apart_1HC = model.decode(encoded, Plan.under(planned_1TA, model.horizons)).disagreement
    assert apart_1HC is not None
    return float(apart_1HC[:, :, m_1KC[0].any(0)].mean())
