"""The world model's own arms in a comparison, trained by the training room under the same budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crossfeed.baselines.budget import Budget
from crossfeed.baselines.sizes import Size, learning_rate
from crossfeed.evaluation.world_model import WorldModelForecaster
from crossfeed.ingest.table import Table
from crossfeed.model.objectives import Weights
from crossfeed.model.world_model import WorldModel
from crossfeed.training.run import train
from crossfeed.training.run_config import DataConfig, RunConfig, preset

ARMS = {
    "paper": "the method exactly as the paper states it",
    "paper-revin": "the same with pure instance normalisation, the paper's ablation",
    "crossfeed": "the default preset",
    "crossfeed-no-latent": "the default preset without pretraining, latent, VICReg and recovery terms",
}


def arm_config(arm: str, budget: Budget, size: Size, seed: int, windows: RunConfig) -> RunConfig:
    """The arm's configuration; budget, rate, split and windows are those of every other model of the comparison."""
    config = preset("paper" if arm.startswith("paper") else "crossfeed", size)
    model = config.model.model_copy(update={"context": windows.model.context, "horizons": windows.model.horizons})
    if arm == "paper-revin":
        model = model.model_copy(update={"instance_norm": model.instance_norm.model_copy(update={"kind": "pure"})})
    objectives, latent = config.objectives, arm != "crossfeed-no-latent" and budget.pretext_epochs > 0
    if arm == "crossfeed-no-latent":
        weights = Weights(latent=0.0, vicreg=0.0, sigreg=0.0, recovery=0.0, schema=objectives.weights.schema)
        objectives = objectives.model_copy(update={"weights": weights})
    health = config.training.health
    if budget.validation_windows is not None:
        # Latent health selects nothing here; it must not cost more than the training it watches.
        health = health.model_copy(update={"windows": max(8, min(health.windows, budget.validation_windows // 4))})
    training = config.training.model_copy(
        update={
            "health": health,
            "pretrain_epochs": budget.pretext_epochs if latent else 0,
            "finetune_epochs": budget.epochs - (budget.pretext_epochs if latent else 0),
            "initialisation": "body_fresh_head" if latent else "scratch",
            "batch_size": budget.batch_size,
            "steps_per_epoch": budget.steps,
            "validation_windows": budget.validation_windows,
            "learning_rate": budget.learning_rate or learning_rate(size),
            "weight_decay": budget.weight_decay,
            "clip_norm": budget.clip_norm,
            "patience": budget.patience,
            "seed": seed,
        }
    )
    data = DataConfig.model_validate(windows.data.model_dump())
    return config.model_copy(update={"model": model, "objectives": objectives, "training": training, "data": data})


def train_arm(
    arm: str, tables: Sequence[Table], config: RunConfig, folder: Path, device: str
) -> tuple[WorldModelForecaster, dict[str, Any]]:
    """Train one arm in its own folder, or go on where an interrupted comparison left it; gives its summary too."""
    result = train(list(tables), config, folder, resume=folder.exists(), device=device)
    return WorldModelForecaster(WorldModel.load(result.model, device=device), name=arm), result.summary
