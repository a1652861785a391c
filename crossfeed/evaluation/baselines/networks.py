"""The neural baselines by name: how each is built, what it does about absent channels, where RevIN belongs."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import Budget, Size, depth, learning_rate, width
from crossfeed.evaluation.baselines.network import Features, InstanceNormalised, Network, NetworkInputs, Shape
from crossfeed.evaluation.baselines.neural import NeuralForecaster
from crossfeed.evaluation.baselines.patchtst import ITransformer, PatchTst
from crossfeed.evaluation.baselines.reconstruction import (
    EventAutoencoder,
    LocalAutoencoder,
    MaskedAutoencoder,
    PatchFormer,
    SimMtm,
    WaveletAutoencoder,
)
from crossfeed.evaluation.baselines.small_networks import DLinear, Rssm, Tide, TsMixer, mlp, recurrent, tcn, transformer

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
