"""SIGReg: pushes latents towards an isotropic Gaussian, one random direction at a time.

Sketched Isotropic Gaussian Regularisation of Balestriero and LeCun, "LeJEPA" (2025): along a random unit direction the
latents should look like N(0, 1). The Epps-Pulley statistic measures how far the empirical characteristic function is
from exp(-t^2/2): N * integral of |mean(exp(i t y)) - exp(-t^2/2)|^2 * exp(-t^2/2) dt, by the trapezoidal rule. The
integrand is even in t, so half the axis is summed and doubled. Written from the formula.

G groups of N latents of width D, S slices, T knots.
"""

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm


class SIGRegConfig(CheckedForm):
    """How many random directions are tested per call, and how finely and how far the integral is summed."""

    slices: int = Field(default=256, ge=1)
    knots: int = Field(default=17, ge=2)
    extent: float = Field(default=3.0, gt=0.0)


def sigreg(latent_GND: Tensor, config: SIGRegConfig, generator: torch.Generator | None = None) -> Tensor:
    """The Epps-Pulley statistic averaged over random directions and groups."""
    width = latent_GND.shape[-1]
    direction_DS = torch.randn(width, config.slices, device=latent_GND.device, generator=generator)
    direction_DS = direction_DS / direction_DS.norm(dim=0)
    return epps_pulley(latent_GND @ direction_DS, config).mean()


def epps_pulley(sample_GNS: Tensor, config: SIGRegConfig) -> Tensor:
    """Distance of each column's characteristic function from that of N(0, 1), times the number of samples."""
    number = sample_GNS.shape[-2]
    t_T = torch.linspace(0.0, config.extent, config.knots, device=sample_GNS.device, dtype=sample_GNS.dtype)
    normal_T = torch.exp(-0.5 * t_T.square())
    phase_GNST = sample_GNS.unsqueeze(-1) * t_T
    real_GST = phase_GNST.cos().mean(-3) - normal_T
    imaginary_GST = phase_GNST.sin().mean(-3)
    density_GST = (real_GST.square() + imaginary_GST.square()) * normal_T
    return 2.0 * number * torch.trapezoid(density_GST, dx=config.extent / (config.knots - 1))
