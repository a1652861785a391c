"""Numbers that the paper prints, computed again by our functions from the inputs that it prints."""

from statistics import fmean, stdev
from typing import Any

import pytest

from crossfeed.study.contrast import HIGHER_IS_BETTER, ContrastLine, _lines
from crossfeed.study.record.score import rank
from crossfeed.study.record.store import Run
from crossfeed.training.health import collapse_reasons
from crossfeed.training.run_config import preset
from tests.study.record.test_score import published

# Appendix H, latent-health gate: arm, seed, smallest deviation and rank after pretraining, the same after fine-tuning.
GATE = (
    ("locked", 0, 0.061, 0.223, 0.391, 0.468),
    ("locked", 1, 0.060, 0.227, 0.327, 0.344),
    ("locked", 2, 0.059, 0.231, 0.365, 0.468),
    ("revin", 0, 0.040, 0.488, 0.280, 0.467),
    ("revin", 1, 0.041, 0.470, 0.291, 0.456),
    ("revin", 2, 0.041, 0.446, 0.294, 0.465),
)
# Appendix H, source validation: difference, bounds of its interval, seeds on which RevIN wins.
PAIRED = {
    "clean": (-0.0527, -0.0640, -0.0457, 3),
    "schema_drop": (-0.0313, -0.0357, -0.0248, 3),
    "masked": (-0.0409, -0.0508, -0.0335, 3),
    "long_horizon": (-0.0196, -0.0234, -0.0167, 3),
    "calibration": (-0.0892, -0.1201, -0.0691, 3),
    "ssl": (-0.1234, -0.1660, -0.0952, 3),
    "command_ratio": (0.1151, 0.1004, 0.1426, 3),
    "rank": (0.0360, -0.0028, 0.1118, 1),
}
# Appendix H, declared target read: RMSE of the three seeds of both arms.
TARGET = {"locked": (0.5456, 0.5716, 0.5470), "revin": (0.4994, 0.4924, 0.4928)}


def contrast(metric: str, arms: dict[str, tuple[float, ...]]) -> ContrastLine:
    """The line of the second arm against the first, from the values of one metric by seed."""

    def run(arm: str, seed: int, value: float) -> Run:
        bundle: dict[str, Any] = {"command_ratio": 1.1, "collapsed": False, metric: value}
        bundle |= {"components": {metric: value}, "health": {"predicted_rank": value}}
        config = preset("paper").model_dump(mode="json")
        return Run(f"{arm}-{seed}", arm, seed, "ablation", config, "finished", "", {"invalid": "", "bundle": bundle})

    runs = {arm: {seed: run(arm, seed, value) for seed, value in enumerate(found)} for arm, found in arms.items()}
    return _lines("revin", metric, runs)[1]


@pytest.mark.parametrize(("arm", "seed", "pretrained_spread", "pretrained_rank", "tuned_spread", "tuned_rank"), GATE)
def test_the_gate_flags_the_runs_that_the_paper_says_it_flagged(
    arm: str, seed: int, pretrained_spread: float, pretrained_rank: float, tuned_spread: float, tuned_rank: float
) -> None:
    gate = preset("paper").training.health
    pretrained = {"rank": pretrained_rank, "raw_spread": pretrained_spread, "varying": 1.0}
    reasons = collapse_reasons(pretrained, gate)
    assert bool(reasons) == (arm == "revin"), seed
    assert all(reason.startswith("raw spread") for reason in reasons), "on the raw-scale criterion only"
    assert not collapse_reasons({"rank": tuned_rank, "raw_spread": tuned_spread, "varying": 1.0}, gate)


def test_the_rank_column_is_that_of_the_predicted_latents_after_fine_tuning() -> None:
    ranks = {arm: tuple(row[5] for row in GATE if row[0] == arm) for arm in ("locked", "revin")}
    line = contrast("rank", ranks)
    assert fmean(ranks["locked"]) == pytest.approx(0.4266, abs=5e-4)
    assert stdev(ranks["locked"]) == pytest.approx(0.0717, abs=5e-4)
    assert line.mean == pytest.approx(0.4626, abs=5e-4)
    assert line.deviation == pytest.approx(0.0062, abs=5e-4)
    assert (line.wins, line.seeds) == (1, 3)
    assert line.difference == pytest.approx(PAIRED["rank"][0], abs=5e-4)


@pytest.mark.parametrize("metric", PAIRED)
def test_the_paired_differences_of_appendix_h_give_its_intervals_and_wins(metric: str) -> None:
    """With three pairs the interval reaches from the smallest to the largest difference; the mean gives the third."""
    difference, low, high, wins = PAIRED[metric]
    pairs = (low, 3.0 * difference - low - high, high)
    assert low <= pairs[1] <= high
    line = contrast(metric, {"locked": (1.0, 1.0, 1.0), "revin": tuple(1.0 + pair for pair in pairs)})
    assert line.difference == pytest.approx(difference, abs=1e-9)
    assert line.low == pytest.approx(low, abs=1e-9)
    assert line.high == pytest.approx(high, abs=1e-9)
    assert (line.wins, line.seeds) == (wins, 3), metric in HIGHER_IS_BETTER
    assert line.floor == 0.25, "two-sided; the paper's 0.125 is one-sided"


def test_the_declared_target_read_gives_the_papers_aggregates() -> None:
    line = contrast("clean", TARGET)
    assert fmean(TARGET["locked"]) == pytest.approx(0.555, abs=5e-4)
    assert stdev(TARGET["locked"]) == pytest.approx(0.015, abs=5e-4)
    assert (round(line.mean, 3), round(line.deviation, 3)) == (0.495, 0.004)
    pairs = [round(two - one, 3) for one, two in zip(TARGET["locked"], TARGET["revin"])]
    assert pairs == [-0.046, -0.079, -0.054]
    assert (line.wins, line.low, line.high) == (3, pytest.approx(-0.0792), pytest.approx(-0.0462))


def test_the_published_components_of_the_finalists_crown_the_candidate_that_was_locked() -> None:
    finalists = {
        "Per-horizon VICReg", "Schema + command rec.", "FiLM command", "Cross-attn command", "High latent weight",
    }  # fmt: skip
    runs = [run for run in published() if run.candidate in finalists]
    for by in ("paper", "robust"):
        assert rank(runs, by)[0].candidate == "Schema + command rec.", by


def test_candidates_without_command_use_are_those_that_the_paper_penalised() -> None:
    weak = {run.candidate for run in published() if run.weak_command}
    assert weak == {"Compact model", "Robust normalization", "Full candidate"}
