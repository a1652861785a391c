import json
import shutil
from pathlib import Path

import pytest

from crossfeed.demo.paper import source
from crossfeed.demo.paper.made import arm_runs, of_channel_nll, of_channels, of_runs, of_target, of_transfer
from crossfeed.demo.paper.published import published
from crossfeed.demo.paper.settings import PaperSettings
from crossfeed.demo.paper.source import PaperRun, make_tables
from crossfeed.demo.paper.story import chapters, run_paper
from crossfeed.demo.selection import lock
from crossfeed.errors import ConfigError, CrossfeedError, LogError, TableError
from crossfeed.files import locked, read_sealed
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table
from crossfeed.study.study import Study


def test_the_paper_was_walked_through_to_its_page(told: Path) -> None:
    study = Study(told / "study")
    kinds = [entry.kind for entry in study.ledger()]
    assert kinds.index("lock") < kinds.index("opening") < kinds.index("declaration") < kinds.index("release")
    assert kinds.count("opening") in (1, 2), "the second one only if its condition holds"
    assert not study.verify().problems
    page = (told / "report.html").read_text(encoding="utf-8")
    assert "The paper, number by number" in page
    assert "simulated" in page
    assert "reproduced" not in page
    assert {"paper-search.csv", "search-merged.tex", "owed-runs.csv"} <= {
        path.name for path in (told / "tables").iterdir()
    }
    assert (told / "figures" / "paper-search.png").is_file()


def test_published_numbers_stand_beside_those_of_the_study(told: Path) -> None:
    numbers = read_sealed(told / "numbers.json")
    found = {
        (table, line["row"], line["column"]): line["made"]["value"]
        for table, lines in numbers.items()
        for line in lines
        if line["made"] is not None
    }
    opening = json.loads((told / "study" / "results" / "target-1.json").read_text(encoding="utf-8"))
    (name,) = opening["command_use"]
    assert found["transfer", "locked", "target_rmse"] == pytest.approx(opening["scores"][name]["rmse"])
    assert found["transfer", "locked", "target_nll"] == pytest.approx(opening["scores"][name]["nll"] - 0.9189385)
    assert found["data", "target", "sensors"] == 10
    assert found["data", "source", "sessions"] == 9
    assert found["data", "target", "windows"] == opening["windows"]
    lock = Study(told / "study").store.entries("lock")[-1].content
    assert found["selection", "locked", "candidate"] == lock["candidate"]
    assert found["initialisation", "scratch", "clean"] > 0
    assert found["ablations", "latent_weight_4", "clean"] > 0
    assert found["baselines", "mlp", "source_rmse"] > 0
    latent = read_sealed(told / "no_latent.json")
    assert {run.partition("-0")[0] for run in latent["command_use"]} >= {
        "no-latent.as_it_is",
        "no-latent.likelihood_only",
    }


def test_every_run_of_a_second_opening_finds_its_number(told: Path) -> None:
    """A small ablation rarely fulfils its condition, so the result of the first opening stands for the second one."""
    opening = json.loads((told / "study" / "results" / "target-1.json").read_text(encoding="utf-8"))
    (name,) = opening["command_use"]
    runs = [f"revin.{arm}-{seed}" for arm in ("control", "revin") for seed in (0, 1)]
    second = {key: dict.fromkeys(runs, opening[key][name]) for key in ("scores", "by_channel")}
    assert arm_runs(second, "revin") == {0: "revin.revin-0", 1: "revin.revin-1"}
    tables = published()
    scores = opening["scores"][name]
    for table, found in (
        ("runs", of_runs(second)), ("target", of_target(told, second)), ("transfer", of_transfer(told, [], second)),
        ("channels", of_channels(second)), ("channel_nll", of_channel_nll(second)),
    ):  # fmt: skip
        asked = {place for place in tables[table].numbers if place[0].startswith(("revin", "control"))}
        missing = {place for place in asked - found.keys() if not place[0].endswith("-2") and place[1] != "source_rmse"}
        assert not missing, table
    assert of_runs(second)["revin-1", "r2"].value == scores["r2"]
    rmse = of_transfer(told, [], second)["revin", "target_rmse"]
    assert rmse.value == pytest.approx(scores["rmse"])
    assert rmse.spread == pytest.approx(0.0)


def test_the_time_was_estimated_before_and_measured_after(told: Path) -> None:
    before = read_sealed(told / "estimate.json")
    assert before["runs"]["search"] == 4
    assert before["seconds"] > 0
    page = (told / "report.html").read_text(encoding="utf-8")
    assert "most of it went into" in page


def test_a_second_call_repeats_nothing(told: Path, micro: PaperSettings, capsys: pytest.CaptureFixture[str]) -> None:
    notes = {path: path.stat().st_mtime_ns for path in (told / "chapters").iterdir()}
    assert run_paper(PaperRun(told, micro, device="cpu"))["locked"]
    assert {path: path.stat().st_mtime_ns for path in notes} == notes
    assert "nothing was left to do" in capsys.readouterr().err


def test_another_size_needs_another_folder(told: Path, micro: PaperSettings) -> None:
    with pytest.raises(ConfigError, match="seeds"):
        run_paper(PaperRun(told, micro.model_copy(update={"seeds": 3})))


def test_a_refused_lock_leaves_the_target_sealed_and_the_rest_goes_on(
    told: Path, micro: PaperSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = PaperRun(tmp_path / "refused", micro, device="cpu")
    paper.folder.mkdir()
    for name in ("source.parquet", "counts.json", "audit.json"):
        shutil.copyfile(told / name, paper.folder / name)
    monkeypatch.setattr(Study, "refusals", lambda _: ["weak use of the commands"])
    shutil.copytree(told / "raw", paper.folder / "raw")
    assert "went into the vault" in source.seal(paper).sentence
    assert "weak use" in lock(paper.folder).sentence
    for chapter in chapters(paper):
        if chapter.name in ("no_latent", "opening", "revin", "second_opening", "release"):
            assert "refused" in chapter.work().sentence
    assert not [entry for entry in paper.study.ledger() if entry.kind == "opening"]


def test_two_at_once_in_one_folder_are_told_so(told: Path, micro: PaperSettings) -> None:
    with (
        locked(told / ".paper.lock"),
        pytest.raises(ConfigError, match="works on a run through the paper"),
    ):
        run_paper(PaperRun(told, micro))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="is not the folder of"):
        run_paper(PaperRun(tmp_path, PaperSettings(size="tiny", seeds=2)))
    assert not (tmp_path / "paper.json").exists()


def test_logs_are_named_once(tmp_path: Path) -> None:
    for thws, simulated in ((None, False), (tmp_path, False), (tmp_path, True)):
        with pytest.raises(ConfigError, match="--thws DIR --joanneum DIR, or --simulated"):
            PaperSettings.of(thws, None, simulated, "tiny", 2)
    with pytest.raises(ConfigError, match="does not exist"):
        PaperSettings.of(tmp_path, tmp_path / "nowhere", False, "tiny", 2)


def _paper(folder: Path, thws: Path, joanneum: Path) -> PaperRun:
    return PaperRun(folder, PaperSettings.of(thws, joanneum, False, "tiny", 2))


def test_a_folder_of_other_logs_is_refused(told: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError):
        make_tables(_paper(tmp_path, told / "raw" / "joanneum", told / "raw" / "thws"))


def test_a_download_that_was_stopped_is_refused(told: Path, tmp_path: Path) -> None:
    logs = tmp_path / "thws"
    shutil.copytree(told / "raw" / "thws", logs)
    (logs / "data_v1_0_1.csv.partial").touch()
    with pytest.raises(LogError, match="not finished"):
        make_tables(_paper(tmp_path, logs, told / "raw" / "joanneum"))


def test_less_than_the_published_logs_is_refused(told: Path, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="9 sessions, fewer than the published"):
        make_tables(_paper(tmp_path, told / "raw" / "thws", told / "raw" / "joanneum"))


def test_tables_of_another_rule_are_refused_before_the_study_begins(told: Path, tmp_path: Path) -> None:
    path = tmp_path / "ours.parquet"
    ingest(log_format_named("thws"), told / "raw" / "thws").write(path)
    target = tmp_path / "theirs.parquet"
    Table.read(told / "released" / "target.parquet").write(target)
    paper = _paper(tmp_path / "out", path, target)
    make_tables(paper)
    with pytest.raises(CrossfeedError, match=r"(?s)rule crossfeed.*--rule paper"):
        source.seal(paper)
    assert not (paper.folder / "study").exists()


def test_a_folder_that_is_no_clone_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    paper = PaperRun(tmp_path / "out", PaperSettings(size="tiny", seeds=2), clones=(tmp_path,))
    with pytest.raises(ConfigError, match="not a clone"):
        run_paper(paper)
    assert not paper.folder.exists()
