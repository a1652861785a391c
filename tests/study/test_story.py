"""The paper's selection told again from its published numbers: who led when, what was refused, when the lock fell.

Appendix C prints means over the seeds, the spread of the clean RMSE alone, and nothing of the self-supervised loss.
Seeds are drawn around the means with that spread, so that the means of the first four, five and seven are those
published. What is not published is what the published discovery scores leave over: see `implied_ssl`.
"""

import csv
import math
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest

from crossfeed.study.confirm import finalists, leader_at
from crossfeed.study.record.score import WEIGHTS, RunOutcome
from crossfeed.study.study import Study
from tests.study.conftest import Invented, begin

RECOVERY, VICREG = "schema_and_command_recovery", "per_horizon_vicreg"
ROBUST = ("robust_normalisation", "full_candidate")
OTHER_UNIT = 453.0 / 0.9813  # what the authors' pool held of the robustly normalised candidates, over what they have
MEASURED = ("clean", "schema_drop", "masked", "long_horizon", "calibration")
# The mean command ratio of the compact model is 1.0119. Its score leaves a possible self-supervised loss over only if
# one of its four seeds is above the threshold of 1.02.
WEAK = {"compact_model": 0.75, "robust_normalisation": 1.0, "full_candidate": 1.0}
TEXT = ("candidate", "name")


def published() -> dict[str, dict[str, float]]:
    """Appendix C, by the names that the candidates have here; first the control, of which nothing was measured."""
    with (Path(__file__).parent / "record" / "paper_outcomes.csv").open() as handle:
        rows = list(csv.DictReader(handle))
    return {row["name"]: {key: float(value) for key, value in row.items() if key not in TEXT} for row in rows}


def left_over(other_unit: float) -> dict[str, float]:
    """What the published discovery scores leave for the self-supervised component, as z-scores.

    Those of the two candidates that entered in another unit are not known: their scores hang on the exact unit.
    """
    table = published()
    names = [name for name in table for _ in range(_valid(name, 4))]
    known = {name: WEAK.get(name, 0.0) for name in table}
    for part in MEASURED:
        values = {name: _component(table[name][part], name, part, other_unit) for name in table}
        mean, spread = fmean(values[name] for name in names), pstdev(values[name] for name in names)
        for name in table:
            known[name] += WEIGHTS[part] * (values[name] - mean) / spread
    return {
        name: (row["discovery"] - known[name]) / WEIGHTS["ssl"] for name, row in table.items() if name not in ROBUST
    }


def squares(ssl: dict[str, float]) -> tuple[float, float]:
    """Sum and sum of squares over the valid runs of the pool."""
    return tuple(sum(_valid(name, 4) * value**power for name, value in ssl.items()) for power in (1, 2))  # type: ignore[return-value]


def implied_ssl() -> dict[str, float]:
    """The self-supervised loss of every candidate as the z-score that it had in the authors' pool.

    The two robustly normalised candidates take up what is missing to mean 0 and deviation 1.
    """
    ssl = left_over(OTHER_UNIT)
    first, second = squares(ssl)
    runs = sum(_valid(name, 4) for name in published())
    centre = -first / 8.0
    apart = math.sqrt((runs - second) / 8.0 - centre**2)
    return ssl | dict(zip(ROBUST, (centre - apart, centre + apart), strict=True))


def _component(value: float, name: str, part: str, other_unit: float) -> float:
    return value * (other_unit if name in ROBUST and part != "calibration" else 1.0)


def _valid(name: str, seeds: int) -> int:
    return 1 if name == "large_model" else min(seeds, 4) if name == "high_latent_weight" else seeds


class Published(Invented):
    """An engine that gives each run what the paper published of its candidate."""

    def __init__(self, ssl: dict[str, float] | None, other_unit: float) -> None:
        self.table, self.ssl, self.other_unit = published(), ssl, other_unit
        random = np.random.default_rng(20260820)
        self.drawn = {name: self._seeds(random, row["deviation"]) for name, row in self.table.items()}
        super().__init__(self._clean, invalid=self._invalid)

    @staticmethod
    def _seeds(random: np.random.Generator, deviation: float) -> np.ndarray:
        """Seven deviations from a mean: of four, of one and of two seeds, none of which moves it."""
        four = random.normal(size=4)
        four = (four - four.mean()) / four.std(ddof=1) * deviation
        return np.concatenate([four, [0.0], random.normal() * deviation * np.array([1.0, -1.0])])

    def _clean(self, candidate: str, seed: int) -> float:
        return self._value(candidate, seed, "clean")

    def _value(self, candidate: str, seed: int, part: str) -> float:
        moved = self.drawn[candidate][seed] if part != "calibration" and _valid(candidate, 4) == 4 else 0.0
        return float(_component(self.table[candidate][part] + moved, candidate, part, self.other_unit))

    def _invalid(self, candidate: str, seed: int) -> str:
        """The seeds that collapsed in pretraining: all of the control, three of the large model, one of a finalist."""
        gone = {"plain_control": seed >= 0, "large_model": seed > 0, "high_latent_weight": seed > 3}
        return "latents collapsed at the selected pretraining checkpoint" if gone.get(candidate) else ""

    def outcome(self, candidate: str, seed: int) -> dict[str, Any]:
        if candidate == "plain_control":
            return {"invalid": self._invalid(candidate, seed), "artefacts": {}}
        found = super().outcome(candidate, seed)
        components = {part: self._value(candidate, seed, part) for part in MEASURED}
        components["ssl"] = 1.2 if self.ssl is None else 1.2 + 0.02 * self.ssl[candidate]
        ratio = self.table[candidate]["command_ratio"]
        if candidate == "compact_model":  # one of four seeds is above the threshold
            ratio = 1.0209 if seed == 3 else ratio - 0.003
        found["bundle"] |= {"components": components, "command_ratio": ratio, "collapsed": candidate in ROBUST}
        return found


def searched(folder: Path, engine: Published) -> Study:
    """Twenty candidates with four seeds, as published."""
    study = begin(folder, protocol="paper", rule="paper", minimum_seeds=5)
    study.plan(seeds=4)
    study.search(engine)
    return study


def test_seeds_are_drawn_so_that_every_published_mean_is_met() -> None:
    engine = Published(None, 1.0)
    for name, row in engine.table.items():
        if _valid(name, 4) == 4:
            seeds = [engine._clean(name, seed) for seed in range(7)]
            for count in (4, 5, 7):
                assert fmean(seeds[:count]) == pytest.approx(row["clean"], abs=1e-12)
            assert np.std(seeds[:4], ddof=1) == pytest.approx(row["deviation"], rel=1e-6)


def test_only_in_another_unit_do_the_published_scores_leave_a_z_score_over() -> None:
    runs = sum(_valid(name, 4) for name in published())
    assert squares(left_over(OTHER_UNIT))[1] < runs, "room for the two others"
    assert squares(left_over(1.0))[1] > 10.0 * runs, "no z-scores of so many runs have such a sum of squares"
    assert squares(implied_ssl()) == pytest.approx((0.0, runs), abs=1e-9)


def test_the_papers_story_is_told_by_the_papers_protocol(tmp_path: Path) -> None:
    study = searched(tmp_path / "study", engine := Published(implied_ssl(), OTHER_UNIT))
    lines = study.rank()
    assert lines[0].candidate == VICREG
    for line in lines:
        if line.candidate not in (*ROBUST, "plain_control"):
            assert line.paper == pytest.approx(engine.table[line.candidate]["discovery"], abs=0.002), line.candidate
    assert [line.candidate for line in lines[-2:]] == ["large_model", "plain_control"], "too few valid seeds"
    five = {VICREG, "high_latent_weight", "film_command", "cross_attention_command", RECOVERY}
    at_five = study.confirm(engine, most_seeds=5)
    assert set(at_five.finalists) == five
    assert at_five.leaders == {4: VICREG, 5: RECOVERY}
    (refusal,) = study.refusals()
    assert "the leader changed" in refusal
    at_seven = study.confirm(engine)
    assert at_seven.leaders == {4: VICREG, 5: RECOVERY, 7: RECOVERY}
    assert study.refusals() == []
    seeds = {line.candidate: line.seeds for line in study.rank()}
    assert (seeds[RECOVERY], seeds[VICREG], seeds["film_command"], seeds["high_latent_weight"]) == (7, 7, 5, 4)


def test_the_published_components_alone_do_not_tell_it() -> None:
    """With an equal self-supervised loss for all, calibration decides, and the scheduled teacher leads."""
    runs = _runs(Published(None, OTHER_UNIT))
    assert finalists(runs, "paper")[0] == "scheduled_ema"
    assert RECOVERY not in finalists(runs, "paper")


def test_in_one_evaluation_space_another_candidate_wins() -> None:
    """The same runs without the two in another unit: what is good on clean and dropped channels leads, and stands."""
    runs = _runs(Published(implied_ssl(), 1.0))
    five = finalists(runs, "paper")
    assert five[0] == leader_at(runs, five, 4, "paper") == "low_latent_weight"


def test_our_rule_would_have_locked_at_five_what_the_paper_locked_at_seven() -> None:
    """Among the finalists the winner leads at four seeds already: what changed between four and five was the pool."""
    runs = _runs(Published(implied_ssl(), OTHER_UNIT))
    five = finalists(runs, "paper")
    assert five[0] == VICREG
    assert leader_at(runs, five, 4, "paper") == RECOVERY


def _runs(engine: Published) -> list[RunOutcome]:
    return [
        RunOutcome(name, seed, found["components"], 1.0, found["command_ratio"], found["collapsed"])
        for name in engine.table
        for seed in range(_valid(name, 4))
        for found in [engine.outcome(name, seed)["bundle"]]
    ]
