"""Are the latents still alive? Rank, spread, correlation and a linear probe, all scale-free unless named raw.

Beside it the floors: forecasts that cost nothing and that every model has to beat, reading present entries only.
N windows, D latent coordinates, H horizons, C sensors.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from crossfeed.training.config import HealthConfig

# One for everybody, for ever: it belongs to the protocol, not to any model.
PROTOCOL_SEED = 20260820
# What the word means and what to do, for whoever meets it on a terminal or in a report.
COLLAPSED = (
    "Collapsed means that the latents of different windows have become nearly the same, or vary in a few directions "
    "only, so little of the machine's state is left in them; forecasts made from them may look fine here and fail "
    "elsewhere. Remedies: the default preset, which compares no latents (--preset crossfeed); a lower "
    "training.learning_rate; more weight on what keeps latents apart (objectives.weights.vicreg); more or "
    "more varied sessions."
)


def effective_rank(z_ND: Tensor) -> Tensor:
    """Exponential of the entropy of the centred singular values (normalised to sum one), as a fraction of D.

    With fewer windows than coordinates the fraction is of the largest rank that many windows can show.
    """
    centred_ND = z_ND.double() - z_ND.double().mean(0)
    singular_D = torch.linalg.eigvalsh(centred_ND.T @ centred_ND).clamp(min=0.0).sqrt()
    share_D = singular_D / singular_D.sum().clamp(min=torch.finfo(torch.float64).tiny)
    entropy: Tensor = -torch.special.xlogy(share_D, share_D).sum()
    return entropy.exp() / min(z_ND.shape[1], z_ND.shape[0] - 1)


def latent_health(z_ND: Tensor) -> dict[str, Tensor]:
    """The diagnostics of one set of latents; everything stays on the device."""
    z_ND = z_ND.double()
    std_D = z_ND.std(0, correction=0)
    smallest = torch.finfo(torch.float64).tiny
    scaled_ND = (z_ND - z_ND.mean(0)) / std_D.clamp(min=smallest)
    correlation_DD = scaled_ND.T @ scaled_ND / len(z_ND)
    off_diagonal_DD = correlation_DD - torch.diag(correlation_DD.diagonal())
    width = z_ND.shape[1]
    return {
        "rank": effective_rank(z_ND),
        "raw_spread": std_D.min(),
        "relative_spread": std_D.min() / std_D.median().clamp(min=smallest),
        "varying": (std_D.square().sum() / z_ND.square().mean(0).sum().clamp(min=smallest)).sqrt(),
        "correlation": off_diagonal_DD.abs().sum() / max(width * (width - 1), 1),
    }


def ridge_weights(gram_FF: Tensor, moment_FO: Tensor, penalty_F: Tensor) -> Tensor:
    """The solution of a ridge regression from inner products of its inputs, and of these with the outputs.

    Leading axes are problems of their own.
    """
    weights: Tensor = torch.linalg.solve(gram_FF + torch.diag_embed(penalty_F), moment_FO)
    return weights


def ridge_probe(fit: Sequence[Tensor], test: Sequence[Tensor], strength: float = 0.01) -> Tensor:
    """R2 of a linear map from latents to future sensors, against the constant prediction of the fitting windows.

    Each part is (latents N D, future values N H C, presence N H C); absent entries weigh nothing.
    """
    z_ND, y_NHC, m_NHC = (part.double() for part in fit)
    location_D, scale_D = z_ND.mean(0), z_ND.std(0, correction=0).clamp(min=1e-12)

    def features(latents: Tensor) -> Tensor:
        return torch.nn.functional.pad((latents.double() - location_D) / scale_D, (0, 1), value=1.0)

    design_NF, weight_CN = features(z_ND), m_NHC.amin(1).T
    weighted_CNF = weight_CN[:, :, None] * design_NF
    gram_CFF = weighted_CNF.transpose(1, 2) @ design_NF
    penalty_CF = strength * weight_CN.sum(1)[:, None].clamp(min=1.0) * torch.ones_like(design_NF[0])
    penalty_CF[:, -1] = 1e-9  # the intercept is free
    target_CNH = (y_NHC * m_NHC).permute(2, 0, 1)
    weights_CFH = ridge_weights(gram_CFF, weighted_CNF.transpose(1, 2) @ target_CNH, penalty_CF)
    mean_CH = (weight_CN[:, :, None] * target_CNH).sum(1) / weight_CN.sum(1)[:, None].clamp(min=1.0)

    test_z_ND, test_y_NHC, test_m_NHC = (part.double() for part in test)
    predicted_NHC = torch.einsum("nf,cfh->nhc", features(test_z_ND), weights_CFH)
    error = ((predicted_NHC - test_y_NHC).square() * test_m_NHC).sum()
    constant = ((mean_CH.T - test_y_NHC).square() * test_m_NHC).sum()
    return 1.0 - error / constant.clamp(min=torch.finfo(torch.float64).tiny)


def collapse_reasons(health: Mapping[str, float], config: HealthConfig) -> list[str]:
    """Why these latents count as collapsed, in words; empty when they are healthy."""
    found = {
        "effective rank": (health["rank"], config.rank_floor),
        f"{config.spread} spread of the flattest coordinate": (health[f"{config.spread}_spread"], config.spread_floor),
        "part that varies between windows": (health["varying"], config.varying_floor),
    }
    return [f"{name} {value:.3g}, below {floor:g}" for name, (value, floor) in found.items() if not value >= floor]


def persistence(x_BKC: Tensor, m_BKC: Tensor, horizons: Sequence[int]) -> Tensor:
    """The last present value of every channel, at all horizons."""
    row_K = torch.arange(x_BKC.shape[1], device=x_BKC.device)
    last_B1C = torch.where(m_BKC, row_K[:, None], -1).amax(1, keepdim=True)
    value_B1C = x_BKC.gather(1, last_B1C.clamp(min=0))
    return torch.where(last_B1C >= 0, value_B1C, 0.0).expand(-1, len(horizons), -1)


def linear_drift(x_BKC: Tensor, m_BKC: Tensor, horizons: Sequence[int]) -> Tensor:
    """The least-squares line through the present context rows, continued; a single present row is continued flat."""
    x_BKC = torch.where(m_BKC, x_BKC, 0.0).double()
    weight_BKC = m_BKC.double()
    ago_K1 = torch.arange(1 - x_BKC.shape[1], 1, device=x_BKC.device, dtype=torch.float64)[:, None]
    count_BC = weight_BKC.sum(1).clamp(min=1.0)
    mean_ago_BC = (weight_BKC * ago_K1).sum(1) / count_BC
    mean_x_BC = x_BKC.sum(1) / count_BC
    away_BKC = (ago_K1 - mean_ago_BC[:, None]) * weight_BKC
    slope_BC = (away_BKC * x_BKC).sum(1) / away_BKC.square().sum(1).clamp(min=1e-9)
    ahead_H1 = torch.tensor(horizons, device=x_BKC.device, dtype=torch.float64)[:, None]
    return (mean_x_BC[:, None] + slope_BC[:, None] * (ahead_H1 - mean_ago_BC[:, None])).float()


def context_mean(x_BKC: Tensor, m_BKC: Tensor, horizons: Sequence[int]) -> Tensor:
    """The mean of the present values of every channel in the context, at all horizons."""
    total_B1C = torch.where(m_BKC, x_BKC, 0.0).sum(1, keepdim=True)
    return (total_B1C / m_BKC.sum(1, keepdim=True).clamp(min=1)).expand(-1, len(horizons), -1)


FLOORS = {"persistence": persistence, "linear drift": linear_drift}
