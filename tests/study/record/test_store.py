import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, StorageError
from crossfeed.study.record import ledger
from crossfeed.study.record.store import Store
from crossfeed.study.search import is_alive, owner


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "study")
    store.create({"version": 1, "vault": []})
    return store


def planned(count: int) -> list[tuple[str, str, int, str, dict[str, int]]]:
    return [(f"run{i}", "candidate", i, "search", {"seed": i}) for i in range(count)]


def test_a_study_is_created_once(store: Store) -> None:
    with pytest.raises(ConfigError, match="already holds a study"):
        store.create({})
    assert store.protocol() == {"version": 1, "vault": []}


def test_a_folder_without_a_study_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no study"):
        Store(tmp_path).runs()


def test_planning_the_same_run_twice_keeps_the_first(store: Store) -> None:
    assert store.add_runs(planned(3)) == 3
    store.finish("run1", "finished", {"clean": 1.0})
    assert store.add_runs(planned(4)) == 1
    assert [run.status for run in store.runs()] == ["pending", "finished", "pending", "pending"]


def test_an_outcome_is_stored_once(store: Store) -> None:
    store.add_runs(planned(1))
    store.finish("run0", "finished", {"clean": 1.0})
    store.finish("run0", "finished", {"clean": 2.0})
    assert store.runs()[0].outcome == {"clean": 1.0}
    with store.reading() as connection:
        assert len(ledger.entries(connection, "run")) == 1


def test_a_released_run_can_be_claimed_again_and_a_finished_one_never(store: Store) -> None:
    store.add_runs(planned(1))
    assert store.claim("me") is not None
    assert store.claim("other") is None
    store.release("run0")
    assert store.claim("other") is not None
    store.finish("run0", "finished", {})
    store.release("run0")
    assert store.claim("me") is None


def _claim_all(folder: Path, name: str, queue: "multiprocessing.Queue[tuple[str, str]]") -> None:
    store = Store(folder)
    while (run := store.claim(name)) is not None:
        queue.put((name, run.name))


def test_two_processes_never_claim_the_same_run(store: Store) -> None:
    store.add_runs(planned(30))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_claim_all, args=(store.folder, f"w{i}", queue)) for i in range(3)]
    for worker in workers:
        worker.start()
    claimed = [queue.get(timeout=600)[1] for _ in range(30)]
    for worker in workers:
        worker.join(timeout=600)
    assert sorted(claimed) == sorted(f"run{i}" for i in range(30))
    assert queue.empty()


def test_a_failing_transaction_leaves_nothing(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction() as connection:  # noqa: PT012
        ledger.append(connection, "note", {})
        raise RuntimeError
    with store.reading() as connection:
        assert [entry.kind for entry in ledger.entries(connection)] == ["init"]


def test_a_study_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_bytes(b"this is not a database, it is a shopping list" * 100)
    with pytest.raises(StorageError, match="cannot be used"):
        Store(tmp_path).runs()


@pytest.mark.parametrize("column", ["time", "kind", "content", "previous", "hash"])
def test_an_edited_ledger_entry_breaks_the_chain(store: Store, column: str) -> None:
    for number in range(4):
        store.record("note", {"number": number})
    with sqlite3.connect(store.path) as connection:
        assert ledger.broken_links(connection) == []
        connection.execute(f"UPDATE ledger SET {column} = {column} || ' ' WHERE number = 3")
        assert any("entry 3" in problem or "entry 4" in problem for problem in ledger.broken_links(connection))


def test_a_removed_or_swapped_entry_breaks_the_chain(store: Store) -> None:
    for number in range(4):
        store.record("note", {"number": number})
    with sqlite3.connect(store.path) as connection:
        connection.execute("DELETE FROM ledger WHERE number = 2")
        assert "ledger entry 2 is missing" in ledger.broken_links(connection)
        connection.execute("UPDATE ledger SET number = number - 1 WHERE number > 2")
        assert ledger.broken_links(connection)


def test_an_owner_is_alive_only_while_it_works(tmp_path: Path) -> None:
    with owner(tmp_path) as name:
        assert is_alive(tmp_path, name)
    assert not is_alive(tmp_path, name)
    assert not is_alive(tmp_path, "never-was")


def _own_and_die(folder: Path, queue: "multiprocessing.Queue[str]") -> None:
    import os
    import signal

    with owner(folder) as name:
        queue.put(name)
        queue.close()
        queue.join_thread()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_owner_is_known_to_be_dead(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_own_and_die, args=(tmp_path, queue))
    process.start()
    name = queue.get(timeout=600)
    process.join(timeout=600)
    assert (tmp_path / "owners" / f"{name}.lock").exists()
    assert not is_alive(tmp_path, name)


def test_a_run_table_with_a_changed_letter_ended_in_a_traceback(tmp_path: Path) -> None:
    store = Store(tmp_path / "study")
    store.create({"name": "p"})
    store.add_runs([("a", "preset", 0, "search", {"x": 1})])
    with store.transaction() as connection:
        connection.execute("UPDATE runs SET config = '{\"x\" 1}'")
    with pytest.raises(StorageError, match="no JSON"):
        store.runs()
    with store.transaction() as connection:
        connection.execute("UPDATE protocol SET content = '[1'")
    with pytest.raises(StorageError, match="no JSON"):
        store.protocol()
