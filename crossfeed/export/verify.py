"""Whether an exported file says what torch says, on windows it was not traced with, and what a smaller one costs.

B windows, K context rows, C sensors, A commands, T planned steps.
"""

from dataclasses import dataclass

import numpy as np
import torch

from crossfeed.distribution import Distribution, Gaussian, Mixture
from crossfeed.distribution.distribution import tensors_of
from crossfeed.edge import EdgeModel
from crossfeed.errors import ConfigError
from crossfeed.evaluation.evaluate import EvaluationSet, score_windows
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.export.graph import ExportedNetwork, random_windows
from crossfeed.windows.windows import WindowBatch

BATCHES = (1, 2, 7, 128)
TOLERANCE = 1e-4  # in z-units, and in probability for quantiles
HIGHEST_PRICE = 0.01
PRICED_WINDOWS = 2500


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


class ExportedForecaster(Forecaster):
    """What onnxruntime says, as the distribution it stands for."""

    uses_future_commands = True

    def __init__(self, model: EdgeModel, name: str) -> None:
        self.model, self.name = model, name

    def predict(self, batch: WindowBatch) -> Distribution:
        x_BKC = torch.where(batch.m_BKC, batch.x_BKC, torch.nan)
        inputs = (values.cpu().numpy() for values in (x_BKC, batch.a_BKA, batch.future_a_BTA))
        part = {name: torch.from_numpy(values) for name, values in self.model.run(*inputs).items()}
        if self.model.family == "Gaussian":
            return Gaussian(part["mean"], part["scale"])
        return Mixture(part["log_weight_M"], part["mean_M"], part["scale_M"])


@dataclass(frozen=True)
class Price:
    """CRPS on given windows before a model was made smaller and after."""

    windows: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """By which part the CRPS grew."""
        return self.after / self.before - 1.0

    def check(self, force: bool) -> None:
        """Refuse int8 that costs too much, unless it is wanted all the same."""
        if self.share > HIGHEST_PRICE and not force:
            raise ConfigError(
                f"In int8 the CRPS grows by {100 * self.share:.1f} % ({self.before:.4f} to {self.after:.4f} on "
                f"{self.windows} windows).",
                expected=f"at most {100 * HIGHEST_PRICE:g} %",
                remedy="Export in float32, or take it all the same with --force.",
            )


def price(before: Forecaster, after: Forecaster, data: EvaluationSet) -> Price:
    """What the windows of a table say about the two, known before anything is written."""
    chosen = data.sample(PRICED_WINDOWS)
    before_crps, after_crps = (score_windows(each, data, chosen).metrics()["crps"] for each in (before, after))
    if before_crps is None or after_crps is None or before_crps <= 0.0:
        raise ConfigError("The table has no measured value to compare forecasts with.", remedy="Give another table.")
    return Price(len(chosen), before_crps, after_crps)
