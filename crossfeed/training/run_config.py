"""The complete configuration of a run: method, training and data in one frozen object, the three presets, YAML."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, cast, get_args

from pydantic import model_validator

from crossfeed.configuration import leaves, override, parse, parse_assignments, read_yaml
from crossfeed.errors import ConfigError
from crossfeed.model.network_config import Size
from crossfeed.model.presets import MethodConfig, crossfeed, mended, paper
from crossfeed.training.config import TrainingConfig, mended_training, paper_training
from crossfeed.training.folder import saved_config
from crossfeed.windows.split_tables import DataConfig

PRESETS = ("crossfeed", "mended", "paper")
REFERENCE_WIDTH = 128


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
