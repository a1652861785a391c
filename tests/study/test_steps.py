"""Every step of the protocol says which one comes next, and what is empty says so."""

from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.study.study import Study
from tests.study.conftest import begin, command


def test_an_empty_ranking_was_a_line_of_heads(tmp_path: Path) -> None:
    folder = begin(tmp_path / "study").store.folder
    assert "nothing to rank" in command("rank", folder)
    assert "No run is planned yet." in command("runs", folder)
    assert f"next: crossfeed study search {folder}" in command("status", folder).replace("\n", " ")
    assert "1 ledger entry," in command("verify", folder)


def test_a_killed_search_did_not_say_how_to_go_on(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    study.plan(seeds=1)
    assert "--planned" in command("status", study.store.folder)


def test_a_locked_study_said_that_it_cannot_be_locked(locked: Study) -> None:
    shown = command("status", locked.store.folder)
    assert "Cannot be locked" not in shown
    assert "Locked: " in shown
    assert "next: crossfeed study unseal" in shown


def test_locking_twice_asked_for_a_stable_leader(locked: Study) -> None:
    with pytest.raises(ConfigError, match="is locked already") as caught:
        locked.lock()
    assert caught.value.expected is None or "stable" not in caught.value.expected
