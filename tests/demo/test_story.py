import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from crossfeed.cli.render.results import show_headline
from crossfeed.demo import selection
from crossfeed.demo.chapter import DemoSettings
from crossfeed.demo.results import sentences
from crossfeed.demo.story import chapters, run_demo
from crossfeed.errors import ConfigError
from crossfeed.files import claim, locked
from crossfeed.study.study import Study
from tests.typed import typed

COMMAND = [sys.executable, "-m", "tests.demo.conftest", "--out"]
ROOT = Path(__file__).parents[2]


def _numbers(folder: Path) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = json.loads((folder / "headline.json").read_text(encoding="utf-8"))["rows"]
    return rows


def test_the_story_ends_with_a_locked_model_its_rivals_and_a_report(
    told: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads((told / "headline.json").read_text(encoding="utf-8"))
    assert content["locked"]
    assert set(content["rows"]) == {"crossfeed (locked)", "persistence", "ridge"}
    assert (told / "report" / "report.html").read_text(encoding="utf-8").startswith("<!")
    assert [entry.kind for entry in Study(told / "study").ledger()].count("opening") == 1
    show_headline(content, simulated=False)
    assert "One physical machine" in capsys.readouterr().out


def test_a_second_telling_repeats_nothing(told: Path, small: DemoSettings, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in told.rglob("*") if path.is_file()}
    assert run_demo(told, small)["locked"]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "nothing was left to do" in capsys.readouterr().err


def test_two_demos_in_one_folder_ended_in_a_traceback(told: Path, small: DemoSettings) -> None:
    with locked(told / ".demo.lock"), pytest.raises(ConfigError, match="Another process works on a demo"):
        run_demo(told, small)


@pytest.mark.usefixtures("small")
def test_a_killed_demo_goes_on_and_ends_with_the_same_numbers(told: Path, tmp_path: Path) -> None:
    """Killed once before each of these chapters is done, wherever it stands then."""
    for chapter, earlier in (("search", "seal"), ("rivals", "opening")):
        process = subprocess.Popen(
            [*COMMAND, str(tmp_path / "demo")], cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE
        )
        while not (tmp_path / "demo" / "chapters" / f"{earlier}.json").exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(random.Random(chapter).uniform(0.0, 3.0))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    done = typed("demo", "--data", "michigan", "toy", "--out", tmp_path / "demo", folder=ROOT)
    assert done.returncode == 0, done.stderr
    assert _numbers(tmp_path / "demo") == _numbers(told)


def test_a_refused_lock_leaves_the_target_sealed_and_the_story_goes_on(
    told: Path, small: DemoSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(told, folder)
    for path in ("study/lock.json", "chapters/lock.json", "chapters/opening.json", "chapters/rivals.json"):
        (folder / path).unlink()
    for path in ("comparison", "forecast", "report", "released"):
        shutil.rmtree(folder / path)
    with closing(sqlite3.connect(folder / "study" / "study.db")) as database, database:
        database.execute("DELETE FROM ledger WHERE number >= (SELECT number FROM ledger WHERE kind = 'lock')")
    monkeypatch.setattr(Study, "refusals", lambda _: ["the leader still changes"])
    content = run_demo(folder, small)
    assert not content["locked"]
    assert content["judged_on"] == "source"
    assert not (folder / "released").exists()
    assert any("the leader still changes" in sentence for sentence in sentences(content, simulated=False))
    assert (folder / "report" / "report.html").exists()


def test_ctrl_c_ends_with_a_sentence_and_the_way_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, str(tmp_path / "demo")], cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "demo" / "chapters" / "seal.json").exists() and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert f"crossfeed demo --data michigan toy --out {tmp_path / 'demo'}" in said


def test_a_folder_with_another_demo_or_something_else_is_refused(tmp_path: Path) -> None:
    claim(tmp_path / "demo", "demo.json", DemoSettings(seed=1).model_dump(mode="json"), "a demo")
    with pytest.raises(ConfigError, match="seed: 1 there, 2 asked"):
        run_demo(tmp_path / "demo", DemoSettings(seed=2))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="not the folder of a demo"):
        run_demo(tmp_path / "mine", DemoSettings())


def test_only_simulated_machines_have_a_simulator_to_ask(tmp_path: Path) -> None:
    names = [chapter.name for chapter in chapters(tmp_path, DemoSettings())]
    real = [chapter.name for chapter in chapters(tmp_path, DemoSettings(data="mtconnect", logs=tmp_path))]
    assert [name for name in names if name not in real] == ["logs", "counterfactual"]


def test_a_beginning_that_was_killed_is_begun_again(small: DemoSettings, tmp_path: Path) -> None:
    (tmp_path / ".study.partial" / "vault").mkdir(parents=True)
    (tmp_path / ".study.partial" / "vault" / "target.sealed").write_bytes(b"half")
    selection.make_tables(tmp_path, small)
    (tmp_path / "target.parquet").unlink()
    told = selection.seal(tmp_path, small)
    assert "320 rows of second" in told.sentence
    assert not (tmp_path / "target.parquet").exists()
