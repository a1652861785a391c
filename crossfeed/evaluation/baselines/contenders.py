"""Who can be compared, each by name, and what all share: split, normaliser, windows, and what they are scored on."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossfeed.configuration import parse
from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.baselines import ARMS
from crossfeed.evaluation.baselines.budget import Budget, Size, learning_rate
from crossfeed.evaluation.baselines.network import NetworkInputs
from crossfeed.evaluation.baselines.networks import FLAGGED, OPTIONS, RECIPES, ZEROS, network_forecaster
from crossfeed.evaluation.baselines.official import REPOSITORIES, SIMMTM, Clone, OfficialForecaster
from crossfeed.evaluation.baselines.regression import RidgeForecaster, TreesForecaster, missing_library
from crossfeed.evaluation.forecaster import Forecaster, InFrame, Learner, NaiveForecaster
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.evaluation.opened_model import WorldModelForecaster
from crossfeed.evaluation.setup import check_shared_sensors
from crossfeed.logs.table import Table
from crossfeed.model.model_file import FLEET, locate_model, read_model_file
from crossfeed.model.new_machine import shares_a_command
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.health import context_mean, linear_drift, persistence
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.windows.split import By
from crossfeed.windows.split_tables import DataConfig
from crossfeed.windows.windows import WindowSet

TOO_LIVELY = 10.0  # standard deviations of the train rows


@dataclass(frozen=True)
class ComparisonData:
    """Train and validation windows to learn from; source test and, if there is one, target windows to be scored on."""

    tables: tuple[Table, ...]
    config: RunConfig
    training: TrainingData
    scored: dict[str, EvaluationSet]
    identity: dict[str, object]

    def out_of_scale(self) -> dict[str, float]:
        """Sensors that move so much more where they are scored than in the train rows that they decide every mean."""
        found: dict[str, float] = {}
        for part in self.scored.values():
            x_NC, m_NC = part.windows.x_NC.double().cpu().numpy(), part.windows.m_NC.cpu().numpy()
            for column, name in enumerate(part.schema.sensor_names):
                spread = float(np.std(x_NC[m_NC[:, column], column])) if m_NC[:, column].any() else 0.0
                if spread > TOO_LIVELY:
                    found[name] = max(spread, found.get(name, 0.0))
        return found


def comparison_data(
    sources: Sequence[Table], target: Table | None, config: RunConfig, device: torch.device
) -> ComparisonData:
    """Split the source, fit the normaliser on its train rows, and window everything with it.

    The target is never split or fitted on. Sensors the source never shows are hidden in it: there is no scale for them.
    """
    training = prepare(sources, config, device)
    normaliser, model = training.normaliser, config.model
    test = training.source.windows("test", normaliser, model.context, model.horizons, config.data.stride, device)
    scored = {"source": EvaluationSet(test, training.schema, normaliser, normaliser, "session")}
    if target is not None:
        scored["target"] = target_set(sources, target, training, config, device)
    identity: dict[str, object] = {
        "sources": [table.fingerprint() for table in sources],
        "target": None if target is None else target.fingerprint(),
        "normaliser": normaliser.hash(),
        "windows": {
            "train": training.train.hash(), "validation": training.validation.hash(),
            **{name: data.windows.hash() for name, data in scored.items()},
        },
    }  # fmt: skip
    return ComparisonData(tuple(sources), config, training, scored, identity)


def target_set(
    sources: Sequence[Table], target: Table, training: TrainingData, config: RunConfig, device: torch.device
) -> EvaluationSet:
    """The windows of a table nobody learns from, as the source's normaliser sees them."""
    normaliser, model = training.normaliser, config.model
    schema, unseen = sources[0].schema, normaliser.unseen
    if target.schema.fingerprint != schema.fingerprint:
        raise TableError(
            f"The target has the schema '{target.schema.name}', the source '{schema.name}'.",
            expected="one schema for both; a machine that lacks a channel leaves it empty",
            remedy="Ingest both machines with the same schema.",
        )
    check_shared_sensors([name for name in schema.sensor_names if name not in unseen], [target])
    hidden = [name for name in unseen if name in training.schema.sensor_names]
    windows = WindowSet.build(
        target, None, normaliser, model.context, model.horizons, config.data.stride, device, hidden=hidden
    )
    return EvaluationSet(windows, training.schema, normaliser, normaliser, "run")


def config_of(size: Size, split_by: By, stride: int = 1) -> RunConfig:
    """The windows of a comparison: those of the default preset, split and thinned as asked."""
    data = parse(DataConfig, {"split_by": split_by, "stride": stride}, "The request")
    return preset("crossfeed", size).model_copy(update={"data": data})


BEGUN = f"+{FLEET}"


def arm_config(arm: str, budget: Budget, size: Size, seed: int, windows: RunConfig) -> RunConfig:
    """The arm's configuration; budget, split and windows are those of every other model of the comparison.

    So is the rate, except that the default preset keeps its own where the budget names none: it decays. That preset has
    one stage, which gets all epochs.
    """
    config = preset("paper" if arm.startswith("paper") else arm.removesuffix(BEGUN), size)
    changes: dict[str, Any] = {"context": windows.model.context, "horizons": windows.model.horizons}
    if arm == "paper-revin":
        changes["instance_norm"] = config.jepa.instance_norm.model_copy(update={"kind": "pure"})
    pretext = budget.pretext_epochs if config.model.network == "jepa" else 0
    rate = learning_rate(size) if config.model.network == "jepa" else config.training.learning_rate
    health = config.training.health
    if budget.validation_windows is not None:
        # Latent health selects nothing here; it must not cost more than the training it watches.
        health = health.model_copy(update={"windows": max(8, min(health.windows, budget.validation_windows // 4))})
    training = config.training.model_copy(
        update={
            "health": health,
            "pretrain_epochs": pretext,
            "finetune_epochs": budget.epochs - pretext,
            "initialisation": "body_fresh_head" if pretext else "scratch",
            "batch_size": budget.batch_size,
            "steps_per_epoch": budget.steps,
            "validation_windows": budget.validation_windows,
            "learning_rate": budget.learning_rate or rate,
            "weight_decay": budget.weight_decay,
            "clip_norm": budget.clip_norm,
            "patience": budget.patience,
            "seed": seed,
        }
    )
    data = DataConfig.model_validate(windows.data.model_dump())
    model = config.model.model_copy(update=changes)
    return config.model_copy(update={"model": model, "training": training, "data": data})


def begun_with(arm: str, tables: Sequence[Table], config: RunConfig) -> Path | None:
    """The shipped model, for the arm that begins with it; what `crossfeed train` could not begin with it is refused."""
    if not arm.endswith(BEGUN):
        return None
    path = locate_model(FLEET)
    shipped = read_model_file(path)
    machines = {machine for table in tables for machine in table.machines()}
    if len(machines) > 1:
        raise ConfigError(f"'{arm}' learns one machine, not {len(machines)}.", remedy=f"Leave '{arm}' out.")
    if not all(shares_a_command(shipped.schema, table.schema) for table in tables):
        raise ConfigError(f"'{FLEET}' knows none of the commands of this machine.", remedy=f"Leave '{arm}' out.")
    asked, own = ((one.context, one.horizons) for one in (config.model, shipped.config))
    if asked != own:
        raise ConfigError(
            f"'{FLEET}' reads {own[0]} rows and forecasts {', '.join(map(str, own[1]))} ahead.",
            expected="the same windows for everybody in the comparison",
            remedy=f"Leave '{arm}' out.",
        )
    return path


NAIVE = {"persistence": persistence, "drift": linear_drift, "mean": context_mean}
CLASSICS = ("ridge", "trees")
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


def baseline_names() -> tuple[str, ...]:
    """Everybody who can be compared, those registered by a user too."""
    return (*NAIVE, *CLASSICS, *RECIPES, *ARMS, *REPOSITORIES)


def line_up(models: str, setting: Setting) -> tuple[list[Contender], dict[str, str]]:
    """Turn `all`, `short` or `gru,patchtst+blind` into contenders, and name those of a list that cannot take part.

    A model asked for by its own name that cannot run is an error at once, before anything is trained.
    """
    everybody = [name for name in baseline_names() if name not in REPOSITORIES or name in setting.clones]
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
    if name not in baseline_names() or not set(options) <= set(OPTIONS):
        raise ConfigError(
            f"There is no model '{spec}'.",
            expected=f"all, short, or some of {', '.join(baseline_names())}; networks take +{', +'.join(OPTIONS)}",
        )
    chosen = frozenset(options)
    if chosen and name not in RECIPES and (name not in CLASSICS or chosen != {"blind"}):
        allowed = "+blind only" if name in CLASSICS else "no option"
        raise ConfigError(f"'{name}' takes {allowed}, '{spec}' asks for more.", remedy=f"Ask for '{name}'.")
    if name in NAIVE:
        fit = _fit_learner(lambda data: NaiveForecaster(name, NAIVE[name], data.training.train.horizons))
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
