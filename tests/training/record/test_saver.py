"""States written while training goes on: what was given is what arrives, and failures are told."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crossfeed.errors import StorageError
from crossfeed.training.checkpoint import Best, Saver, TrainingState, load_state
from tests.training.record.test_checkpoint import example

CPU = torch.device("cpu")


def test_a_state_written_behind_is_the_one_that_was_given(tmp_path: Path) -> None:
    saver, given = Saver(tmp_path, behind=True), example()
    saver.save(given)
    given.model["weight"].fill_(77.0)  # training goes on in the same memory
    saver.wait()
    loaded = load_state(tmp_path, CPU)
    assert loaded is not None
    assert loaded.epoch == given.epoch
    assert torch.equal(loaded.model["weight"], torch.ones(3, 2))


def test_a_state_that_cannot_be_written_behind_is_an_error_for_whoever_waits(tmp_path: Path) -> None:
    saver = Saver(tmp_path / "file", behind=True)
    (tmp_path / "file").write_text("no folder")
    saver.save(example())
    with pytest.raises((StorageError, OSError)):
        saver.wait()


def test_best_weights_change_with_the_best_epoch_and_only_then(tmp_path: Path) -> None:
    def after(epoch: int, best: int) -> TrainingState:
        given = replace(example(epoch), best=Best(patience=3, epoch=best, score=0.5, waited=0))
        return replace(given, best_model={"weight": torch.full((3, 2), float(best))})

    saver = Saver(tmp_path, behind=True)
    for epoch, best in ((1, 0), (2, 0), (3, 2)):
        saver.save(after(epoch, best))
        saver.wait()
        loaded = load_state(tmp_path, CPU)
        assert loaded is not None
        assert loaded.best_model["weight"].unique().tolist() == [best]
        assert loaded.model["weight"].unique().tolist() == [epoch]
