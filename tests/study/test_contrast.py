import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError
from crossfeed.files import plain
from crossfeed.study.contrast import METRICS, ContrastLine, _line
from crossfeed.study.study import Study
from tests.study.conftest import Invented, begin, command, write_tables

SEEDS = 5


def clean(candidate: str, seed: int) -> float:
    """The pretrained body is better on every seed, the complete checkpoint on two of five."""
    reference = 1.0 + 0.1 * seed
    if candidate.endswith("pretrained_body"):
        return reference - 0.2 - 0.01 * seed
    if candidate.endswith("complete_checkpoint"):
        return reference + (-0.1 if seed < 2 else 0.1)
    return reference


def invalid(candidate: str, seed: int) -> str:
    if not candidate.endswith("complete_checkpoint"):
        return ""
    return {3: "latents collapsed at the selected pretraining checkpoint: flat", 4: "replay mismatch"}.get(seed, "")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    study = begin(tmp_path / "study", target=False)
    study.ready("initialisation", SEEDS)
    return study


def lines(study: Study, metric: str = "clean") -> dict[str, ContrastLine]:
    return {line.arm: line for line in study.contrasts() if line.metric == metric}


def test_a_contrast_equals_a_hand_calculation(study: Study) -> None:
    study.search(Invented(clean))
    found = lines(study)
    body, whole = found["pretrained_body"], found["complete_checkpoint"]
    assert list(found) == ["scratch", "pretrained_body", "complete_checkpoint"]
    assert found["scratch"].mean == pytest.approx(1.2)
    assert body.difference == pytest.approx(-0.22)
    assert (body.wins, body.seeds) == (5, 5)
    # Five pairs, all of one sign: both extreme flips out of 32, and Holm over two arms.
    assert body.p == body.floor == pytest.approx(2 / 32)
    assert body.p_holm == pytest.approx(4 / 32)
    assert body.low is not None
    assert body.high is not None
    assert -0.24 <= body.low < body.difference < body.high <= -0.20
    assert whole.difference == pytest.approx(0.02)
    assert whole.wins == 2
    assert whole.p == 1.0
    assert whole.p_holm == 1.0


def test_a_threshold_that_cannot_be_reached_is_not_spoken_of(study: Study) -> None:
    study.search(Invented(clean))
    assert lines(study)["pretrained_body"].verdict.startswith("cannot be decided: 5 units and 2 comparisons")


def test_collapsed_runs_count_and_runs_whose_numbers_cannot_be_trusted_do_not(study: Study) -> None:
    study.search(Invented(clean, invalid=invalid))
    found = lines(study)["complete_checkpoint"]
    assert found.seeds == 4
    assert found.collapsed_seeds == 1


def test_arms_measured_on_other_windows_are_not_paired(study: Study) -> None:
    engine = Invented(clean)
    ordinary = engine.outcome

    def outcome(candidate: str, seed: int) -> dict[str, object]:
        found = ordinary(candidate, seed)
        found["bundle"]["anchor"] = {"windows": candidate, "space": "s"}
        return found

    engine.outcome = outcome  # type: ignore[method-assign]
    study.search(engine)
    with pytest.raises(ConfigError, match="different windows"):
        study.contrasts()


def test_before_any_run_there_are_lines_without_numbers(study: Study) -> None:
    assert {line.seeds for line in study.contrasts()} == {0}
    assert all(plain(line)["mean"] is None for line in study.contrasts())


def test_a_study_without_arms_says_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no arms to contrast"):
        begin(tmp_path / "study", target=False).contrasts()


def test_command_sensitivity_rank_and_self_supervised_loss_had_no_paired_rows(study: Study) -> None:
    engine = Invented(clean)
    ordinary = engine.outcome

    def outcome(candidate: str, seed: int) -> dict[str, object]:
        found = ordinary(candidate, seed)
        better = candidate.endswith("pretrained_body")
        found["bundle"] |= {"command_ratio": 1.1 + 0.1 * better, "health": {"context_rank": 0.3 + 0.1 * better}}
        found["bundle"]["components"]["ssl"] = 1.0 - 0.5 * better
        return found

    engine.outcome = outcome  # type: ignore[method-assign]
    study.search(engine)
    assert {line.metric for line in study.contrasts()} == set(METRICS)
    for metric, difference in (("command_ratio", 0.1), ("rank", 0.1), ("ssl", -0.5)):
        line = lines(study, metric)["pretrained_body"]
        assert line.difference == pytest.approx(difference)
        assert line.wins == SEEDS, "higher is better where it is"


def test_one_command_begins_runs_and_contrasts(tmp_path: Path) -> None:
    source, _ = write_tables(tmp_path / "study")
    words = ["--source", source, "--size", "tiny", "--shared", "current_0", "--set", "model.context=8"]
    words += ["--protocol", "mended", "--set", "model.horizons=[1,2]"]
    arguments = ("ready", "initialisation", tmp_path / "study", *words)
    assert "never go below p = 1" in command(*arguments, "--seeds", 2, engine=Invented(clean))
    shown = command(*arguments, "--seeds", SEEDS, engine=Invented(clean))
    assert "-0.220" in shown
    assert "0.062" in shown
    assert "cannot be decided" in shown
    again = command("contrast", tmp_path / "study", "--json")
    assert {line["contrast"] for line in json.loads(again)} == {"initialisation"}


def test_an_unknown_metric_is_named(study: Study) -> None:
    shown = CliRunner().invoke(app, ["study", "contrast", str(study.store.folder), "--metric", "beauty"])
    assert isinstance(shown.exception, ConfigError)
    assert "no metric 'beauty'" in shown.exception.found


def test_two_seeds_have_a_deviation_and_one_has_none() -> None:
    deviations = [_line("c", "clean", "arm", np.array(values), {}).deviation for values in ([1.0, 3.0], [1.0, np.nan])]
    assert deviations[0] == pytest.approx(2.0**0.5)
    assert np.isnan(deviations[1])
