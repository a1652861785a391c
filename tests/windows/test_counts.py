"""`crossfeed windows` prints the split and the windows, and refuses what gives none."""

import json
from pathlib import Path

import pytest

from crossfeed.windows.split import Split, split_table
from crossfeed.windows.split_tables import DataConfig, count_windows
from tests.typed import typed
from tests.windows.tables import random_table, study_table


def test_counts_of_the_sides_add_up() -> None:
    table = study_table()
    whole = count_windows(table, None)[0].to_dict()
    parts = [part.to_dict() for part in count_windows(table, split_table(table))]
    for name in ("rows", "windows", "sessions", "groups"):
        assert sum(part[name] for part in parts) == whole[name]
    assert [part["sessions"] for part in parts] == [42, 11, 9]


def test_the_command_prints_json_and_saves_the_split(tmp_path: Path) -> None:
    table = study_table()
    table.write(tmp_path / "source.parquet")
    result = typed("windows", tmp_path / "source.parquet", "--json", "--save-split", tmp_path / "split.json")
    assert result.returncode == 0, result.stderr
    content = json.loads(result.stdout)
    assert [part["part"] for part in content["parts"]] == ["train", "validation", "test"]
    saved = Split.from_json((tmp_path / "split.json").read_text())
    assert saved == split_table(table) == Split.model_validate(content["split"])


def test_the_command_says_why_there_is_no_window(tmp_path: Path) -> None:
    random_table([20, 30]).write(tmp_path / "short.parquet")
    result = typed("windows", tmp_path / "short.parquet", "--by", "none")
    assert result.returncode == 2
    assert "at least 48" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["train_fraction", "validation_fraction"])
def test_any_share_between_nothing_and_everything_may_be_a_side(name: str) -> None:
    for share in (0.01, 0.99):
        assert getattr(DataConfig(**{name: share}), name) == share
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match=name):
            DataConfig(**{name: share})
