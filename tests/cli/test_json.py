"""With --json a command writes one JSON document to standard output and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from tests.cli.walk import commands
from tests.training.conftest import SMALL, toy_table
from tests.typed import as_words

SETTINGS = as_words(SMALL)
TOY = {
    "audit": ["source.parquet"],
    "data list": [],
    "data show": ["source.parquet"],
    "windows": ["source.parquet", "--context", "8", "--horizons", "1,2,4"],
    "inspect": ["run/model.safetensors"],
    "evaluate": ["run", "--table", "target.parquet", "--source", "source.parquet"],
    "adapt": ["run", "--table", "target.parquet", "--fractions", "0,0.5", "--steps", "2"],
    "forecast": ["run", "--history", "target.parquet", "--at", "40", "--commands", "table"],
    "what-if": ["run", "--history", "target.parquet", "--at", "40", "--commands", "table", "--samples", "20"],
    "compare": ["--source", "source.parquet", "--models", "persistence,ridge", "--out", "comparison"],
    "curve": [
        "--table",
        "curve.parquet",
        "--models",
        "ridge,mean",
        "--minutes",
        "0,8",
        "--size",
        "tiny",
        "--out",
        "curve",
    ],
    "report": ["run"],
    "program": ["bundled:pla_cover"],
    "study status": ["study"],
    "study verify": ["study"],
    "study rank": ["study"],
    "study runs": ["study"],
}
# Tested where their rooms are: they need raw logs, an opened study, minutes, or a quiet machine.
ELSEWHERE = {"simulate", "ingest", "train", "demo", "paper", "study unseal", "study contrast", "reproduce"}
ELSEWHERE |= {
    "study sensitivity",
    "export",
    "control plan",
    "control judge",
}  # they need an extra or a machine to plan for
ELSEWHERE |= {"fleet generate", "fleet train", "fleet describe", "fleet compare"}
STREAMS = {"live watch"}  # one line of JSON for each snapshot, as long as the machine runs


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tables, a run and a study."""
    place = tmp_path_factory.mktemp("json")
    toy_table().write(place / "source.parquet")
    toy_table("second", sessions=4, rows=80, seed=5, absent=("current_4",)).write(place / "target.parquet")
    toy_table(rows=100).write(place / "curve.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        train = ["train", "--table", "source.parquet", "--size", "tiny", "--device", "cpu", "--out", "run", *SETTINGS]
        assert "validation" in _document([*train, "--json"])
        tables = ["--source", "source.parquet", "--target", "target.parquet", "--keep-targets"]
        begun = CliRunner().invoke(app, ["study", "init", "study", *tables, "--size", "tiny", *SETTINGS])
        assert begun.exit_code == 0
    return place


def _document(words: list[str]) -> Any:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", TOY)
def test_standard_output_is_one_document(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert _document([*name.split(), *TOY[name], "--json"]) is not None


def test_no_command_with_json_is_forgotten() -> None:
    able = {name for name, command in commands().items() if any("--json" in part.opts for part in command.params)}
    assert able == TOY.keys() | ELSEWHERE | STREAMS
