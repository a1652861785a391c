import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import ConfigError
from crossfeed.study.record.score import (
    WEIGHTS,
    CandidateScore,
    RunOutcome,
    leaders_disagree,
    rank,
    run_scores,
    weights_of,
)
from crossfeed.training.config import WEAK_COMMAND_USE


def outcome(candidate: str, values: list[float], seed: int = 0, ratio: float = 1.1, **flags: object) -> RunOutcome:
    components = dict(zip(WEIGHTS, values, strict=True))
    return RunOutcome(candidate, seed, components, values[-1], ratio, **flags)  # type: ignore[arg-type]


def published() -> list[RunOutcome]:
    """The paper's outcome table, one pseudo-run per candidate; its SSL losses were not published, so they are equal."""
    with (Path(__file__).parent / "paper_outcomes.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    measured = [name for name in WEIGHTS if name != "ssl"]
    return [
        outcome(row["candidate"], [float(row[part]) for part in measured] + [1.0], ratio=float(row["command_ratio"]))
        for row in rows
    ]


def in_another_unit(run: RunOutcome) -> RunOutcome:
    """The same run with its RMSE components reported in another unit: 453 instead of 0.98."""
    scaled = {
        name: value * (462.0 if name not in ("calibration", "ssl") else 1.0) for name, value in run.components.items()
    }
    return replace(run, components=scaled)


def order(runs: list[RunOutcome], by: str, without: set[str]) -> list[str]:
    return [line.candidate for line in rank(runs, by) if line.candidate not in without]


def test_the_composite_equals_a_hand_calculation() -> None:
    runs = [outcome("a", [1.0, 2.0, 3.0, 4.0, 0.1, 5.0]), outcome("b", [3.0, 2.0, 1.0, 8.0, 0.3, 7.0])]
    scores = {line.candidate: line for line in rank(runs, "paper")}
    # Two runs: every component that differs standardises to -1 and +1; the equal one contributes nothing.
    expected = -0.30 + 0.0 + 0.15 - 0.10 - 0.10 - 0.10
    assert scores["a"].paper == pytest.approx(expected)
    assert scores["b"].paper == pytest.approx(-expected)


def test_the_robust_composite_equals_a_hand_calculation() -> None:
    values = [1.0, 2.0, 4.0]
    runs = [outcome(name, [value, 1.0, 1.0, 1.0, 1.0, 1.0]) for name, value in zip("abc", values, strict=True)]
    scores = {line.candidate: line.robust for line in rank(runs)}
    assert scores["a"] == pytest.approx(0.30 * (1.0 - 2.0) / 1.4826)
    assert scores["b"] == 0.0
    assert scores["c"] == pytest.approx(0.30 * (4.0 - 2.0) / 1.4826)


def test_penalties_are_three_for_a_collapsed_seed_and_one_for_weak_commands() -> None:
    same = [1.0] * 6
    runs = [outcome("good", same), outcome("collapsed", same, collapsed=True), outcome("weak", same, ratio=1.019)]
    assert {line.candidate: line.paper for line in rank(runs, "paper")} == {"good": 0.0, "collapsed": 3.0, "weak": 1.0}


def test_a_candidate_without_a_valid_run_comes_last_and_enters_no_pool() -> None:
    runs = [outcome("a", [1.0] * 6), outcome("b", [2.0] * 6), outcome("dead", [math.nan] * 6, invalid="collapse")]
    lines = rank(runs)
    assert [line.candidate for line in lines] == ["a", "b", "dead"]
    assert lines[-1].invalid_seeds == 1
    assert lines[0] == rank(runs[:2])[0]


def test_a_missing_component_is_named() -> None:
    with pytest.raises(ConfigError, match="'a' with seed 3 has no finite value for masked"):
        rank([outcome("a", [1.0, 1.0, math.nan, 1.0, 1.0, 1.0], seed=3)])


def test_two_candidates_in_another_unit_decided_the_papers_ranking_but_not_ours() -> None:
    runs = published()
    strangers = {"Robust normalization", "Full candidate"}
    damaged = [in_another_unit(run) if run.candidate in strangers else run for run in runs]
    clean_paper, damaged_paper = order(runs, "paper", strangers), order(damaged, "paper", strangers)
    clean_robust, damaged_robust = order(runs, "robust", strangers), order(damaged, "robust", strangers)
    assert damaged_paper != clean_paper
    assert damaged_paper[0] != clean_paper[0]
    assert damaged_robust == clean_robust
    # With RMSE flattened, what is left of the paper's score is the calibration column (and the weak-command penalty).
    strong = [run for run in damaged if run.candidate not in strangers and not run.weak_command]
    by_calibration = [run.candidate for run in sorted(strong, key=lambda run: run.components["calibration"])]
    assert [name for name in damaged_paper if name in by_calibration] == by_calibration
    assert leaders_disagree(rank(damaged))


def test_a_component_that_differs_by_rounding_only_contributes_nothing() -> None:
    runs = [
        outcome("a", [1.0, 1.0, 1.0, 1.0, 1.0, 0.1]),
        outcome("b", [1.0, 1.0, 1.0, 1.0, 1.0, 0.1 + 1e-17 + 1.4e-17]),
    ]
    assert {line.paper for line in rank(runs)} == {line.robust for line in rank(runs)} == {0.0}


@given(
    st.lists(st.lists(st.integers(1, 50).map(float), min_size=6, max_size=6), min_size=3, max_size=8),
    st.floats(0.01, 100.0),
    st.floats(-5.0, 5.0),
)
def test_a_common_change_of_unit_changes_no_score(table: list[list[float]], scale: float, shift: float) -> None:
    runs = [outcome(f"c{i}", values) for i, values in enumerate(table)]
    moved = [outcome(f"c{i}", [value * scale + shift for value in values]) for i, values in enumerate(table)]
    before = {line.candidate: line for line in rank(runs)}
    for line in rank(moved):
        assert line.robust == pytest.approx(before[line.candidate].robust, abs=1e-5, rel=1e-4)
        assert line.paper == pytest.approx(before[line.candidate].paper, abs=1e-5, rel=1e-4)


def test_a_pool_without_latents_was_scored_by_a_loss_that_no_run_had() -> None:
    runs = [outcome("a", [1.0] * 6), outcome("b", [2.0] * 6)]
    bare = [replace(run, components={k: v for k, v in run.components.items() if k != "ssl"}) for run in runs]
    dead = outcome("dead", [math.nan] * 6, invalid="collapse")
    assert [line.candidate for line in rank([*bare, dead])] == ["a", "b", "dead"]
    assert all(line.components.keys() == WEIGHTS.keys() - {"ssl"} for line in rank([*bare, dead])[:2])


def test_without_latents_the_others_share_the_weight_of_the_self_supervised_component() -> None:
    runs = [replace(run, components={k: v for k, v in run.components.items() if k != "ssl"}) for run in published()]
    found = weights_of(runs)
    assert sum(found.values()) == pytest.approx(1.0)
    assert found == pytest.approx({name: WEIGHTS[name] / 0.9 for name in WEIGHTS if name != "ssl"})
    assert weights_of(published()) == weights_of([]) == WEIGHTS


def test_where_most_values_are_equal_the_mean_deviation_stands_in() -> None:
    """Three of four are 1 and one is 5: their mean deviation is 1, and 1.2533 times that a standard deviation."""
    runs = [outcome(name, [value] + [1.0] * 5) for name, value in zip("abcd", [1.0, 1.0, 1.0, 5.0], strict=True)]
    scores = {line.candidate: line.robust for line in rank(runs)}
    assert scores == pytest.approx({"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.30 * 4.0 / 1.2533})


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_rounding_errors_of_a_component_count_for_nothing_whatever_its_size(size: float) -> None:
    for share, counts in ((1e-10, 0.0), (1e-8, -0.30)):
        runs = [outcome("a", [size] + [1.0] * 5), outcome("b", [size * (1.0 + 2.0 * share)] + [1.0] * 5)]
        assert run_scores(runs, "paper")["a", 0] == pytest.approx(counts, abs=1e-6)


def test_commands_are_used_from_the_ratio_on_that_is_asked_for() -> None:
    assert not outcome("enough", [1.0] * 6, ratio=WEAK_COMMAND_USE).weak_command
    assert outcome("weak", [1.0] * 6, ratio=WEAK_COMMAND_USE - 1e-9).weak_command


def test_seeds_are_counted_by_what_became_of_them() -> None:
    runs = [
        outcome("a", [1.0] * 6, 0),
        outcome("a", [1.0] * 6, 1, collapsed=True),
        outcome("a", [1.0] * 6, 2, ratio=1.0),
        outcome("a", [math.nan] * 6, 3, invalid="diverged"),
    ]
    (line,) = rank(runs)
    assert (line.seeds, line.invalid_seeds, line.collapsed_seeds, line.weak_seeds) == (3, 1, 1, 1)


def test_scores_disagree_where_they_crown_different_candidates() -> None:
    line = rank([outcome("a", [1.0] * 6)])[0]

    def ranked(**scores: tuple[float, float]) -> list[CandidateScore]:
        return [replace(line, candidate=name, paper=both[0], robust=both[1]) for name, both in scores.items()]

    assert not leaders_disagree([])
    assert not leaders_disagree(ranked(a=(1.0, 1.0), b=(2.0, 3.0), c=(3.0, 2.0)))
    assert leaders_disagree(ranked(a=(1.0, 2.0), b=(2.0, 1.0)))
