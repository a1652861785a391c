import json
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.logs.table import Table
from crossfeed.study import opening, vault
from crossfeed.study.record.declaration import ConditionVerdict
from crossfeed.study.record.score import PROTOCOLS
from crossfeed.study.study import Study
from tests.study.conftest import InProcess, begin, command, kinds
from tests.training.conftest import toy_table

ARMS = {"control": {}, "floor": {"model.instance_norm.kind": "floored"}}


def test_the_confirmatory_opening_adapts_the_locked_model(opened: Study) -> None:
    result = json.loads((opened.store.folder / "results" / "target-1.json").read_text())
    found = result["adaptation"]
    assert [row["fraction"] for row in found["few_shot"]["fractions"]] == [0.0, 0.05, 0.1, 0.2]
    assert found["few_shot"]["fractions"][-1]["updates"] == 50
    assert found["online"]["updates"] > 0
    assert found["windows"] == result["windows"]
    assert found["table"]["machines"] == ["target"]
    locked = json.loads((opened.store.folder / "lock.json").read_text())
    assert found["model"]["name"] == locked["run"]


def test_the_opening_of_the_papers_study_learned_and_judged_few_shots_our_way(
    opened: Study, locked: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = json.loads((opened.store.folder / "results" / "target-1.json").read_text())["adaptation"]["few_shot"]
    assert (ours["config"]["loss"], ours["config"]["query"]) == ("likelihood", "common")
    monkeypatch.setattr(opening, "rules_of", lambda _: PROTOCOLS["paper"])
    theirs = locked.unseal()["adaptation"]["few_shot"]
    assert (theirs["config"]["loss"], theirs["config"]["query"]) == ("squared", "each")
    windows = [row["query_windows"] for row in theirs["fractions"]]
    assert windows[0] > windows[-1] == ours["fractions"][0]["query_windows"]


def test_a_target_too_short_to_adapt_to_still_gets_its_confirmatory_result(
    locked: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = toy_table("target", sessions=3, rows=13, seed=5, absent=("current_4",))
    monkeypatch.setattr(vault, "reveal", lambda *_: [short.select(short.groups[:1])])
    result = locked.unseal()
    assert "Nothing follows the first 20%" in result["adaptation"]["not_possible"]
    assert kinds(locked)[-1] == "opening result"


def test_a_released_target_is_the_table_that_was_sealed(opened: Study, tmp_path: Path) -> None:
    path = tmp_path / "out" / "target.parquet"
    assert f"Wrote {path}" in command("release", opened.store.folder, path.parent).replace("\n", "")
    original = toy_table("target", sessions=3, rows=40, seed=5, absent=("current_4",))
    assert Table.read(path).fingerprint() == original.fingerprint()
    assert opened.verify().problems == ()
    assert any("released" in remark for remark in opened.verify().remarks)


def test_the_release_is_in_the_ledger_before_a_row_is_written(
    opened: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(Table, "write", lambda *_: seen.append(kinds(opened)[-1]))
    opened.release(tmp_path / "out")
    assert seen == ["release"]


@pytest.mark.parametrize("state", ["sealed", "locked", "interrupted"])
def test_nothing_is_released_before_the_confirmatory_result(
    state: str, locked: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = begin(tmp_path / "study") if state == "sealed" else locked
    if state == "interrupted":
        monkeypatch.setattr(vault, "reveal", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            study.unseal()
        monkeypatch.undo()
    with pytest.raises(ConfigError, match="confirmatory opening has no result yet"):
        study.release(tmp_path / "out")
    assert "release" not in kinds(study)
    assert not (tmp_path / "out").exists()


def test_a_release_entry_alone_opens_nothing(locked: Study) -> None:
    entry = locked.store.record("release", {"tables": {}})
    with pytest.raises(ConfigError, match="stays closed"):
        vault.reveal(locked.store, entry)


def test_an_opening_entry_without_a_lock_opens_nothing(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    entry = study.store.record("opening", {"purpose": "confirmatory", "runs": []})
    with pytest.raises(ConfigError, match="stays closed"):
        vault.reveal(study.store, entry)


def test_a_used_opening_opens_nothing(opened: Study) -> None:
    (entry,) = [entry for entry in opened.ledger() if entry.kind == "opening"]
    with pytest.raises(ConfigError, match="stays closed"):
        vault.reveal(opened.store, entry.hash)


def test_a_release_replaces_no_file(opened: Study, tmp_path: Path) -> None:
    (tmp_path / "target.parquet").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        opened.release(tmp_path)
    assert (tmp_path / "target.parquet").read_text() == "mine"
    assert "release" not in kinds(opened)


def test_after_a_release_nothing_new_can_be_declared_but_what_was_declared_may_open(
    opened: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.declare("before", ARMS, 1)
    opened.release(tmp_path / "out")
    with pytest.raises(ConfigError, match="was released on") as caught:
        opened.declare("after", ARMS, 1)
    assert "exploration" in caught.value.remedy
    assert kinds(opened).count("declaration") == 1
    opened.search(InProcess("cpu"))
    monkeypatch.setattr(opening, "verdict_of", lambda *_: ConditionVerdict(True, (0,), {"clean": [-0.1]}))
    result = opened.unseal("before")
    assert {"before.control-0", "before.floor-0"} <= result["scores"].keys()
    assert "adaptation" not in result


def test_a_study_of_the_source_alone_has_nothing_to_open_or_release(tmp_path: Path) -> None:
    study = begin(tmp_path / "study", target=False)
    with pytest.raises(ConfigError, match="no target"):
        study.unseal()
    with pytest.raises(ConfigError, match="no target to release"):
        study.release(tmp_path / "out")


def test_a_source_alone_needs_the_sensors_another_machine_would_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not known which sensors"):
        begin(tmp_path / "study", target=False, shared=[])
    with pytest.raises(ConfigError, match="cannot be used"):
        begin(tmp_path / "study", target=False, shared=["beauty"])
    with pytest.raises(ConfigError, match="cannot be used"):
        begin(tmp_path / "study", target=True, shared=["current_0"])
