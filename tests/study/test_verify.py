import copy
import random
import shutil
import sqlite3
import tarfile
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, StorageError
from crossfeed.logs.table import Table
from crossfeed.study.record.store import Store
from crossfeed.study.study import Study
from crossfeed.study.verify import _trained_otherwise, export, verify, verify_anything


def test_an_untouched_study_verifies(locked: Study) -> None:
    found = locked.verify()
    assert found.problems == ()
    assert found.head == locked.ledger()[-1].hash


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << (place % 8)
    path.write_bytes(bytes(content))


KEPT = ("lock.json", "model.safetensors", "config.yaml", "summary.json", "bundle.json", "outcome.json", "*.sealed")


@pytest.mark.parametrize("name", KEPT)
def test_any_flipped_byte_in_a_kept_file_is_found(locked: Study, name: str) -> None:
    choices = random.Random(name)
    path = choices.choice(sorted(locked.store.folder.rglob(name)))
    original = path.read_bytes()
    for place in [0, len(original) - 1, *(choices.randrange(len(original)) for _ in range(6))]:
        _flip(path, place)
        assert locked.verify().problems, f"{path.name}, byte {place}"
        path.write_bytes(original)
    assert locked.verify().problems == ()


def test_a_changed_source_value_is_found(locked: Study) -> None:
    path = locked.store.folder / "tables" / "source.parquet"
    table = Table.read(path)
    table.sensors[7, 2] += 1e-9
    table.write(path)
    assert any("source.parquet" in problem for problem in locked.verify().problems)
    path.write_bytes(path.read_bytes()[:-100])
    assert locked.verify().problems


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET content = replace(content, 'e', 'f') WHERE number = 2",
        "UPDATE ledger SET time = '2020-01-01' WHERE number = 3",
        "DELETE FROM ledger WHERE number = 2",
        "UPDATE runs SET outcome = replace(outcome, '\"collapsed\":', '\"was\":')",
        "UPDATE runs SET status = 'invalid' WHERE rowid = 1",
        "UPDATE runs SET config = replace(config, '\"seed\":0', '\"seed\":7') WHERE seed = 0",
        "DELETE FROM runs WHERE rowid = 1",
        "UPDATE protocol SET content = replace(content, 'crossfeed', 'paper')",
    ],
)
def test_any_edit_of_the_database_is_found(locked: Study, statement: str) -> None:
    with sqlite3.connect(locked.store.path) as connection:
        changed = connection.execute(statement).rowcount
    connection.close()
    assert changed > 0
    assert locked.verify().problems


PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "full_study.tar.gz"  # its plans do not name stages


@pytest.mark.parametrize(
    "change", ["candidate = 'q' || substr(candidate, 2)", "seed = seed + 8", "stage = 's' || substr(stage, 3)"]
)
def test_a_changed_candidate_seed_or_stage_in_the_run_table_was_believed(
    locked: Study, tmp_path: Path, change: str
) -> None:
    with tarfile.open(PUBLISHED) as tar:
        tar.extractall(tmp_path, filter="data")
    for store, whole in ((locked.store, True), (Store(tmp_path / "study"), False)):
        assert verify(store, whole).problems == ()
        with sqlite3.connect(store.path) as connection:
            (name,) = connection.execute(f"UPDATE runs SET {change} WHERE rowid = 2 RETURNING name").fetchone()
        connection.close()
        wanted = f"the candidate, the seed or the stage of run '{name}' is not the planned one"
        assert verify(store, whole).problems == (wanted,)


def test_a_removed_run_folder_is_found(locked: Study) -> None:
    shutil.rmtree(next((locked.store.folder / "runs").iterdir()))
    assert any("is missing" in problem for problem in locked.verify().problems)


def test_a_run_that_was_not_trained_as_planned_is_named(locked: Study) -> None:
    run = locked.store.runs()[0]
    folder, planned = locked.store.folder / "runs" / run.name, copy.deepcopy(run.config)
    assert _trained_otherwise(folder, planned) == []
    planned["training"]["finetune_epochs"] = None
    assert _trained_otherwise(folder, planned) == [], "what a plan leaves open, training fills in"
    planned["masks"]["ratio"] += 0.1
    del planned["model"]["context"]
    assert _trained_otherwise(folder, planned) == [f"{run.name} was not trained as planned: masks.ratio, model.context"]


def test_another_package_version_is_a_remark_not_a_problem(locked: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossfeed.study.verify.code_hash", lambda: "another")
    found = locked.verify()
    assert found.problems == ()
    assert any("source files" in remark for remark in found.remarks)


def test_an_export_verifies_without_the_data_and_a_damaged_one_does_not(locked: Study, tmp_path: Path) -> None:
    archive = export(locked.store, tmp_path / "study.tar.gz")
    assert verify_anything(archive).problems == ()
    assert verify_anything(archive).head == locked.verify().head
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(StorageError, match="cannot be read"):
        verify_anything(archive)


def test_a_small_archive_holds_the_locked_weights_and_verifies_and_a_folder_without_weights_does_not(
    locked: Study, tmp_path: Path
) -> None:
    archive = export(locked.store, tmp_path / "small.tar.gz", weights="locked")
    with tarfile.open(archive) as tar:
        held = {Path(name).parent.name for name in tar.getnames() if name.endswith("/model.safetensors")}
        tar.extractall(tmp_path / "unpacked", filter="data")
    run = next(entry.content["run"] for entry in locked.ledger() if entry.kind == "lock")
    assert held == {run}
    found = verify_anything(archive)
    assert found.problems == ()
    assert any(f"weights of {len(locked.store.runs()) - 1} runs" in remark for remark in found.remarks)
    unpacked = tmp_path / "unpacked" / "study"
    assert any("model.safetensors is missing" in problem for problem in verify(Store(unpacked)).problems)
    _flip(unpacked / "runs" / run / "model.safetensors", 1000)
    assert verify(Store(unpacked), whole=False).problems == (f"{run}/model.safetensors is missing, new or was changed",)


def test_an_archive_of_unheard_of_weights_is_refused(locked: Study, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot hold the weights 'most'"):
        export(locked.store, tmp_path / "study.tar.gz", weights="most")  # type: ignore[arg-type]
    assert not list(tmp_path.glob("study.tar.gz*"))


# Files by which nothing is claimed; docs/study.md says so.
UNCOVERED = ("logs", "owners", "log.txt", ".lock")


def _kinds_of_files(folder: Path) -> dict[str, Path]:
    """One file of every kind, the database apart; files of runs are of one kind when they have the same name."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("study.db")]
    claimed = [path for path in files if not set(UNCOVERED) & set(path.relative_to(folder).parts)]
    return {path.name: path for path in claimed}


def test_a_flipped_byte_in_any_kind_of_file_of_a_finished_study_is_named(opened: Study) -> None:
    found = _kinds_of_files(opened.store.folder)
    wanted = {"source.parquet", "target.sealed", "lock.json", "target-1.json", "model.safetensors", "history.parquet"}
    assert wanted <= found.keys()
    for name, path in found.items():
        original = path.read_bytes()
        for place in (0, len(original) // 2, len(original) - 1):
            _flip(path, place)
            problems = opened.verify().problems
            assert any(name in problem for problem in problems), f"{name}, byte {place}: {problems}"
            path.write_bytes(original)
    assert opened.verify().problems == ()


def _records(path: Path) -> list[object]:
    connection = sqlite3.connect(path)
    try:
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("protocol", "runs", "ledger")]
    finally:
        connection.close()


def test_a_flipped_byte_in_the_database_is_found_or_changes_no_record(opened: Study) -> None:
    with opened.store.reading() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = opened.store.path
    original, before = path.read_bytes(), _records(path)
    choices, seen = random.Random(3), 0
    for place in (choices.randrange(100, len(original)) for _ in range(100)):
        _flip(path, place)
        try:
            problems = bool(opened.verify().problems)
        except StorageError:
            problems = True
        for leftover in path.parent.glob("study.db-*"):
            leftover.unlink()
        changed = True
        try:
            changed = _records(path) != before
        except (sqlite3.Error, UnicodeDecodeError):
            assert problems, place
        assert problems or not changed, place
        seen += problems
        path.write_bytes(original)
        for leftover in path.parent.glob("study.db-*"):
            leftover.unlink()
    assert seen > 20
    assert opened.verify().problems == ()
