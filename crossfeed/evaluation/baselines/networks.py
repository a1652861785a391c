"""The neural baselines by name: how each is built, what it does about absent channels, where RevIN belongs.

PatchTST reads each channel alone, cut into patches; to iTransformer a whole channel is one token.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad, scaled_dot_product_attention

from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import Budget, Size, depth, learning_rate, width
from crossfeed.evaluation.baselines.network import (
    DROPOUT,
    Features,
    InstanceNormalised,
    Network,
    NetworkInputs,
    Shape,
    estimate,
    instance_series,
)
from crossfeed.evaluation.baselines.neural import NeuralForecaster
from crossfeed.evaluation.baselines.reconstruction import (
    EventAutoencoder,
    LocalAutoencoder,
    MaskedAutoencoder,
    PatchFormer,
    SimMtm,
    WaveletAutoencoder,
)
from crossfeed.evaluation.baselines.small_networks import (
    DLinear,
    Rssm,
    Tide,
    TsMixer,
    mlp,
    recurrent,
    tcn,
    transformer,
)
from crossfeed.model.distribution import Distribution
from crossfeed.windows.windows import WindowBatch

_PATCH, _STRIDE, _PATCH_DROPOUT = 8, 4, 0.2


class ScoredAttention(nn.Module):
    """Self-attention whose scores start from those of the layer below."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.leave, self.dropout = nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x_NPD: Tensor, below_NHPP: Tensor | None) -> tuple[Tensor, Tensor]:
        query, key, value = (
            part(x_NPD).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores_NHPP = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        if below_NHPP is not None:
            scores_NHPP = scores_NHPP + below_NHPP
        mixed_NPD = (scores_NHPP.softmax(-1) @ value).transpose(1, 2).flatten(2)
        return self.dropout(self.leave(mixed_NPD)), scores_NHPP


class PatchBlock(nn.Module):
    """Attention and feed-forward, each with a residual and a batch norm after it."""

    def __init__(self, width: int, heads: int, feed_forward: int, dropout: float) -> None:
        super().__init__()
        self.attention = ScoredAttention(width, heads, dropout)
        self.attention_norm, self.forward_norm = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.enter, self.leave = nn.Linear(width, feed_forward), nn.Linear(feed_forward, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_NPD: Tensor, below_NHPP: Tensor | None) -> tuple[Tensor, Tensor]:
        attended_NPD, scores_NHPP = self.attention(x_NPD, below_NHPP)
        x_NPD = self.attention_norm((x_NPD + self.dropout(attended_NPD)).transpose(1, 2)).transpose(1, 2)
        hidden_NPD = self.leave(self.dropout(gelu(self.enter(x_NPD))))
        x_NPD = self.forward_norm((x_NPD + self.dropout(hidden_NPD)).transpose(1, 2)).transpose(1, 2)
        return x_NPD, scores_NHPP


class PlanCorrection(nn.Module):
    """What the planned commands change in each channel's forecast, given the channel's own state."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.state, self.plan = nn.Linear(width, width), nn.Linear(features.plan_width, width, bias=False)
        self.channel_CD = nn.Parameter(0.02 * torch.randn(features.shape.sensors, width))
        self.leave = nn.Linear(width, 1)

    def forward(self, state_BCD: Tensor, plan_BHG: Tensor) -> Tensor:
        hidden_BHCD = (self.state(state_BCD) + self.channel_CD)[:, None] + self.plan(plan_BHG)[:, :, None]
        change_BHC: Tensor = self.leave(gelu(hidden_BHCD)).squeeze(-1)
        return change_BHC


class PatchTst(Network):
    """The paper's settings at base size: patch 8, stride 4, width 128, 8 heads, 3 layers, feed-forward 256."""

    def __init__(self, features: Features, width: int, heads: int, layers: int, probabilistic: bool = False) -> None:
        super().__init__()
        shape = features.shape
        if shape.context < _PATCH:
            raise ConfigError(
                f"PatchTST cuts windows into patches of {_PATCH} rows, the context has {shape.context}.",
                remedy=f"Use a context of at least {_PATCH} rows, or leave patchtst out.",
            )
        self.features = features
        patches = (shape.context - _PATCH) // _STRIDE + 2
        self.token = nn.Linear(_PATCH, width)
        self.position_PD = nn.Parameter(torch.empty(patches, width).uniform_(-0.02, 0.02))
        self.dropout = nn.Dropout(_PATCH_DROPOUT)
        self.blocks = nn.ModuleList(PatchBlock(width, heads, 2 * width, _PATCH_DROPOUT) for _ in range(layers))
        self.head = nn.Linear(width * patches, shape.steps)
        self.spread = nn.Linear(width * patches, shape.slots) if probabilistic else None
        self.correction = PlanCorrection(features, width) if features.plan_width else None

    def encode(self, x_BVK: Tensor) -> Tensor:
        """Patch features (B, V, D, P) of series in instance space; the last value pads the end by one stride."""
        patches_BVPL = pad(x_BVK, (0, _STRIDE), mode="replicate").unfold(-1, _PATCH, _STRIDE)
        x_NPD = self.dropout(self.token(patches_BVPL).flatten(0, 1) + self.position_PD)
        scores_NHPP: Tensor | None = None
        for block in self.blocks:
            x_NPD, scores_NHPP = block(x_NPD, scores_NHPP)
        return torch.unflatten(x_NPD, 0, x_BVK.shape[:2]).transpose(2, 3)

    def forward(self, batch: WindowBatch) -> Distribution:
        sensors = self.features.shape.sensors
        x_BVK, centre_B1V, scale_B1V = instance_series(batch)
        state_BVDP = self.encode(x_BVK)
        flat_BCN = state_BVDP[:, :sensors].flatten(2)
        mean_BHC = self.head(flat_BCN)[:, :, self.features.horizon_H].transpose(1, 2)
        if self.correction is not None:
            mean_BHC = mean_BHC + self.correction(state_BVDP[:, :sensors].mean(-1), self.features.plan(batch))
        mean_BHC = mean_BHC * scale_B1V[:, :, :sensors] + centre_B1V[:, :, :sensors]
        return estimate(mean_BHC, None if self.spread is None else self.spread(flat_BCN).transpose(1, 2))


class ChannelBlock(nn.Module):
    """Attention over channel tokens and a feed-forward, each with a residual and a layer norm after it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.attention_norm, self.forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x_BVD: Tensor) -> Tensor:
        query, key, value = (
            part(x_BVD).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        rate = self.dropout.p if self.training else 0.0
        mixed_BVD = scaled_dot_product_attention(query, key, value, dropout_p=rate).transpose(1, 2).flatten(2)
        x_BVD = self.attention_norm(x_BVD + self.dropout(self.out(mixed_BVD)))
        hidden_BVD = self.dropout(self.leave(self.dropout(gelu(self.enter(x_BVD)))))
        out_BVD: Tensor = self.forward_norm(x_BVD + hidden_BVD)
        return out_BVD


class ITransformer(Network):
    """The paper's settings at base size: width 128, 8 heads, 3 layers, feed-forward 256."""

    def __init__(self, features: Features, width: int, heads: int, layers: int, probabilistic: bool = False) -> None:
        super().__init__()
        shape = features.shape
        self.features = features
        self.token = nn.Linear(shape.context, width)
        self.plan = nn.Linear(shape.steps, width) if features.inputs.plan else None
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(ChannelBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape.steps)
        self.spread = nn.Linear(width, shape.slots) if probabilistic else None

    def forward(self, batch: WindowBatch) -> Distribution:
        sensors = self.features.shape.sensors
        x_BVK, centre_B1V, scale_B1V = instance_series(batch)
        tokens_BVD = self.token(x_BVK)
        if self.plan is not None:
            tokens_BVD = torch.cat([tokens_BVD, self.plan(batch.future_a_BTA.transpose(1, 2))], dim=1)
        state_BCD = self.norm(self.blocks(self.dropout(tokens_BVD)))[:, :sensors]
        mean_BHC = self.head(state_BCD)[:, :, self.features.horizon_H].transpose(1, 2)
        mean_BHC = mean_BHC * scale_B1V[:, :, :sensors] + centre_B1V[:, :, :sensors]
        return estimate(mean_BHC, None if self.spread is None else self.spread(state_BCD).transpose(1, 2))


FLAGGED = "zeros and a presence flag"
ZEROS = "zeros in z-space, cannot mask"
# +blind hides the planned commands, +revin adds instance normalisation, +plain takes away that of the original,
# +drop hides channels in training with 15 %, as the world model's views do, +gaussian trains a point network's spread.
OPTIONS = ("blind", "revin", "plain", "drop", "gaussian")
_DROP = 0.15


@dataclass(frozen=True, slots=True)
class Recipe:
    """One network; `revin` and `point` say how its original is, options may change it."""

    build: Callable[[Features, Size, bool], Network]
    absent: str = FLAGGED
    revin: Literal["option", "default", "built in", "never"] = "option"
    point: bool = False


def _heads(size: Size) -> int:
    return max(2, width(128, size) // 16)


RECIPES: dict[str, Recipe] = {
    "mlp": Recipe(lambda f, s, _: mlp(f, width(256, s))),
    "gru": Recipe(lambda f, s, _: recurrent(f, nn.GRU, width(256, s))),
    "lstm": Recipe(lambda f, s, _: recurrent(f, nn.LSTM, width(256, s))),
    "tcn": Recipe(lambda f, s, _: tcn(f, width(256, s))),
    "dlinear": Recipe(lambda f, _s, _: DLinear(f), absent=ZEROS),
    "transformer": Recipe(lambda f, s, _: transformer(f, width(256, s), depth(6, s))),
    "tsmixer": Recipe(lambda f, s, _: TsMixer(f, width(256, s), depth(4, s)), revin="default"),
    "tide": Recipe(lambda f, s, _: Tide(f, width(256, s)), revin="default"),
    "rssm": Recipe(lambda f, s, _: Rssm(f, width(256, s), max(32, width(64, s))), revin="never"),
    "patchtst": Recipe(
        lambda f, s, gaussian: PatchTst(f, width(128, s), _heads(s), depth(3, s), probabilistic=gaussian),
        absent=ZEROS, revin="built in", point=True,
    ),
    "itransformer": Recipe(
        lambda f, s, gaussian: ITransformer(f, width(128, s), _heads(s), depth(3, s), probabilistic=gaussian),
        absent=ZEROS, revin="built in", point=True,
    ),
    "mae": Recipe(lambda f, s, _: MaskedAutoencoder(f, width(256, s), depth(6, s))),
    "simmtm": Recipe(lambda f, s, _: SimMtm(f, width(256, s), depth(6, s)), revin="default"),
    "patchformer": Recipe(lambda f, s, _: PatchFormer(f, width(256, s), depth(6, s)), revin="default"),
    "emit": Recipe(lambda f, s, _: EventAutoencoder(f, width(256, s), depth(6, s))),
    "mmr": Recipe(lambda f, s, _: WaveletAutoencoder(f, width(256, s), depth(6, s))),
    "lomar": Recipe(lambda f, s, _: LocalAutoencoder(f, width(256, s), depth(6, s))),
}  # fmt: skip
_registered_in: dict[str, str] = {}  # the module of each baseline of a user's own


def register_baseline(
    name: str, build: Callable[[Features, Size, bool], Network], *, absent: str = FLAGGED,
    revin: Literal["option", "default", "built in", "never"] = "option", point: bool = False,
) -> None:  # fmt: skip
    """Make a network of your own a baseline of comparisons and curves, under the budget and options of all others.

    `build` takes the features, the size and whether a point network shall have a Gaussian head, and gives a `Network`;
    `absent` says in words what it does about absent channels, `revin` and `point` how it was published.

    Examples:
        >>> import crossfeed as cf
        >>> from crossfeed.evaluation.baselines.network import EncodingNetwork
        >>> class LastRow(EncodingNetwork):
        ...     def __init__(self, features):
        ...         super().__init__(features, features.context_width)
        ...
        ...     def encode(self, batch):
        ...         return self.features.context(batch)[:, -1]
        >>> cf.register_baseline("last_row", lambda features, size, gaussian: LastRow(features))
        >>> cf.curve("a.parquet", models="last_row", minutes=[0], size="tiny").models
        ('last_row',)
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ConfigError(f"'{name}' cannot be the name of a baseline.", expected="letters, digits, dots and dashes")
    if name in RECIPES and name not in _registered_in:
        raise ConfigError(f"There is a baseline '{name}' already.", remedy="Choose another name.")
    RECIPES[name] = Recipe(build, absent, revin, point)
    _registered_in[name] = build.__module__


def modules_of_registered(names: Iterable[str]) -> tuple[str, ...]:
    """The modules that a new process has to import before it knows these baselines."""
    modules = dict.fromkeys(
        _registered_in[name] for name in (spec.partition("+")[0] for spec in names) if name in _registered_in
    )
    if "__main__" in modules:
        raise ConfigError(
            "A baseline is registered in the script itself, which other processes do not read.",
            expected="a module that can be imported, which registers the baseline",
            remedy="Move it there, or run with jobs=1.",
        )
    return tuple(modules)


def network_forecaster(name: str, options: frozenset[str], budget: Budget, size: Size) -> NeuralForecaster:
    """A neural baseline in a size, with its options; options that would change nothing are refused."""
    recipe = RECIPES[name]
    if "revin" in options and recipe.revin != "option":
        why = "learns from its own context rows in z-space" if recipe.revin == "never" else "has it already"
        raise ConfigError(f"'{name}+revin' cannot be: {name} {why}.", remedy=f"Ask for '{name}'.")
    if "plain" in options and recipe.revin != "default":
        raise ConfigError(
            f"'{name}+plain' cannot be: RevIN is {'a part of' if recipe.revin == 'built in' else 'not in'} {name}.",
            remedy=f"Ask for '{name}'.",
        )
    if "gaussian" in options and not recipe.point:
        raise ConfigError(f"'{name}+gaussian' is '{name}': it has a Gaussian head.", remedy=f"Ask for '{name}'.")
    inputs = NetworkInputs(presence=recipe.absent == FLAGGED, plan="blind" not in options)
    instance = "revin" in options or (recipe.revin == "default" and "plain" not in options)

    def build(shape: Shape) -> Network:
        network = recipe.build(Features(shape, inputs), size, "gaussian" in options)
        return InstanceNormalised(network) if instance else network

    full_name = "+".join([name, *(option for option in OPTIONS if option in options)])
    rate = budget.learning_rate or learning_rate(size)
    drop = _DROP if "drop" in options else 0.0
    return NeuralForecaster(full_name, build, budget, rate, "blind" not in options, drop)
