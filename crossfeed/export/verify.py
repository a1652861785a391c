"""Whether an exported file says what torch says: on windows, masks and batches it was not traced with."""

import numpy as np
import torch

from crossfeed.distribution.distribution import tensors_of
from crossfeed.edge import EdgeModel
from crossfeed.errors import ConfigError
from crossfeed.export.graph import ExportedNetwork, random_windows

BATCHES = (1, 2, 7, 128)
TOLERANCE = 1e-4  # in z-units, and in probability for quantiles


def largest_difference(exported: EdgeModel, network: ExportedNetwork, batch: int, seed: int) -> float:
    """Between mean, parameters and quantiles here and there, over random windows with random gaps.

    Log-weights are compared as weights, quantiles by the probability that lies below them: between two components that
    stand far apart a quantile may lie anywhere without any difference to the forecast.
    """
    windows = random_windows(network.model, batch, seed)
    x_BKC, m_BKC, a_BKA, plan_BTA = windows
    found = exported.run(np.where(m_BKC.numpy(), x_BKC.numpy(), np.nan), a_BKA.numpy(), plan_BTA.numpy())
    with torch.inference_mode():
        said = network.distribution(*windows).double()
    wanted = {"mean": said.mean, **tensors_of(said)}
    worst = 0.0
    for name, values in found.items():
        here = torch.from_numpy(values).double()
        if name == "quantiles":
            for place, level in enumerate(network.level_Q.tolist()):
                worst = max(worst, float((said.cdf(here[..., place]) - level).abs().max()))
        elif name == "log_weight_M":
            worst = max(worst, float((here.softmax(-1) - wanted[name].softmax(-1)).abs().max()))
        else:
            worst = max(worst, float((here - wanted[name]).abs().max()))
    return worst if np.isfinite(worst) else float("inf")


def check_export(exported: EdgeModel, network: ExportedNetwork) -> float:
    """The largest difference to torch; one that matters is refused."""
    worst = max(largest_difference(exported, network, batch, seed=batch) for batch in BATCHES)
    if worst > TOLERANCE:
        raise ConfigError(
            f"The exported network differs from torch by {worst:.2g} z-units.",
            expected=f"at most {TOLERANCE:g}",
            remedy="Nothing was written. Use this model with crossfeed itself.",
        )
    return worst
