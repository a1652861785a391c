"""Which sections a report has, what stands in its files, and what it says while a study is half done."""

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError, CrossfeedError, StorageError
from crossfeed.reporting.artefacts import gather
from crossfeed.reporting.blocks import Document
from crossfeed.reporting.page import page
from crossfeed.reporting.report import compose, write_report
from crossfeed.reporting.tables import write_csv
from crossfeed.study import vault
from crossfeed.study.study import Study
from tests.evaluation.small_machine import small_table
from tests.reporting import material
from tests.reporting.conftest import TWO
from tests.reporting.runs import run_folder, sensor_run_folder
from tests.serving.conftest import make_model
from tests.study.conftest import Invented, begin

EVERYTHING = (
    "data", "split", "training", "results", "details", "calibration", "commands", "adaptation", "forecasts",
    "comparison", "curve", "what-if", "robustness", "timing", "reproduce",
)  # fmt: skip


def report_on(place: Path) -> tuple[Document, set[str], str]:
    """The document of a place, the sections it has, and its page; no files are written."""
    document = compose(gather(place))
    return document, {section.anchor for section in document.sections}, page(document)


def table_of(document: Document, name: str, folder: Path) -> list[dict[str, str]]:
    """One table of a document as its CSV file gives it."""
    grid = next(grid for section in document.sections for grid in section.grids() if grid.name == name)
    write_csv(grid, folder / f"{name}.csv")
    return rows_of(folder / f"{name}.csv")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_with_everything_beside_it_has_every_section_in_order(complete: Path) -> None:
    written = write_report(complete)
    assert written.sections == EVERYTHING
    assert written.report == complete / "report" / "report.html"
    text = written.report.read_text(encoding="utf-8")
    for anchor in EVERYTHING:
        assert text.count(f'<section id="{anchor}">') == 1
        assert f'href="#{anchor}"' in text
    assert all(path.stat().st_size > 0 for path in (*written.tables, *written.figures))
    assert {path.suffix for path in written.tables} == {".csv", ".tex"}


def test_a_network_without_latents_shows_its_rate_and_the_proxy_instead(tmp_path: Path) -> None:
    document, anchors, text = report_on(sensor_run_folder(tmp_path / "run"))
    assert "training" in anchors
    for words in ("no latents that could collapse", "Learning rate", "as another machine", "CRPS"):
        assert words in text, words
    for words in ("Effective rank", "probe R", "pretraining"):
        assert words not in text, words
    (stage,) = table_of(document, "training-stages", tmp_path)
    assert "target_rank" not in stage


def test_a_ranking_of_such_networks_says_where_the_weight_went(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", protocol="crossfeed", settings=dict.fromkeys(()))
    study.plan(dict.fromkeys(("one", "other"), study.config), seeds=2)
    parts = dict.fromkeys(("clean", "schema_drop", "masked", "long_horizon", "calibration"), 0.5)
    bundle = {"components": parts, "ssl_scale_free": None, "health": {}, "collapse_reasons": []}
    study.search(Invented(lambda *_: 1.0, bundle=bundle))
    document, anchors, text = report_on(study.store.folder)
    assert {"ranking", "gate"} <= anchors
    assert "no self-supervised component: the others share its weight" in text
    assert "no latents that could collapse" in text
    assert "ssl" not in table_of(document, "ranking", tmp_path)[0]
    assert "rank" not in table_of(document, "collapse-gate", tmp_path)[0]


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
    assert shots == [row["rmse"] for row in material.adaptation()["few_shot"]["fractions"]]


def test_a_study_just_begun_says_what_comes_next(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    document, anchors, text = report_on(study.store.folder)
    assert anchors == {"data", "split", "ledger", "reproduce"}
    assert document.verdict.answer == "Not known yet."
    assert f"crossfeed study search {study.store.folder}" in text


def test_a_search_under_way_gives_a_provisional_ranking(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    study.plan(study.candidates(TWO), seeds=2)
    with pytest.raises(KeyboardInterrupt):
        study.search(Invented(lambda candidate, seed: len(candidate) + seed, stop_after=2))
    _, anchors, text = report_on(study.store.folder)
    assert {"gate", "ranking"} <= anchors
    assert "2 planned runs are not finished; the ranking is provisional" in text
    assert "--planned" in text


def test_a_searched_study_asks_for_confirmation(searched: Study, tmp_path: Path) -> None:
    document, _, text = report_on(searched.store.folder)
    assert "crossfeed study confirm" in text
    found = table_of(document, "ranking", tmp_path)
    assert [row["candidate"] for row in found] == [line.candidate for line in searched.rank()]
    assert [float(row["robust"]) for row in found] == [line.robust for line in searched.rank()]


def test_a_real_study_reports_its_opening_and_never_opens_the_vault(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise AssertionError("the vault was read for a report")

    monkeypatch.setattr(vault, "_read", read)
    document, anchors, text = report_on(real)
    assert {"training", "gate", "ranking", "ledger", "results", "forecasts", "calibration"} <= anchors
    assert "ledger verifies" in text
    result = json.loads((real / "results" / "target-1.json").read_text(encoding="utf-8"))
    row = table_of(document, "target", tmp_path)[0]
    assert float(row["rmse"]) == result["scores"][row["forecaster"]]["rmse"]
    assert Study(real).verify().problems == (), "a report changes nothing"


def test_a_locked_study_says_that_the_target_is_sealed(real: Path) -> None:
    study = Study(real)
    with study.store.transaction() as connection:
        connection.execute("DELETE FROM ledger WHERE kind IN ('opening', 'opening result')")
    _, _, text = report_on(real)
    assert "the target is still sealed" in text
    assert f"crossfeed study unseal {real}" in text


def test_a_study_that_fails_verification_says_so_in_the_box(
    searched: Study, open_as: Callable[[Study, str, str], dict[str, Any]]
) -> None:
    open_as(searched, "confirmatory", f"{TWO[0]}-0")
    _, _, text = report_on(searched.store.folder)
    assert "the study fails verification" in text
    assert "Verification FAILED" in text


def test_a_model_that_gave_no_numbers_on_the_target_is_not_trusted(real: Path) -> None:
    path = real / "results" / "target-1.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    run = json.loads((real / "lock.json").read_text(encoding="utf-8"))["run"]
    del content["scores"][run]
    material.write(path, {**content, "excluded": {run: "Forecaster returned 3 values that are no finite number."}})
    document, _, _ = report_on(real)
    assert (document.verdict.answer, document.verdict.tone) == ("No.", "bad")
    assert "no finite number" in document.verdict.sentences[0]


def test_declared_arms_stand_side_by_side(
    searched: Study, tmp_path: Path, open_as: Callable[[Study, str, str], dict[str, Any]]
) -> None:
    open_as(searched, "confirmatory", f"{TWO[0]}-0")
    arms = {"control": {}, "revin": {"model.instance_norm.kind": "pure"}}
    declared = {
        "name": "revin",
        "arms": arms,
        "seeds": 1,
        "condition": "all rmse components better on source validation",
    }
    searched.store.record("declaration", declared)
    runs = [(f"revin.{arm}-0", f"revin.{arm}", 0, "ablation revin", {}) for arm in arms]
    searched.store.add_runs(runs)
    for position, (name, candidate, seed, _, _) in enumerate(runs):
        outcome = Invented(lambda _candidate, _seed, level=0.7 - 0.1 * position: level).outcome(candidate, seed)
        searched.store.finish(name, "finished", outcome)
    searched.store.record("verdict", {"declaration": "revin", "holds": True, "seeds": [0], "differences": {}})
    content = open_as(searched, "declared: revin", "revin.revin-0")
    control, revin = table_of(report_on(searched.store.folder)[0], "ablation-revin", tmp_path)
    assert (float(control["clean"]), float(revin["clean"])) == pytest.approx((0.7, 0.6))
    assert float(revin["target_rmse"]) == content["scores"]["revin.revin-0"]["rmse"]
    assert control["target_rmse"] == ""


def test_a_run_under_way_shows_its_curves(tmp_path: Path) -> None:
    _, anchors, text = report_on(run_folder(tmp_path / "run", finished=False))
    assert anchors == {"training", "timing", "reproduce"}
    assert "The run is under way: 6 epochs so far" in text
    assert "--resume" in text


def test_a_folder_that_is_neither_study_nor_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a study nor a training run"):
        write_report(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        write_report(run_folder(tmp_path / "run"), comparison=tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name", ["evaluation/target/evaluation.json", "adaptation/adaptation.json", "comparison/table.json", "audit.json",
             "forecast/forecast.json", "run/summary.json", "run/run.json", "run/history.parquet"]
)  # fmt: skip
@pytest.mark.parametrize("damage", ["{ not json", "[]"])
def test_a_damaged_file_is_named(complete: Path, name: str, damage: str) -> None:
    (complete.parent / name).write_text(damage, encoding="utf-8")
    with pytest.raises(CrossfeedError, match=re.escape(name.rsplit("/", 1)[-1])):
        report_on(complete)


@pytest.mark.parametrize(
    "name", ["evaluation/target/evaluation.json", "adaptation/adaptation.json", "comparison/table.json", "audit.json"]
)
def test_a_file_that_lacks_what_it_should_hold_is_an_error_not_a_traceback(complete: Path, name: str) -> None:
    content = json.loads((complete.parent / name).read_text(encoding="utf-8"))
    key = next(key for key in ("scores", "few_shot", "rows", "findings") if key in content)
    content[key] = {"fractions": 3} if key == "few_shot" else 17
    material.write(complete.parent / name, content)
    with pytest.raises(StorageError, match=rf"(?s)(?=.*does not hold what)(?=.*{re.escape(name)})"):
        report_on(complete)


def test_a_changed_result_of_an_opening_is_named(real: Path) -> None:
    (real / "results" / "target-1.json").write_text("{", encoding="utf-8")
    with pytest.raises(StorageError, match=r"target-1\.json"):
        report_on(real)


def test_a_study_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_bytes(b"nothing of the kind")
    with pytest.raises(CrossfeedError, match=r"study\.db"):
        write_report(tmp_path)


def test_an_out_folder_that_cannot_be_written_is_an_error(complete: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match=r"Writing .*report\.html failed"):
        write_report(complete, tmp_path / "file" / "out")
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(StorageError, match="folder you may write to"):
            write_report(complete, tmp_path / "closed" / "out")


def test_the_command_prints_the_answer_and_the_place(complete: Path, tmp_path: Path) -> None:
    place = run_folder(tmp_path / "elsewhere" / "run", finished=False)
    result = CliRunner().invoke(app, ["report", str(place), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    assert "Not known yet." in result.output
    assert str(tmp_path / "out" / "report.html") in result.output.replace("\n", "")
    listed = CliRunner().invoke(app, ["report", str(place), "--audit", str(complete.parent / "audit.json"), "--json"])
    assert json.loads(listed.output)["sections"] == ["data", "training", "timing", "reproduce"]


def test_a_study_without_a_target_asks_for_none(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", target=False)
    study.plan(study.candidates(TWO), seeds=1)
    study.search(Invented(lambda candidate, _seed: float(len(candidate))))
    document, anchors, text = report_on(study.store.folder)
    assert "This study has no target" in document.verdict.sentences[0]
    assert "unseal" not in text
    assert "ranking" in anchors


def test_ready_studies_ended_in_the_terminal(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", target=False)
    study.plan(study.candidates(TWO), seeds=1)
    study.ready("initialisation", seeds=3)
    better = {"initialisation.pretrained_body": 0.8}
    study.search(Invented(lambda candidate, seed: better.get(candidate, 1.0) + 0.01 * seed))
    written = write_report(study.store.folder, tmp_path / "report")
    assert "contrasts" in written.sections
    with (tmp_path / "report" / "tables" / "contrast-initialisation.csv").open() as file:
        rows = {row["arm"]: row for row in csv.DictReader(file)}
    assert float(rows["pretrained_body"]["difference"]) == pytest.approx(-0.2)
    assert rows["pretrained_body"]["wins"] == "3/3"
    paired = tmp_path / "report" / "tables" / "contrast-initialisation-pretrained_body.csv"
    with paired.open() as file:
        components = [row["component"] for row in csv.DictReader(file)]
    assert {"Clean RMSE", "SSL validation loss", "Cmd. sensitivity (shuffled / true)"} <= set(components)
    with (tmp_path / "report" / "tables" / "candidate-matrix.csv").open() as file:
        matrix = {row["candidate"]: row for row in csv.DictReader(file)}
    assert set(matrix) == set(TWO)
    assert matrix["mixed_masks"]["masks.mode"] == "mixed"
    assert paired.with_suffix(".tex").exists()


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
