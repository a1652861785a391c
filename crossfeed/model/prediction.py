"""What the model says about a batch: the encoded context and a distribution for every horizon and sensor.

B windows, K context rows, H horizons, C sensors, D latent width. Means and variances are in global z-space.
"""

from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from crossfeed.model.instance_norm import Statistics
from crossfeed.model.likelihood import student_t_quantile


@dataclass(frozen=True, slots=True)
class Context:
    """The encoded context: state at the last row, all rows, their mean, and the statistics that were taken out."""

    z_BD: Tensor
    steps_BKD: Tensor
    pooled_BD: Tensor
    statistics: Statistics | None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted latents and, for each sensor, a Gaussian or (with degrees of freedom) a Student-t."""

    latent_BHD: Tensor
    mean_BHC: Tensor
    log_variance_BHC: Tensor
    degrees_of_freedom_C: Tensor | None
    context: Context

    @property
    def standard_deviation(self) -> Tensor:
        return torch.exp(0.5 * self.log_variance_BHC)

    @property
    def scale(self) -> Tensor:
        """The scale parameter of the family: the deviation of a Gaussian, less than it for a Student-t."""
        dof_C = self.degrees_of_freedom_C
        deviation_BHC = self.standard_deviation
        return deviation_BHC if dof_C is None else deviation_BHC * ((dof_C - 2.0) / dof_C).sqrt()

    def split(self, size: int) -> "tuple[Prediction, ...]":
        """The predictions of several views that went through the model as one batch."""
        context, statistics = self.context, self.context.statistics
        return tuple(
            Prediction(
                latent_BHD=self.latent_BHD[rows],
                mean_BHC=self.mean_BHC[rows],
                log_variance_BHC=self.log_variance_BHC[rows],
                degrees_of_freedom_C=self.degrees_of_freedom_C,
                context=Context(
                    z_BD=context.z_BD[rows],
                    steps_BKD=context.steps_BKD[rows],
                    pooled_BD=context.pooled_BD[rows],
                    statistics=None
                    if statistics is None
                    else Statistics(statistics.centre_BC[rows], statistics.scale_BC[rows]),
                ),
            )
            for rows in (slice(start, start + size) for start in range(0, len(self.mean_BHC), size))
        )

    def quantile(self, level: float) -> Tensor:
        """The value below which the target falls with probability `level`."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"a quantile level lies between 0 and 1, not at {level}")
        return self.mean_BHC + self.scale * standard_quantile(level, self.degrees_of_freedom_C, self.mean_BHC)


def standard_quantile(level: float, degrees_of_freedom_C: Tensor | None, like: Tensor) -> Tensor:
    """Quantile of the standard member of the family, with the type and device of `like`."""
    if degrees_of_freedom_C is None:
        # A fill instead of a copy from the host, which would make the device wait.
        return torch.full((), NormalDist().inv_cdf(level), dtype=like.dtype, device=like.device)
    return student_t_quantile(level, degrees_of_freedom_C).to(like)
