"""Who can be compared: floors, classics, networks, the world model's arms and the official code, each by name."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.baselines import ARMS
from crossfeed.baselines.arms import arm_config, begun_with
from crossfeed.baselines.budget import Budget, Size
from crossfeed.baselines.clones import REPOSITORIES, SIMMTM, Clone
from crossfeed.baselines.comparison_data import ComparisonData
from crossfeed.baselines.inputs import NetworkInputs
from crossfeed.baselines.networks import FLAGGED, OPTIONS, RECIPES, ZEROS, network_forecaster
from crossfeed.baselines.official import OfficialForecaster
from crossfeed.baselines.ridge import RidgeForecaster
from crossfeed.baselines.trees import TreesForecaster, missing_library
from crossfeed.errors import ConfigError
from crossfeed.evaluation.forecaster import Floor, Forecaster, Learner
from crossfeed.evaluation.in_frame import InFrame
from crossfeed.evaluation.opened_model import WorldModelForecaster
from crossfeed.model.world_model import WorldModel
from crossfeed.training.measure.floors import context_mean, linear_drift, persistence
from crossfeed.training.run import train

FLOORS = {"persistence": persistence, "drift": linear_drift, "mean": context_mean}
CLASSICS = ("ridge", "trees")
NAMES = (*FLOORS, *CLASSICS, *RECIPES, *ARMS, *REPOSITORIES)
SHORT = (
    "persistence", "drift", "ridge", "trees", "gru", "gru+revin", "rssm", "patchtst", "itransformer", "crossfeed",
    "crossfeed+fleet",
)  # fmt: skip


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
    if setting.budget.official_seed is not None and SIMMTM not in setting.clones:
        # The paper names this run without a number; so does a comparison by its budget.
        names = [name for name in names if name != SIMMTM]
        missing[SIMMTM] = f"not run here, no clone was given; {REPOSITORIES[SIMMTM].published}"
    if listed and (reason := missing_library()):
        names = [name for name in names if name != "trees"]
        missing["trees"] = f"not run: {reason}"
    return [contender(name, setting) for name in dict.fromkeys(names)], missing


def contender(spec: str, setting: Setting) -> Contender:
    """One contender by name, with its options behind plus signs."""
    if spec in ARMS:
        return Contender(spec, "masked", True, _fit_arm(spec, setting))
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
        fit = _fit_learner(lambda data: Floor(name, FLOORS[name], data.training.train.horizons))
        return Contender(name, "forecast at the source mean", False, fit)
    if name == "ridge":
        inputs = NetworkInputs(plan="blind" not in chosen)
        return Contender(spec, FLAGGED, False, _fit_learner(lambda _: RidgeForecaster(inputs)))
    if name == "trees":
        trees = TreesForecaster(setting.budget, "blind" not in chosen)
        return Contender(spec, "missing values, handled by the trees", True, _fit_learner(lambda _: trees))
    if name in RECIPES:
        forecaster = network_forecaster(name, chosen, setting.budget, setting.size)
        return Contender(forecaster.name, RECIPES[name].absent, True, _fit_learner(lambda _: forecaster))
    if name not in setting.clones:
        raise ConfigError(
            f"'{name}' trains the official code, and no clone of it was given.",
            remedy=f"Run: git clone {REPOSITORIES[name].home}, check out {REPOSITORIES[name].commit}, add --repo PATH.",
        )
    official = OfficialForecaster(setting.clones[name], setting.budget)
    return Contender(name, ZEROS, True, _fit_learner(lambda _: official), setting.budget.official_seed)


def _fit_learner(make: Callable[[ComparisonData], Learner]) -> Fit:
    def fit(data: ComparisonData, seed: int, folder: Path) -> Fitted:  # noqa: ARG001
        learner, began = make(data), time.monotonic()
        learner.fit(data.training.train, data.training.validation, seed)
        return Fitted(learner, learner.parameters, time.monotonic() - began, learner.details)

    return fit


def _fit_arm(arm: str, setting: Setting) -> Fit:
    def fit(data: ComparisonData, seed: int, folder: Path) -> Fitted:
        config = arm_config(arm, setting.budget, setting.size, seed, data.config)
        body = begun_with(arm, data.tables, config)
        # What an interrupted comparison left in the folder is gone on with.
        done = train(data.tables, config, folder, resume=folder.exists(), device=setting.device, pretrained=body)
        model = WorldModel.load(done.model, device=setting.device)
        parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        details = {"stages": done.summary["stages"]}
        forecaster: Forecaster = WorldModelForecaster(model, arm)
        if body is not None:
            forecaster = InFrame(forecaster, model.normaliser, data.training.normaliser)
        return Fitted(forecaster, parameters, done.summary["seconds"], details)

    return fit
