"""`crossfeed compare` from the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import budget_of, named_budget

from .conftest import toy_table


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tables")
    toy_table().write(folder / "source.parquet")
    toy_table("other", sessions=2, seed=5).write(folder / "target.parquet")
    return folder / "source.parquet", folder / "target.parquet"


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["compare", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_table_is_printed_and_its_files_are_named(tables: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = ("--table", tables[0], "--target", tables[1], "--models", "persistence,drift", "--out", tmp_path)
    text = run(*arguments)
    assert "Source, test side" in text
    assert "Target, zero-shot" in text
    assert "table.csv" in text
    assert run(*arguments) == text


def test_json_goes_to_standard_output_alone(tables: tuple[Path, Path], tmp_path: Path) -> None:
    text = run("--table", tables[0], "--models", "persistence", "--json", "--out", tmp_path)
    content = json.loads(text)
    assert content["sets"] == ["source"]
    assert content["rows"][0]["mean"]["source.rmse"] > 0


def test_bad_words_are_our_own_errors(tables: tuple[Path, Path], tmp_path: Path) -> None:
    for words in (("--models", "nobody"), ("--models", "gru", "--epochs", "0"), ("--seeds", "0")):
        result = CliRunner().invoke(app, ["compare", "--table", str(tables[0]), "--out", str(tmp_path), *words])
        assert isinstance(result.exception, ConfigError)
    assert not list(tmp_path.iterdir())


def test_a_budget_can_be_changed_and_the_pretext_keeps_its_share() -> None:
    changed = budget_of("demo", epochs=40, steps=3)
    assert (changed.epochs, changed.pretext_epochs, changed.steps) == (40, 12, 3)
    assert changed.batch_size == named_budget("demo").batch_size
