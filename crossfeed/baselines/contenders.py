"""Who can be compared: floors, classics, networks, the world model's arms and the official code, each by name."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crossfeed.baselines import ARMS
from crossfeed.baselines.arms import arm_config, train_arm
from crossfeed.baselines.budget import Budget
from crossfeed.baselines.clones import REPOSITORIES, Clone
from crossfeed.baselines.comparison_data import ComparisonData
from crossfeed.baselines.inputs import NetworkInputs
from crossfeed.baselines.networks import FLAGGED, OPTIONS, RECIPES, ZEROS, network_forecaster
from crossfeed.baselines.neural import NeuralForecaster
from crossfeed.baselines.official import OfficialForecaster
from crossfeed.baselines.ridge import RidgeForecaster
from crossfeed.baselines.sizes import Size
from crossfeed.baselines.trees import TreesForecaster, lightgbm, missing_library
from crossfeed.errors import ConfigError
from crossfeed.evaluation.forecaster import Floor, Forecaster, Learner
from crossfeed.training.measure.floors import context_mean, linear_drift, persistence

FLOORS = {"persistence": persistence, "drift": linear_drift, "mean": context_mean}
CLASSICS = ("ridge", "trees")
NAMES = (*FLOORS, *CLASSICS, *RECIPES, *ARMS, *REPOSITORIES)
SHORT = ("persistence", "drift", "ridge", "trees", "gru", "gru+revin", "rssm", "patchtst", "itransformer", "crossfeed")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A forecaster ready to be scored, and what it cost."""

    forecaster: Forecaster
    parameters: int
    seconds: float
    details: dict[str, Any]


Fit = Callable[[ComparisonData, int, Path], Fitted]


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the table; `fit` takes the data, a seed and a folder it may keep things in.

    `own_seed` is the only seed of one that was not given several.
    """

    name: str
    absent: str
    seeded: bool
    fit: Fit
    own_seed: int | None = None

    def seeds(self, asked: int) -> tuple[int, ...]:
        """The seeds it is trained with, where so many are asked for."""
        if self.own_seed is not None:
            return (self.own_seed,)
        return tuple(range(asked if self.seeded else 1))


@dataclass(frozen=True, slots=True)
class Setting:
    """What all contenders of a comparison are made with."""

    budget: Budget
    size: Size
    device: str
    clones: dict[str, Clone]


def line_up(models: str, setting: Setting) -> tuple[list[Contender], dict[str, str]]:
    """Turn `all`, `short` or `gru,patchtst+blind` into contenders, and name those of a list that cannot take part.

    A model asked for by its own name that cannot run is an error at once, before anything is trained.
    """
    everybody = [name for name in NAMES if name not in REPOSITORIES or name in setting.clones]
    listed = {"all": everybody, "short": [*SHORT, *setting.clones]}.get(models.strip())
    names = listed or [name.strip() for name in models.split(",") if name.strip()]
    if not names:
        raise ConfigError("No model was named.", expected="all, short, or names separated by commas")
    missing = {}
    if listed and (reason := missing_library()):
        names = [name for name in names if name != "trees"]
        missing["trees"] = f"not run: {reason}"
    return [contender(name, setting) for name in dict.fromkeys(names)], missing


def contender(spec: str, setting: Setting) -> Contender:
    """One contender by name, with its options behind plus signs."""
    name, *options = spec.split("+")
    if name not in NAMES or not set(options) <= set(OPTIONS):
        raise ConfigError(
            f"There is no model '{spec}'.",
            expected=f"all, short, or some of {', '.join(NAMES)}; networks take +{', +'.join(OPTIONS)}",
        )
    chosen = frozenset(options)
    if chosen and name not in RECIPES and (name not in CLASSICS or chosen != {"blind"}):
        allowed = "+blind only" if name in CLASSICS else "no option"
        raise ConfigError(f"'{name}' takes {allowed}, '{spec}' asks for more.", remedy=f"Ask for '{name}'.")
    if name in FLOORS:
        return Contender(name, "forecast at the source mean", False, _fit_floor(name))
    if name == "ridge":
        inputs = NetworkInputs(future_commands="none" if "blind" in chosen else "steps")
        return Contender(spec, FLAGGED, False, _fit_ridge(inputs))
    if name == "trees":
        lightgbm()
        return Contender(
            spec, "missing values, handled by the trees", True, _fit_trees(setting.budget, "blind" not in chosen)
        )
    if name in RECIPES:
        forecaster = network_forecaster(name, chosen, setting.budget, setting.size)
        return Contender(forecaster.name, RECIPES[name].absent, True, _fit_network(forecaster))
    if name in ARMS:
        return Contender(name, "masked", True, _fit_arm(name, setting))
    if name not in setting.clones:
        raise ConfigError(
            f"'{name}' trains the official code, and no clone of it was given.",
            remedy=f"Run: git clone {REPOSITORIES[name].home}, check out {REPOSITORIES[name].commit}, add --repo PATH.",
        )
    official = OfficialForecaster(setting.clones[name], setting.budget)
    fit = _fit_network(official, {"code": setting.clones[name].sentence()})
    return Contender(name, ZEROS, True, fit, setting.budget.official_seed)


def _timed(learner: Learner, data: ComparisonData, seed: int) -> float:
    began = time.monotonic()
    learner.fit(data.training.train, data.training.validation, seed)
    return time.monotonic() - began


def _fit_floor(name: str) -> Fit:
    def fit(data: ComparisonData, seed: int, folder: Path) -> Fitted:  # noqa: ARG001
        floor = Floor(name, FLOORS[name], data.training.train.horizons)
        return Fitted(floor, 0, _timed(floor, data, seed), {})

    return fit


def _fit_ridge(inputs: NetworkInputs) -> Fit:
    def fit(data: ComparisonData, seed: int, folder: Path) -> Fitted:  # noqa: ARG001
        ridge = RidgeForecaster(inputs)
        seconds = _timed(ridge, data, seed)
        return Fitted(ridge, ridge.parameters, seconds, {"penalty": ridge.penalty})

    return fit


def _fit_trees(budget: Budget, uses_future_commands: bool) -> Fit:
    def fit(data: ComparisonData, seed: int, folder: Path) -> Fitted:  # noqa: ARG001
        trees = TreesForecaster(budget, uses_future_commands)
        seconds = _timed(trees, data, seed)
        return Fitted(trees, trees.parameters, seconds, {})

    return fit


def _fit_network(forecaster: NeuralForecaster, facts: dict[str, Any] | None = None) -> Fit:
    def fit(data: ComparisonData, seed: int, folder: Path) -> Fitted:  # noqa: ARG001
        seconds = _timed(forecaster, data, seed)
        details = {"stages": [asdict(report) for report in forecaster.reports], **(facts or {})}
        return Fitted(forecaster, forecaster.parameters, seconds, details)

    return fit


def _fit_arm(arm: str, setting: Setting) -> Fit:
    def fit(data: ComparisonData, seed: int, folder: Path) -> Fitted:
        config = arm_config(arm, setting.budget, setting.size, seed, data.config)
        forecaster, summary = train_arm(arm, data.tables, config, folder, setting.device)
        parameters = sum(p.numel() for p in forecaster.module.parameters() if p.requires_grad)
        return Fitted(forecaster, parameters, summary["seconds"], {"stages": summary["stages"]})

    return fit
