"""What can go wrong from outside: each is a clear error, and nothing is lost."""

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from crossfeed import files as atomic
from crossfeed.errors import ConfigError, CrossfeedError, StorageError
from crossfeed.logs.table import Table
from crossfeed.study import vault
from crossfeed.study.candidates import from_yaml
from crossfeed.study.record.lockable import LOCK
from crossfeed.study.study import Study
from crossfeed.study.verify import export
from crossfeed.training.run_config import preset
from tests.study.conftest import CANDIDATES, InProcess, Invented, begin, kinds
from tests.training.conftest import toy_table

connect = sqlite3.connect


def fill_disk_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic.os, "fsync", full)


class FullDatabase(sqlite3.Connection):
    """SQLite on a full disk: the first change ends the transaction. Its own page limit would let small ones through."""

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:  # type: ignore[override]
        if statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE", "CREATE")):
            if self.in_transaction:
                super().execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(statement, *values)  # type: ignore[arg-type]


def fill_disk_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(connect, factory=FullDatabase))


def make_the_database_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, **options: object) -> sqlite3.Connection:
        return connect(f"file:{path}?mode=ro", uri=True, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", read_only)


def write_notes_for_ever(study: Study) -> None:
    """A database that may not grow still takes what fits into its last page."""
    while True:
        study.store.record("note", {})


def unknown_key(folder: Path) -> None:
    (folder / "mine.yaml").write_text("slow: {training.ema_momentun: 0.9}")
    from_yaml(folder / "mine.yaml", preset("crossfeed", "tiny"))


def same_file_name_twice(folder: Path) -> None:
    for place, machine in (("one", "a"), ("two", "b")):
        toy_table(machine).write(folder / place / "table.parquet")
    Study.init(folder / "study", [folder / "one" / "table.parquet"], [folder / "two" / "table.parquet"], size="tiny")


def target_machine_in_the_source(folder: Path) -> None:
    for name in ("a", "b"):
        toy_table("same").write(folder / f"{name}.parquet")
    Study.init(folder / "study", [folder / "a.parquet"], [folder / "b.parquet"], size="tiny")


def missing_table(folder: Path) -> None:
    Study.init(folder / "study", [folder / "nowhere.parquet"], [], size="tiny")


def no_study(folder: Path) -> None:
    Study(folder)


def a_folder_that_is_a_file(folder: Path) -> None:
    (folder / "study").write_text("a file")
    begin(folder / "study")


@pytest.mark.parametrize(
    ("spoil", "kind", "words"),
    [
        (unknown_key, ConfigError, "training.ema_momentum"),
        (same_file_name_twice, ConfigError, "Several tables are named table"),
        (target_machine_in_the_source, ConfigError, "same is in the source and in the target"),
        (missing_table, CrossfeedError, "nowhere.parquet"),
        (no_study, ConfigError, "holds no study"),
        (a_folder_that_is_a_file, StorageError, "study"),
    ],
)
def test_bad_input_is_refused_in_words(
    tmp_path: Path, spoil: Callable[[Path], None], kind: type[CrossfeedError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        spoil(tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize("fill", [fill_disk_for_files, fill_disk_for_the_database])
def test_a_disk_that_is_full_at_init_leaves_the_target_where_it_was_and_init_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[pytest.MonkeyPatch], None]
) -> None:
    source, target = tmp_path / "source.parquet", tmp_path / "target.parquet"
    toy_table("source", sessions=8, rows=50).write(source)
    toy_table("target", seed=5, absent=("current_4",)).write(target)
    before = target.read_bytes()
    settings = {"model.context": 8, "model.horizons": [1, 2]}
    with monkeypatch.context() as full:
        fill(full)
        with pytest.raises(StorageError, match=r"full|No space"):
            Study.init(tmp_path / "study", [source], [target], size="tiny", settings=settings)
    assert target.read_bytes() == before
    with pytest.raises(ConfigError, match="holds no study"):
        Study(tmp_path / "study")
    study = Study.init(tmp_path / "study", [source], [target], size="tiny", settings=settings)
    assert study.verify().problems == ()
    assert not target.exists()


def test_a_target_that_cannot_be_taken_away_is_not_called_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StorageError, match="cannot be moved into the vault"):
        begin(tmp_path / "study")
    assert (tmp_path / "study-tables" / "target.parquet").exists()


def test_a_disk_that_fills_up_while_outcomes_are_stored_loses_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = begin(tmp_path / "study", target=False)
    study.plan(dict.fromkeys(CANDIDATES[:2], study.config), seeds=1)
    with monkeypatch.context() as full:

        def finish(*_: object) -> None:
            fill_disk_for_the_database(full)
            study.store.record("run", {"outcome": "x" * 100_000})

        full.setattr(study.store, "finish", finish)
        with pytest.raises(StorageError, match="full"):
            study.search(InProcess("cpu"))
    written = {path: path.stat().st_mtime_ns for path in (study.store.folder / "runs").rglob("outcome.json")}
    assert len(written) == 1
    study.search(InProcess("cpu"))
    assert {run.status for run in study.store.runs()} == {"finished"}
    assert {path: path.stat().st_mtime_ns for path in written} == written, "the run was not run again"
    assert study.verify().problems == ()


@pytest.mark.parametrize("spoil", [fill_disk_for_the_database, make_the_database_read_only])
def test_an_opening_that_cannot_be_written_down_reads_nothing(
    locked: Study, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pytest.MonkeyPatch], None]
) -> None:
    read: list[object] = []
    with monkeypatch.context() as spoilt:
        spoilt.setattr(vault, "_read", lambda *arguments: read.append(arguments))
        spoil(spoilt)
        with pytest.raises(StorageError):
            write_notes_for_ever(locked)
        with pytest.raises(StorageError, match="cannot be used") as caught:
            locked.unseal()
        assert "disk space and write permission" in caught.value.remedy
    assert read == []
    assert "opening" not in kinds(locked)
    assert locked.verify().problems == ()


def test_a_result_that_cannot_be_written_is_made_up_for_without_a_second_opening(
    locked: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_disk_for_files(full)
        with pytest.raises(StorageError, match="No space"):
            locked.unseal()
    locked.unseal()
    assert kinds(locked).count("opening") == 1
    assert locked.verify().problems == ()


def test_a_lock_whose_file_could_not_be_written_is_completed_by_locking_again(locked: Study) -> None:
    content = json.loads((locked.store.folder / LOCK).read_text())
    (locked.store.folder / LOCK).unlink()
    with pytest.raises(CrossfeedError, match=r"lock\.json is not what the ledger recorded"):
        locked.unseal()
    locked.lock()
    assert json.loads((locked.store.folder / LOCK).read_text()) == content
    assert kinds(locked).count("lock") == 1


def test_a_release_that_could_not_be_written_can_be_repeated(
    opened: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_disk_for_files(full)
        with pytest.raises(StorageError, match="No space"):
            opened.release(tmp_path / "out")
    assert list((tmp_path / "out").glob("*.parquet")) == []
    (path,) = opened.release(tmp_path / "out")
    assert Table.read(path).machines() == ("target",)


def test_an_export_to_a_full_disk_leaves_nothing_behind(
    locked: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk_for_files(monkeypatch)
    with pytest.raises(StorageError, match="No space"):
        export(locked.store, tmp_path / "study.tar.gz")
    assert not list(tmp_path.glob("*.tar.gz*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_read_only_folder_is_a_clear_error(locked: Study) -> None:
    folder = locked.store.folder
    folder.chmod(0o555)
    try:
        with pytest.raises(StorageError):
            locked.store.record("note", {})
    finally:
        folder.chmod(0o755)
    assert locked.verify().problems == ()


def test_a_study_moved_in_the_middle_of_its_search_goes_on(tmp_path: Path) -> None:
    study = begin(tmp_path / "here", target=False)
    study.plan(dict.fromkeys(CANDIDATES[:2], study.config), seeds=1)
    with pytest.raises(KeyboardInterrupt):
        study.search(Invented(lambda *_: 1.0, stop_after=1))
    moved = Study(shutil.move(tmp_path / "here", tmp_path / "elsewhere" / "study"))
    moved.search(InProcess("cpu"))
    assert {run.status for run in moved.store.runs()} == {"finished"}
    assert moved.ledger()[0] == Study(tmp_path / "elsewhere" / "study").ledger()[0]
    assert not (tmp_path / "here").exists()


def test_another_package_version_is_said_by_verify(locked: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossfeed.study.verify.__version__", "99.0")
    found = locked.verify()
    assert found.problems == ()
    assert any("this is 99.0" in remark for remark in found.remarks)
