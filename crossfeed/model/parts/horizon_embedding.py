"""How the predictor knows which horizon a slot stands for: by the slot's index (paper) or by the horizon's value.

H horizons, D latent width.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from crossfeed.errors import ConfigError
from crossfeed.model.parts.blocks import embedding

HorizonEmbeddingKind = Literal["value", "slot"]
SLOTS = 128  # rows of the paper's slot table; its locked model uses the first five


class HorizonEmbedding(nn.Module):
    """One vector per horizon. By value, the vectors of the trained horizons are joined linearly in log h."""

    def __init__(self, kind: HorizonEmbeddingKind, horizons: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.kind, self.horizons = kind, horizons
        self.table = embedding(len(horizons) if kind == "value" else SLOTS, width)

    def forward(self, horizons: tuple[int, ...]) -> Tensor:
        if horizons == self.horizons:
            return self.table[: len(horizons)]
        self.check(horizons)
        weights = [interpolation(horizon, self.horizons) for horizon in horizons]
        return (
            torch.tensor(weights, dtype=self.table.dtype, device=self.table.device) @ self.table[: len(self.horizons)]
        )

    def check(self, horizons: tuple[int, ...]) -> None:
        """Refuse horizons the model cannot be asked for."""
        strange = [horizon for horizon in horizons if horizon not in self.horizons]
        if self.kind == "slot" and strange:
            raise ConfigError(
                f"This model knows its horizons by slot index and was asked for {', '.join(map(str, strange))}.",
                expected=f"some of its own horizons {', '.join(map(str, self.horizons))}",
                remedy="Ask for those, or train with predictor.horizon_embedding = 'value'.",
            )
        check_between(horizons, self.horizons)


def check_between(horizons: tuple[int, ...], trained: tuple[int, ...]) -> None:
    """Refuse horizons before the first or after the last that was trained."""
    outside = [horizon for horizon in horizons if not trained[0] <= horizon <= trained[-1]]
    if outside:
        known = ", ".join(map(str, trained))
        raise ConfigError(
            f"Horizon {outside[0]} lies outside the horizons this model was trained on ({known}).",
            expected=f"whole numbers from {trained[0]} to {trained[-1]}",
            remedy="Ask for horizons in that range, or train a model with a longer horizon.",
        )


def interpolation(horizon: int, knots: tuple[int, ...]) -> list[float]:
    """Interpolation weights of the trained horizons for one horizon between them."""
    weights = [0.0] * len(knots)
    upper = next(index for index, knot in enumerate(knots) if knot >= horizon)
    if knots[upper] == horizon:
        weights[upper] = 1.0
        return weights
    low, high = knots[upper - 1], knots[upper]
    share = math.log(horizon / low) / math.log(high / low)
    weights[upper - 1], weights[upper] = 1.0 - share, share
    return weights
