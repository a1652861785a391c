"""How many epochs a run has: as many as its windows ask for, fewer in a hurry, more with patience."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ConfigError, TrainingError
from crossfeed.training.run_config import (
    FEWEST_PATIENT_EPOCHS,
    FEWEST_STEPS,
    REFERENCE_BATCH,
    STEPS_PER_WINDOW,
    RunConfig,
    planned,
    preset,
)
from crossfeed.training.seeds import steps_in_epoch
from tests.training.sensor_run import sensor_config

batches = st.sampled_from([16, 64, 128, 512])


def open_ended(batch_size: int = 128, steps_per_epoch: int | None = None) -> RunConfig:
    return sensor_config(
        {
            "training.finetune_epochs": None,
            "training.batch_size": batch_size,
            "training.steps_per_epoch": steps_per_epoch,
        }
    )


def total(config: RunConfig, windows: int) -> tuple[int, int]:
    """How many steps are planned, and how many an epoch has."""
    training = planned(config, windows).training
    assert training.finetune_epochs is not None
    steps = steps_in_epoch(windows, training.batch_size, training.steps_per_epoch)
    return training.finetune_epochs * steps, steps


@pytest.mark.parametrize("epochs", [1, 7])
def test_given_epochs_are_left_alone(epochs: int) -> None:
    config = sensor_config({"training.finetune_epochs": epochs})
    assert planned(config, 10**6) is config


@given(st.integers(512, 10**6), batches, st.sampled_from([None, 10, 1000]))
@settings(max_examples=60, deadline=None)
def test_whole_epochs_come_closest_to_the_steps_wanted(windows: int, batch_size: int, cap: int | None) -> None:
    wanted = (FEWEST_STEPS + STEPS_PER_WINDOW * windows) * REFERENCE_BATCH / batch_size
    found, steps = total(open_ended(batch_size, cap), windows)
    assert found >= steps
    assert abs(found - max(wanted, steps)) <= steps / 2.0 + 1e-6


@given(st.integers(1024, 10**5))
@settings(max_examples=30, deadline=None)
def test_more_windows_get_more_steps(windows: int) -> None:
    assert total(open_ended(), 4 * windows)[0] > total(open_ended(), windows)[0]


@given(st.integers(4096, 10**5))
@settings(max_examples=30, deadline=None)
def test_larger_batches_get_fewer_steps_and_see_as_many_windows(windows: int) -> None:
    small, small_epoch = total(open_ended(64), windows)
    large, large_epoch = total(open_ended(256), windows)
    assert large < small
    assert 256 * large == pytest.approx(64 * small, abs=256 * large_epoch / 2 + 64 * small_epoch / 2 + 1)


def test_nothing_but_the_epochs_is_filled_in() -> None:
    config = open_ended()
    found = planned(config, 20_000)
    assert found.training.finetune_epochs == 32
    assert found.training.model_copy(update={"finetune_epochs": None}) == config.training
    assert found.model_copy(update={"training": config.training}) == config
    assert planned(found, 10) is found
    assert found.training.stages == {"finetune": 32}


def test_too_few_windows_for_a_batch_are_refused() -> None:
    with pytest.raises(TrainingError, match="not enough for one batch of 128"):
        planned(open_ended(), 100)


@given(st.integers(512, 10**6), batches)
@settings(max_examples=40, deadline=None)
def test_budgets_are_a_quarter_and_three_times_the_usual_and_stop_early(windows: int, batch_size: int) -> None:
    config = open_ended(batch_size)
    quick, usual, thorough = (planned(config, windows, name).training for name in ("quick", "normal", "thorough"))
    assert usual.finetune_epochs is not None
    assert quick.finetune_epochs == max(1, round(usual.finetune_epochs / 4))
    assert thorough.finetune_epochs == 3 * usual.finetune_epochs
    assert usual.patience == config.training.patience
    for training in (quick, thorough):
        assert training.finetune_epochs is not None
        assert training.patience <= max(FEWEST_PATIENT_EPOCHS, training.finetune_epochs / 2)


def test_a_budget_scales_both_stages_of_the_paper_and_leaves_out_what_is_left_out() -> None:
    paper = preset("paper")
    quick = planned(paper, 5000, "quick").training
    assert (quick.pretrain_epochs, quick.finetune_epochs, quick.patience) == (25, 25, 7)
    assert planned(paper, 5000) is paper
    assert planned(open_ended(), 5000, "quick").training.pretrain_epochs == 0


def test_an_unknown_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="no budget 'cheap'"):
        planned(open_ended(), 5000, "cheap")
