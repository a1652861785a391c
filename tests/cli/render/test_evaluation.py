"""An evaluation on a terminal: what was measured is shown, what was not is not, and the verdict comes last."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from crossfeed.cli.render.results import show_evaluation, verdict_lines
from crossfeed.evaluation.result import Evaluation
from tests.front.report import material


@pytest.fixture(scope="module")
def full() -> Evaluation:
    return Evaluation.from_dict(material.evaluation())


def shown(found: Evaluation, monkeypatch: pytest.MonkeyPatch) -> str:
    target = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr("crossfeed.cli.render.printing.output", lambda: target)
    show_evaluation(found)
    return target.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_full_suite_shows_every_probe_and_ends_with_the_verdict(
    full: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(full, monkeypatch)
    for title in (
        "lathe: ", "By horizon", "By regime", "By channel", "Calibration: ", "Command use", "Changed plans",
        "Robustness", "conformal layer",
    ):  # fmt: skip
        assert title in text
    assert text.rstrip().endswith(verdict_lines(full, "run")[-1])
    for channel, row in full.by_channel["run"].items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"{channel} ")]
        assert f"{row.physical['rmse']:.3f}" in line


def test_what_was_not_measured_is_not_shown(full: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    standard = replace(full, robustness=None, conformal=None, counterfactual=None, calibration={})
    text = shown(standard, monkeypatch)
    for title in ("Robustness", "conformal", "Changed plans", "Calibration"):
        assert title not in text
    assert "Command use" in text


def test_a_model_without_numbers_is_left_out_with_its_reason(full: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(replace(full, command_use={}, excluded={"run": "it gave no number"}), monkeypatch)
    assert "left out: run: it gave no number" in text
    assert "May it be trusted" not in text


def test_points_are_said_to_be_points(full: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The floors are points" in shown(replace(full, naive_have_spread=False), monkeypatch)
    assert "The floors are points" not in shown(full, monkeypatch)


def test_a_target_pass_names_the_machines_of_its_runs(full: Evaluation) -> None:
    assert verdict_lines(replace(full, table=None), "run")[0].startswith("May it be trusted on lathe? ")
