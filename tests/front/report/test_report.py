"""Which sections the report of a run has, and what stands in its files."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.front.report.artefacts import gather
from crossfeed.front.report.report import compose, write_report
from crossfeed.front.report.sections.verdict import _shell
from crossfeed.show.formats import latex
from tests.evaluation.small_machine import small_table
from tests.front.report import material
from tests.front.report.reading import report_on, table_of
from tests.front.report.runs import run_folder, sensor_run_folder
from tests.scenarios.conftest import make_model

EVERYTHING = (
    "data", "split", "training", "results", "details", "calibration", "commands", "adaptation", "forecasts",
    "comparison", "curve", "what-if", "robustness", "timing", "reproduce",
)  # fmt: skip


def test_a_run_with_everything_beside_it_has_every_section_in_order(complete: Path) -> None:
    written = write_report(gather(complete))
    assert written.sections == EVERYTHING
    assert written.report == complete / "report" / "report.html"
    text = written.report.read_text(encoding="utf-8")
    for anchor in EVERYTHING:
        assert text.count(f'<section id="{anchor}">') == 1
        assert f'href="#{anchor}"' in text
    assert all(path.stat().st_size > 0 for path in (*written.tables, *written.figures))
    assert {path.suffix for path in written.tables} == {".csv", ".tex"}


def unescaped(text: str, letter: str) -> int:
    return len(re.findall(rf"(?<!\\){re.escape(letter)}", text))


def test_every_table_of_a_report_is_balanced_latex(complete: Path) -> None:
    tables = [one for section in compose(gather(complete)).sections for one in section.tables()]
    assert len(tables) > 12
    for one in tables:
        text = latex(one)
        assert unescaped(text, "{") == unescaped(text, "}")
        assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
        assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") == 1
        body = text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
        assert len(body) == len(one.rows)
        for line in body:
            assert line.endswith(r" \\")
            assert unescaped(line, "&") == len(one.columns) - 1
        assert unescaped(text, "$") % 2 == 0
        assert not re.search(r"(?<!\\)[#]", text)


def test_a_network_without_latents_shows_its_rate_and_the_proxy_instead(tmp_path: Path) -> None:
    document, anchors, text = report_on(sensor_run_folder(tmp_path / "run"))
    assert "training" in anchors
    for words in ("no latents that could collapse", "Learning rate", "as another machine", "CRPS"):
        assert words in text, words
    for words in ("Effective rank", "probe R", "pretraining"):
        assert words not in text, words
    (stage,) = table_of(document, "training-stages", tmp_path)
    assert "target_rank" not in stage


WRITTEN_ALONE = """
import sys
from pathlib import Path
from crossfeed.front.report.artefacts import gather
from crossfeed.front.report.report import write_report
write_report(gather(sys.argv[1]), sys.argv[2])
"""


def test_a_process_of_its_own_writes_the_same_report(complete: Path, tmp_path: Path) -> None:
    """Names inside drawings come from their content: another process writes the same bytes."""
    settings = {"size": "tiny", "departures": {"training.seed": [1, 0]}}
    material.write(
        complete / "summary.json", json.loads((complete / "summary.json").read_text()) | {"preset": settings}
    )
    for name in ("adaptation", "comparison", "curve", "evaluation/source"):
        shutil.rmtree(complete.parent / name)  # what is left is enough to share
    here = write_report(gather(complete), tmp_path / "here")
    assert len(here.figures) > 8
    arguments = [sys.executable, "-c", WRITTEN_ALONE, str(complete), str(tmp_path / "there")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    for path in (*here.figures, *here.tables):
        assert path.read_bytes() == (tmp_path / "there" / path.relative_to(tmp_path / "here")).read_bytes(), path.name
    pages = [(tmp_path / name / "report.html").read_text(encoding="utf-8") for name in ("here", "there")]
    first, second = (re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", text) for text in pages)
    assert first == second
    assert "training.seed" in first


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ("evaluation", {"details", "calibration", "commands", "forecasts", "robustness"}),
        ("adaptation", {"adaptation"}),
        ("comparison", {"comparison"}),
        ("forecast", {"what-if"}),
        ("audit.json", {"data"}),
    ],
)
def test_a_section_without_its_artefact_is_left_out(complete: Path, missing: str, gone: set[str]) -> None:
    (complete.parent / missing).rename(complete.parent / f"no-{missing}")
    assert set(EVERYTHING) - report_on(complete)[1] == gone


def test_the_numbers_in_csv_files_are_the_recorded_ones(
    complete: Path, tmp_path: Path, contents: dict[bool, dict[str, Any]]
) -> None:
    document, recorded = compose(gather(complete)), contents[False]
    for row in table_of(document, "target", tmp_path):
        name = row["forecaster"]
        assert float(row["rmse"]) == recorded["intervals"][name]["rmse"]["estimate"]
        assert float(row["rmse_low"]) == recorded["intervals"][name]["rmse"]["low"]
        assert float(row["crps"]) == recorded["scores"][name]["crps"]
        assert float(row["nll"]) == recorded["scores"][name]["nll"]
    by_channel = {row["channel"]: row for row in table_of(document, "by-channel-target", tmp_path)}
    for channel, wanted in recorded["by_channel"]["run"].items():
        assert float(by_channel[channel]["rmse"]) == wanted["physical"]["rmse"]
        assert float(by_channel[channel]["skill_rmse_high"]) == wanted["intervals"]["skill_rmse"]["high"]
    compared = {row["model"]: row for row in table_of(document, "comparison-target", tmp_path)}
    assert float(compared["gru"]["rmse"]) == material.comparison()["rows"][1]["mean"]["target.rmse"]
    assert float(compared["gru"]["rmse_spread"]) == 0.0123456789
    assert compared["trees"]["rmse"] == ""
    shots = [float(row["rmse"]) for row in table_of(document, "few-shot", tmp_path)]
    assert shots == [row["metrics"]["rmse"] for row in material.adaptation()["few_shot"]["fractions"]]


def test_a_run_under_way_shows_its_curves(tmp_path: Path) -> None:
    _, anchors, text = report_on(run_folder(tmp_path / "run", finished=False))
    assert anchors == {"training", "timing", "reproduce"}
    assert "The run is under way: 6 epochs so far" in text
    assert "--resume" in text


def test_the_command_prints_the_answer_and_the_place(complete: Path, tmp_path: Path) -> None:
    place = run_folder(tmp_path / "elsewhere" / "run", finished=False)
    result = CliRunner().invoke(app, ["report", str(place), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    assert "Not known yet." in result.output
    assert str(tmp_path / "out" / "report.html") in result.output.replace("\n", "")
    listed = CliRunner().invoke(app, ["report", str(place), "--audit", str(complete.parent / "audit.json"), "--json"])
    assert json.loads(listed.output)["sections"] == ["data", "training", "timing", "reproduce"]


def test_results_in_a_folder_of_another_name_were_not_found(
    tmp_path: Path, contents: dict[bool, dict[str, Any]]
) -> None:
    table = small_table(runs=6, rows=60)
    run = run_folder(tmp_path / "run")
    sha256 = make_model(table).save(run / "model.safetensors", {})
    assert report_on(run)[0].verdict.answer == "Not known yet."
    mine = {**contents[False], "model": {**contents[False]["model"], "sha256": sha256}}
    material.write(tmp_path / "results" / "evaluation.json", mine)
    material.write(tmp_path / "others" / "evaluation.json", contents[False])
    assert report_on(run)[0].verdict.answer != "Not known yet."
    assert [one.model.sha256 for one in gather(run).evaluations if one.model] == [sha256]


def test_a_learning_curve_shows_who_overtakes_the_fleet_and_who_had_too_little(complete: Path, tmp_path: Path) -> None:
    document, anchors, text = report_on(complete)
    assert "curve" in anchors
    assert "tide overtakes the fleet between 3 and 60 minutes" in text
    rows = table_of(document, "curve", tmp_path)
    assert rows[1]["model"] == "tide"
    assert (rows[1]["crps"], rows[1]["remark"]) == ("", "too little to learn from: 0 rows")


def test_a_learning_curve_inside_the_run_is_found_too(complete: Path) -> None:
    (complete.parent / "curve").rename(complete / "curve")
    assert "curve" in report_on(complete)[1]


def test_the_next_command_of_a_report_broke_at_the_blank_of_a_folder() -> None:
    assert _shell(Path("run a")) == "'run a'"
    assert _shell(Path("run")) == "run"
