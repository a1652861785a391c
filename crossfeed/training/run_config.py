"""The complete configuration of a run: method, training and data in one frozen object, presets, YAML, budgets."""

from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from typing import Any, Self, cast, get_args

from pydantic import model_validator

from crossfeed.configuration import leaves, override, parse, parse_assignments, read_yaml
from crossfeed.errors import ConfigError
from crossfeed.model.config import Size
from crossfeed.model.presets import MethodConfig, crossfeed, mended, paper
from crossfeed.training.config import TrainingConfig, mended_training, paper_training
from crossfeed.training.folder import saved_config
from crossfeed.training.seeds import steps_in_epoch
from crossfeed.windows.split_tables import DataConfig

PRESETS = ("crossfeed", "mended", "paper")
REFERENCE_WIDTH = 128
# Measured on source validation of a simulated and of two real machines (docs/experiments.md): fewer steps leave errors
# that more would mend, more steps learn the sessions by heart.
FEWEST_STEPS, STEPS_PER_WINDOW = 1000, 0.2
REFERENCE_BATCH = 128
FEWEST_PATIENT_EPOCHS = 3


class RunConfig(MethodConfig):
    """Everything that decides the numbers of a run, apart from the tables."""

    training: TrainingConfig = TrainingConfig()
    data: DataConfig = DataConfig()

    @model_validator(mode="after")
    def _something_to_pretrain(self) -> Self:
        training = self.training
        if self.model.network == "sensors" and training.pretrain_epochs and training.initialisation != "scratch":
            raise ValueError(
                "the sensor network has nothing to pretrain: set training.pretrain_epochs to 0 and "
                "training.initialisation to scratch, or choose the preset mended"
            )
        return self


def preset(name: str = "crossfeed", size: Size | None = None) -> RunConfig:
    """One of the complete configurations, in one of the five sizes: base for the paper's network, compact for ours."""
    if name not in PRESETS:
        raise ConfigError(f"There is no preset '{name}'.", expected=f"one of {', '.join(PRESETS)}")
    methods = {"crossfeed": crossfeed, "mended": mended, "paper": paper}
    method = methods[name](size) if size else methods[name]()
    # Wider networks want smaller steps.
    rate = TrainingConfig().learning_rate * REFERENCE_WIDTH / method.model.width
    training = {"mended": mended_training, "paper": paper_training}.get(
        name, lambda: TrainingConfig(learning_rate=rate)
    )()
    parts = {field: getattr(method, field) for field in MethodConfig.model_fields}
    return RunConfig(**parts, training=training)


def departures(name: str, config: Mapping[str, Any]) -> tuple[Size, dict[str, tuple[Any, Any]]]:
    """The size of this preset that is nearest to a written configuration, and every setting in which they differ."""
    if name not in PRESETS:
        return "compact", {}
    here = leaves(config)
    by_size = {size: leaves(preset(name, size).model_dump(mode="json")) for size in get_args(Size)}
    size = min(by_size, key=lambda one: sum(here.get(key) != value for key, value in by_size[one].items()))
    usual = by_size[size]
    return size, {key: (value, usual.get(key)) for key, value in here.items() if usual.get(key) != value}


def resolve_config(
    name: str | None = None,
    size: str | None = None,
    file: Path | None = None,
    assignments: Iterable[str] = (),
    continued: Path | None = None,
) -> RunConfig:
    """Preset, then YAML file, then single settings; `continued` is a run whose configuration is the starting point."""
    saved = saved_config(continued) if continued and not (name or size or file) else None
    config = (
        parse(RunConfig, saved, f"The configuration of {continued}")
        if saved
        else preset(name or "crossfeed", cast(Size | None, size))
    )
    if file is not None:
        config = override(config, read_yaml(file), origin=str(file))
    return override(config, parse_assignments(assignments))


# How much of the usual length, and after which part of it without a better epoch to stop; None: as configured.
BUDGETS: dict[str, tuple[float, float | None]] = {"quick": (0.25, 0.25), "normal": (1.0, None), "thorough": (3.0, 0.34)}


def planned(config: RunConfig, windows: int, budget: str = "normal") -> RunConfig:
    """The configuration with its number of epochs filled in where it leaves that to the windows, and a budget kept."""
    if budget not in BUDGETS:
        raise ConfigError(f"There is no budget '{budget}'.", expected=f"one of {', '.join(BUDGETS)}")
    training = config.training
    if training.finetune_epochs is not None and budget == "normal":
        return config
    usual = training.finetune_epochs
    if usual is None:
        wanted = (FEWEST_STEPS + STEPS_PER_WINDOW * windows) * REFERENCE_BATCH / training.batch_size
        usual = max(1, round(wanted / steps_in_epoch(windows, training.batch_size, training.steps_per_epoch)))
    length, part = BUDGETS[budget]
    stages = {
        "pretrain_epochs": _scaled(training.pretrain_epochs, length),
        "finetune_epochs": _scaled(usual, length),
    }
    waits = training.patience if part is None else max(FEWEST_PATIENT_EPOCHS, ceil(part * max(stages.values())))
    return config.model_copy(update={"training": training.model_copy(update={**stages, "patience": waits})})


def _scaled(epochs: int, length: float) -> int:
    """A stage that is left out stays out; any other has at least one epoch."""
    return max(1, round(epochs * length)) if epochs else 0
