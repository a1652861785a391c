"""How well the machine can be told from what a model keeps of a window: for a model that should work anywhere, badly.

B windows, D features, M machines.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from crossfeed.evaluation.forecaster import BATCH
from crossfeed.model.world_model import WorldModel
from crossfeed.training.measure.health import ridge_weights
from crossfeed.training.order import spread_out
from crossfeed.windows.windows import WindowBatch, WindowSet

# Windows of each machine, evenly over its rows: as many of the rare ones as of the frequent ones.
WINDOWS = 1000
RIDGE = 0.01
Features = Callable[[WindowBatch], Tensor]


def machine_invariance(model: WorldModel, fit: WindowSet, test: WindowSet) -> dict[str, Any] | None:
    """Balanced accuracy of a linear classifier that names the machine, from the representation and from the inputs.

    It learns on `fit` and is judged on `test`; nothing where there is one machine only. `leakage` is 0 for an accuracy
    no better than chance and 1 for a perfect one.
    """
    machines = [name for name in fit.machines if name in test.machines]
    if len(machines) < 2:
        return None
    model.eval()
    chance = 1.0 / len(machines)
    found = _accuracy(model.representation, fit, test, machines)
    return {
        "machines": len(machines),
        "chance": chance,
        "accuracy": found,
        "leakage": (found - chance) / (1.0 - chance),
        "accuracy_from_inputs": _accuracy(_inputs, fit, test, machines),
    }


def _inputs(batch: WindowBatch) -> Tensor:
    """What anybody sees of a window: level and spread of every sensor, and which sensors there are."""
    present_BC = batch.m_BKC.double().sum(1)
    mean_BC = (batch.x_BKC.double() * batch.m_BKC).sum(1) / present_BC.clamp(min=1.0)
    square_BC = (batch.x_BKC.double().square() * batch.m_BKC).sum(1) / present_BC.clamp(min=1.0)
    spread_BC = (square_BC - mean_BC.square()).clamp(min=0.0).sqrt()
    return torch.cat([mean_BC, spread_BC, (present_BC > 0).double()], 1)


@torch.no_grad()
def _accuracy(features: Features, fit: WindowSet, test: WindowSet, machines: list[str]) -> float:
    (seen_BD, of_fit_B), (unseen_BD, of_test_B) = (_gather(features, part, machines) for part in (fit, test))
    location_D, scale_D = seen_BD.mean(0), seen_BD.std(0, correction=0).clamp(min=1e-9)

    def design(values_BD: Tensor) -> Tensor:
        return torch.nn.functional.pad((values_BD - location_D) / scale_D, (0, 1), value=1.0)

    x_BF = design(seen_BD)
    wanted_BM = torch.nn.functional.one_hot(of_fit_B, len(machines)).double()
    penalty_F = torch.full((x_BF.shape[1],), RIDGE * len(x_BF), dtype=torch.float64)
    weight_FM = ridge_weights(x_BF.T @ x_BF, x_BF.T @ wanted_BM, penalty_F)
    guess_B = (design(unseen_BD) @ weight_FM).argmax(1)
    right = [(guess_B[of_test_B == number] == number).double().mean() for number in range(len(machines))]
    return float(torch.stack(right).mean())


def _gather(features: Features, windows: WindowSet, machines: list[str]) -> tuple[Tensor, Tensor]:
    """Features of an even sample of every machine's windows, and whose they are."""
    found, owners = [], []
    for number, machine in enumerate(machines):
        own_W = torch.nonzero(windows.machine_W == windows.machines.index(machine)).squeeze(1)
        chosen_W = own_W[spread_out(len(own_W), WINDOWS).to(own_W.device)]
        for part_B in torch.split(chosen_W, BATCH):
            found.append(features(windows.batch(part_B)).double().cpu())
        owners.append(torch.full((len(chosen_W),), number))
    return torch.cat(found), torch.cat(owners)
