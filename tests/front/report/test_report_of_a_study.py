"""What a report says while a study is half done, and what it says of a finished one."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from crossfeed.configuration import override, parse_assignments
from crossfeed.front.report.artefacts import gather
from crossfeed.front.report.report import write_report
from crossfeed.front.report.sections.data import _commands, _departures
from crossfeed.study import vault
from crossfeed.study.study import Study
from crossfeed.training.run_config import preset
from tests.front.report import material
from tests.front.report.conftest import TWO
from tests.front.report.reading import find_table, report_on, table_of
from tests.study.conftest import Invented, begin


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


def test_the_recipe_of_a_study_left_out_its_size(searched: Study) -> None:
    found = gather(searched.store.folder)
    first, *_ = _commands(found, *_departures(found))
    assert f"--protocol {searched.protocol['name']} --size tiny " in first
    again = override(preset(searched.protocol["name"], "tiny"), parse_assignments(first.split(" --set ")[1:]))
    assert again == searched.config


def test_a_study_begun_before_its_preset_was_recorded_has_the_same_recipe(searched: Study) -> None:
    found = gather(searched.store.folder)
    assert found.study is not None
    before = {name: value for name, value in found.study.protocol.items() if name != "preset"}
    (size, told), (size_now, found_now) = (
        _departures(replace(found, study=replace(found.study, protocol=protocol)))
        for protocol in (found.study.protocol, before)
    )
    assert size == size_now == "tiny"
    assert told
    assert {name: tuple(values) for name, values in told.items()} == found_now


def test_a_searched_study_asks_for_confirmation(searched: Study, tmp_path: Path) -> None:
    document, _, text = report_on(searched.store.folder)
    assert "crossfeed study confirm" in text
    found = table_of(document, "ranking", tmp_path)
    assert [row["candidate"] for row in found] == [line.candidate for line in searched.rank()]
    assert [float(row["robust"]) for row in found] == [line.robust for line in searched.rank()]
    assert [table.name for table in searched.tables()] == ["ranking", "ledger"], "a study offers the same itself"
    assert [figure.name for figure in searched.figures()] == ["ranking"]


def test_a_report_ranked_candidates_that_halving_had_dropped_beside_the_rest(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    candidates = dict(list(study.candidates().items())[:7])
    order = list(candidates)
    study.halve(candidates, 2, Invented(lambda candidate, seed: 1.0 + order.index(candidate) + 0.01 * seed))
    document, _, text = report_on(study.store.folder)
    assert [row["candidate"] for row in table_of(document, "ranking", tmp_path)] == order[:5]
    dropped = table_of(document, "ranking-dropped", tmp_path)
    assert [(row["candidate"], row["seeds"]) for row in dropped] == [(name, "1") for name in order[5:]]
    assert "cannot be compared, neither with each other nor with the ranking" in text
    standing = {row["candidate"]: row["standing"] for row in table_of(document, "search-outcomes", tmp_path)}
    assert standing[order[0]].startswith("#1 (")
    assert standing[order[6]].startswith("dropped after 1 (")


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


@pytest.fixture
def declared(searched: Study, open_as: Callable[[Study, str, str], dict[str, Any]]) -> tuple[Study, dict[str, Any]]:
    """A study whose declared variant was opened after the locked model, and what came of it."""
    open_as(searched, "confirmatory", f"{TWO[0]}-0")
    arms = {"control": {}, "revin": {"model.instance_norm.kind": "pure"}}
    plan = {"name": "revin", "arms": arms, "seeds": 2, "condition": "all rmse components better on source validation"}
    searched.store.record("declaration", plan)
    runs = [(f"revin.{arm}-{seed}", f"revin.{arm}", seed, "ablation revin", {}) for arm in arms for seed in range(2)]
    searched.store.add_runs(runs)
    for name, candidate, seed, _, _ in runs:
        level = 0.7 - 0.1 * candidate.endswith(".revin") + 0.02 * seed
        outcome = Invented(lambda _candidate, _seed, level=level: level).outcome(candidate, seed)
        searched.store.finish(name, "finished", outcome)
    searched.store.record("verdict", {"declaration": "revin", "holds": True, "seeds": [0], "differences": {}})
    return searched, open_as(searched, "declared: revin", "revin.revin-0")


def test_declared_arms_stand_side_by_side(declared: tuple[Study, dict[str, Any]], tmp_path: Path) -> None:
    study, content = declared
    control, revin = table_of(report_on(study.store.folder)[0], "ablation-revin", tmp_path)
    assert (float(control["clean"]), float(revin["clean"])) == pytest.approx((0.71, 0.61))
    assert float(revin["target_rmse"]) == content["scores"]["revin.revin-0"]["rmse"]
    assert control["target_rmse"] == ""


def test_the_transfer_table_lacked_the_opened_variant_and_mixed_windows_unsaid(
    declared: tuple[Study, dict[str, Any]],
) -> None:
    study, content = declared
    windows, place = content["windows"], study.store.folder.parent / "comparison" / "table.json"
    for other in (windows, windows + 7):
        results = [material.result("persistence", windows, 1.0, {}), material.result("gru", other, 0.9, {})]
        material.write(place, material.comparison(results))
        document, _, _ = report_on(study.store.folder)
        table = find_table(document, "transfer")
        rows = {row["method"]: row for row in table.rows}
        assert [rows[name]["windows"] for name in ("persistence", "gru")] == [windows, other]
        locked, revin = rows["World model (locked)"], rows["World model + revin (post-lock)"]
        assert (locked["windows"], revin["windows"]) == (windows, windows)
        of_locked = [len(TWO[0]) / 30 + seed / 100 for seed in range(2)]
        assert locked["source"] == pytest.approx({"estimate": fmean(of_locked), "spread": stdev(of_locked)})
        assert revin["source"] == pytest.approx({"estimate": 0.61, "spread": stdev([0.60, 0.62])})
        assert revin["target"] == {"estimate": content["scores"]["revin.revin-0"]["rmse"], "spread": None}
        assert revin["nll"] == content["scores"]["revin.revin-0"]["nll"]
        assert "1 seed, diagnostic" in revin["notes"]
        assert rows["trees"] == {"method": "trees", "notes": "not run: LightGBM is missing"}
        assert table.lowest == (("target",) if other == windows else ())
        assert ("different windows" in table.caption) == (other != windows)


def test_a_report_kept_silent_about_a_control_that_did_not_repeat_the_search(searched: Study) -> None:
    declared = {"name": "revin", "control": "control", "arms": {"control": {}, "revin": {}}, "seeds": 1}
    searched.store.record("declaration", {**declared, "condition": "any of clean better on source validation"})
    far = {"component": "calibration", "searched": 0.0018, "repeated": 0.0153, "allowed": 0.01}
    near = {"component": "clean", "searched": 0.5, "repeated": 0.501, "allowed": 0.01}
    drift = {"revin.control-0": near, "revin.control-1": far}
    searched.store.record("verdict", {"declaration": "revin", "holds": True, "control_drift": drift})
    _, _, text = report_on(searched.store.folder)
    told = "so the target stayed sealed: revin.control-1: calibration 0.0153 instead of 0.0018 (0.01 allowed)."
    assert f"it holds. Its control does not repeat the search, {told}" in text


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
    written = write_report(gather(study.store.folder), tmp_path / "report")
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
