"""The folder of a training run as `crossfeed train` leaves it, without any training."""

from pathlib import Path
from typing import Any

from crossfeed.training.history import write_history
from tests.front.report.material import write


def history(epochs: int = 3) -> list[dict[str, Any]]:
    """Epochs of both stages."""
    rows = []
    for stage, term in (("pretrain", "latent"), ("finetune", "physical")):
        for epoch in range(epochs):
            health = {
                f"{side}_{key}": 0.4 for side in ("context", "target") for key in ("rank", "varying", "relative_spread")
            }
            rows.append(
                {
                    "stage": stage,
                    "epoch": epoch,
                    f"train_{term}": 1.0 / (epoch + 1),
                    f"validation_{term}": 1.2 / (epoch + 1),
                    "score": 0.9 / (epoch + 1),
                    **health,
                    "probe_r2": 0.3,
                    "collapse": None,
                    "train_seconds": 2.0,
                    "validation_seconds": 1.0,
                    "best_epoch": epoch,
                }
            )
    return rows


def sensor_history(epochs: int = 3) -> list[dict[str, Any]]:
    """Epochs of the default network: one stage, no latents."""
    return [
        {
            "stage": "finetune",
            "epoch": epoch,
            "learning_rate": 1e-3 / (epoch + 1),
            "train_crps": 0.5 / (epoch + 1),
            "rmse": 0.8 / (epoch + 1),
            "crps": 0.4 / (epoch + 1),
            "other_machine_crps": 0.6 / (epoch + 1),
            "score": 0.5 / (epoch + 1),
            "collapse": None,
            "train_seconds": 2.0,
            "validation_seconds": 1.0,
            "best_epoch": epoch,
        }
        for epoch in range(epochs)
    ]


def sensor_run_folder(path: Path) -> Path:
    """The folder of a finished run of the default network."""
    run_folder(path)
    write_history(path / "history.parquet", sensor_history())
    content = summary()
    content["stages"] = {"finetune": {**content["stages"]["finetune"], "probe_r2": None, "target_rank": None}}
    write(path / "summary.json", content)
    return path


def summary() -> dict[str, Any]:
    """The summary of a finished run."""
    scores = {"rmse": 0.5, "mae": 0.3, "crps": 0.2, "nll": 0.1, "coverage90": 0.9, "rmse_by_horizon": {"1": 0.4}}
    floor = {**scores, "rmse": 0.9, "crps": None, "nll": None, "coverage90": None}
    stage = {
        "epochs": 3,
        "best_epoch": 2,
        "score": 0.3,
        "probe_r2": 0.3,
        "target_rank": 0.4,
        "collapse": None,
        "seconds": 9.0,
    }
    part = {"count": 90, "hash": "a" * 64}
    return {
        "stages": {"pretrain": stage, "finetune": stage},
        "validation": {
            "windows": 90,
            "model": scores,
            "persistence": floor,
            "linear drift": floor,
            "shuffled commands": scores,
        },
        "data": {
            "fitted_on": "b" * 64,
            "machines": ["mill"],
            "split_seed": [1],
            "windows": {"train": part, "validation": part},
        },
        "device": "cpu",
        "precision": "float32",
        "seconds": 18.0,
    }


def run_folder(path: Path, finished: bool = True) -> Path:
    """The folder of a training run, done or under way."""
    write(
        path / "run.json",
        {"config": {"preset": "crossfeed", "training": {"health": {"rank_floor": 0.1}}}, "inputs": {}},
    )
    write_history(path / "history.parquet", history())
    if finished:
        write(path / "summary.json", summary())
    return path
