from pathlib import Path

import pytest

from crossfeed.errors import TrainingError
from crossfeed.logs.table import Table
from crossfeed.training.history import LOG, run_log
from crossfeed.training.run import train
from tests.training.conftest import small_config


def test_a_run_keeps_a_log_with_start_every_epoch_and_end(table: Table, tmp_path: Path) -> None:
    config = small_config({"training.pretrain_epochs": 1, "training.finetune_epochs": 2})
    train(table, config, tmp_path / "run", device="cpu")
    lines = (tmp_path / "run" / LOG).read_text(encoding="utf-8").splitlines()
    assert "start: crossfeed" in lines[0]
    assert [line.split(" ", 2)[2].split(":")[0] for line in lines if " epoch " in line] == [
        "pretrain epoch 1", "finetune epoch 1", "finetune epoch 2",
    ]  # fmt: skip
    assert "end:" in lines[-1]
    train(table, config, tmp_path / "run", device="cpu", resume=True)
    assert (tmp_path / "run" / LOG).read_text(encoding="utf-8").splitlines() == lines


def test_the_log_says_how_a_run_was_stopped(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), run_log(tmp_path, {}):
        raise KeyboardInterrupt
    with pytest.raises(TrainingError), run_log(tmp_path, {"device": "cpu"}):
        raise TrainingError("The loss is no number.")
    lines = (tmp_path / LOG).read_text(encoding="utf-8").splitlines()
    assert "--resume" in lines[1]
    assert lines[-1].endswith("error: The loss is no number.")


def test_a_collapse_is_a_warning_in_the_log(tmp_path: Path) -> None:
    row = {
        "stage": "pretrain", "epoch": 3, "score": 1.0, "best_epoch": 1, "train_seconds": 1.0, "validation_seconds": 0.5,
        "collapse": "context latents: rank 0.01",
    }  # fmt: skip
    with run_log(tmp_path, {}) as logger:
        logger(row)
    assert "warning: latents collapsed: context latents: rank 0.01" in (tmp_path / LOG).read_text(encoding="utf-8")
