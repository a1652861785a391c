"""Rows of different lengths never meet in one model."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crossfeed.errors import TableError
from crossfeed.evaluation.baselines.budget import named_budget
from crossfeed.evaluation.baselines.compare import compare
from crossfeed.logs.align import check_row_period
from crossfeed.training.data import prepare
from tests.training.conftest import small_config, toy_table


def test_the_same_period_passes_whatever_its_rounding() -> None:
    check_row_period(0.1 + 0.2, 0.3, "a", "b")
    with pytest.raises(TableError, match=r"This log has a row every 2 s, the other every 0\.5 s"):
        check_row_period(2.0, 0.5, "This log", "the other")


def test_two_sources_of_different_periods_were_trained_as_if_they_were_the_same() -> None:
    slow = replace(toy_table("slow"), period=2.0)
    with pytest.raises(TableError, match="The table of slow has a row every 2 s, the first one every 1 s"):
        prepare([toy_table("fast"), slow], small_config(), torch.device("cpu"))


def test_a_comparison_refuses_a_target_of_another_period(tmp_path: Path) -> None:
    slow = replace(toy_table("slow"), period=2.0)
    with pytest.raises(TableError, match="The target has a row every 2 s"):
        compare([toy_table("fast")], slow, tmp_path, budget=named_budget("demo"))
