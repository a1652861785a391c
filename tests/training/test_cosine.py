"""The learning rate rises, peaks and falls to nothing; a resumed run finds it where it left it."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from crossfeed.logs.table import Table
from crossfeed.training.config import TrainingConfig
from crossfeed.training.history import Row, read_history
from crossfeed.training.optimiser import average_weights, learning_rates
from crossfeed.training.run import train
from tests.training.sensor_run import sensor_config

RATE = 2e-3


def rates(steps: int, warmup: int = 10, schedule: str = "cosine") -> torch.Tensor:
    return learning_rates(
        TrainingConfig.model_validate({"learning_rate": RATE, "warmup_steps": warmup, "schedule": schedule}), steps
    )


@given(st.integers(2, 2000), st.integers(0, 300))
@settings(max_examples=50, deadline=None)
def test_rates_are_positive_bounded_and_one_for_each_step(steps: int, warmup: int) -> None:
    found = rates(steps, warmup)
    assert found.shape == (steps,)
    assert found.dtype == torch.float32
    assert (found > 0.0).all()
    assert (found <= RATE * (1.0 + 1e-6)).all()


def test_the_rate_rises_from_a_first_small_step() -> None:
    found = rates(1000, 100)
    assert found[0].item() == pytest.approx(RATE / 100)
    assert (found[:100].diff() > 0.0).all()
    assert found[49].item() == pytest.approx(0.5 * RATE, rel=0.01)


def test_the_peak_is_the_rate_itself_at_the_end_of_the_warm_up() -> None:
    found = rates(1000, 100)
    assert found.argmax().item() in range(95, 101)
    assert found.max().item() == pytest.approx(RATE, rel=0.03)
    assert rates(1000, 0)[0].item() == pytest.approx(RATE)


@pytest.mark.parametrize("warmup", [0, 100])
def test_the_rate_falls_to_nearly_nothing(warmup: int) -> None:
    found = rates(1000, warmup)
    assert (found[warmup:].diff() < 0.0).all()
    assert found[-1] < 1e-5 * RATE
    assert found[500].item() == pytest.approx(0.5 * RATE, rel=0.01)
    assert found[750].item() == pytest.approx(0.5 * RATE * (1.0 + math.cos(0.75 * math.pi)), rel=0.01)


def test_a_resumed_run_goes_on_down_the_same_curve(tmp_path: Path, table: Table) -> None:
    """A cosine over the steps that are left would start a resumed run at its peak again."""
    config = sensor_config()
    expected = learning_rates(config.training, 3 * 4)[3::4].tolist()

    def interrupt(row: Row) -> None:
        if row["epoch"] == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(table, config, tmp_path / "run", on_epoch=interrupt)
    train(table, config, tmp_path / "run", resume=True)
    assert [row["learning_rate"] for row in read_history(tmp_path / "run" / "history.parquet")] == expected


def test_a_constant_rate_stays() -> None:
    assert torch.equal(rates(50, 5, "constant")[5:], torch.full((45,), RATE))


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ValidationError):
        rates(10, schedule="linear")


@given(st.integers(1, 500), st.floats(0.0, 0.9999))
@settings(max_examples=40, deadline=None)
def test_shares_of_the_average_are_shares(steps: int, decay: float) -> None:
    found = average_weights(TrainingConfig(average_decay=decay), steps)
    assert found.shape == (steps,)
    assert (found > 0.0).all()
    assert (found <= 1.0).all()
    assert (found >= 1.0 - decay - 1e-6).all()
    assert (found.diff() <= 0.0).all()
