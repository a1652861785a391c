"""The chapter on decisions: what a plan would bring, with what certainty, where it did nothing, and whether rightly."""

from pathlib import Path
from typing import Any

import pytest

from crossfeed.control.advise import advise
from crossfeed.control.planner import PlannerConfig
from crossfeed.control.task import read_task
from crossfeed.files import read_sealed, write_sealed
from tests.control.conftest import PROGRAM, logged, small_model
from tests.front.report.reading import report_on, table_of
from tests.front.report.runs import run_folder


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `crossfeed control plan --rehearse-on spinner_620` writes, by a model with random weights."""
    folder = tmp_path_factory.mktemp("plan")
    table = logged()
    small_model(table).save(folder / "model.safetensors", {"machines": ["mill"]})
    (folder / "small.mpf").write_text(PROGRAM, encoding="utf-8")
    config = PlannerConfig.model_validate({"search": {"seconds": 1e6}})
    task = read_task(None, {"limits": ["spindle_torque<=60"], "objective": {"base_load": "1.4 kW"}})
    advise(
        folder / "model.safetensors", table, str(folder / "small.mpf"), task, config=config, device="cpu",
        out=folder / "control", rehearse_on="spinner_620",
    )  # fmt: skip
    return read_sealed(folder / "control" / "plan.json")


def with_plans(folder: Path, *plans: dict[str, Any]) -> Path:
    """A run with recorded plans beside it."""
    for number, content in enumerate(plans):
        write_sealed(folder / "control" / str(number) / "plan.json", content)
    return run_folder(folder / "run")


def values(document: Any, name: str, folder: Path) -> dict[str, str]:
    return {row["what"]: row["value"] for row in table_of(document, name, folder)}


def test_the_chapter_says_what_the_plan_says(plan: dict[str, Any], tmp_path: Path) -> None:
    document, anchors, text = report_on(with_plans(tmp_path, plan))
    assert "decisions" in anchors
    assert plan["verdict"] in text
    assert "Nothing was sent to a machine" in text
    told = values(document, "decisions-totals", tmp_path)
    seconds, stretches = plan["seconds"], plan["stretches"]
    assert told["time as written -> planned, s"] == f"{seconds['as_written']:.0f} -> {seconds['planned']:.0f}"
    assert told["stretches acted in, left alone"] == f"{stretches['acted']}, {stretches['left_alone']}"
    assert stretches["acted"] > 0
    gain = plan["gain"]
    assert told["gain with energy priced in, 90 %, s"] == f"{gain['low']:.3g} to {gain['high']:.3g}"
    assert told["loads come from"].startswith("forecast (")
    assert told["added chance of passing a limit"] == f"{100.0 * plan['added_chance']:.1f} % (allowed: 5 %)"


def test_the_chapter_says_how_often_it_was_right_in_simulation(plan: dict[str, Any], tmp_path: Path) -> None:
    document, _, _ = report_on(with_plans(tmp_path, plan))
    told, played = values(document, "decisions-totals", tmp_path), plan["rehearsal"]
    assert told["acting was right"] == f"{played['acted_rightly']} of {played['acted']}"
    assert told["leaving alone was right"] == f"{played['left_rightly']} of {played['left_alone']}"
    before, after = played["as_written"], played["planned"]
    assert told["on spinner_620: seconds above a limit"] == f"{before['passed']} -> {after['passed']}"


def test_every_second_of_the_program_has_a_reason(plan: dict[str, Any], tmp_path: Path) -> None:
    document, _, _ = report_on(with_plans(tmp_path, plan))
    rows = table_of(document, "decisions-reasons", tmp_path)
    assert sum(float(row["seconds"]) for row in rows) == pytest.approx(plan["seconds"]["as_written"], abs=len(rows))
    assert any(row["decision"] == "faster" for row in rows)
    assert any(row["decision"].startswith("as written: ") for row in rows)


def test_a_time_that_cannot_be_met_is_told(plan: dict[str, Any], tmp_path: Path) -> None:
    late = {**plan, "deadline": {"within": 3.0, "met": False}}
    assert "cannot be met" in report_on(with_plans(tmp_path / "late", late))[2]
    assert "cannot be met" not in report_on(with_plans(tmp_path / "met", plan))[2]


def test_two_plans_have_tables_of_their_own_and_none_has_no_chapter(plan: dict[str, Any], tmp_path: Path) -> None:
    other = {**plan, "seconds": {"as_written": 1000.0, "planned": 900.0}}
    document, _, _ = report_on(with_plans(tmp_path / "two", plan, other))
    assert values(document, "decisions-totals-2", tmp_path)["time as written -> planned, s"] == "1000 -> 900"
    empty = {**plan, "blocks": []}
    assert "decisions" not in report_on(with_plans(tmp_path / "none", empty))[1]
