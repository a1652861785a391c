"""How the world model's own arms are trained in a comparison: by the training room, under the same budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossfeed.baselines.budget import Budget, Size, learning_rate
from crossfeed.errors import ConfigError
from crossfeed.ingest.table import Table
from crossfeed.model.locate import FLEET, locate_model
from crossfeed.model.model_file import read_model_file
from crossfeed.model.new_machine import shares_a_command
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.windows.split_tables import DataConfig

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
