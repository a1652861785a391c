"""The README's example runs as written; its five steps for one's own machine really lead from logs to a verdict."""

import re
import runpy
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import yaml

from crossfeed.logs.table import Table
from crossfeed.schema import canonical
from tests.front.conftest import MEASURED, mill
from tests.own_logs import START, write_own_logs
from tests.test_docs_commands import commands_of
from tests.typed import typed

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
# The settings of a real training, cut to some seconds.
BRIEF = (
    "model.context=8", "model.width=16", "model.heads=2", "training.batch_size=8", "training.steps_per_epoch=3",
    "training.finetune_epochs=1", "training.validation_windows=16",
)  # fmt: skip


def test_the_python_example_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On frames whose columns have other names; only the training is cut short."""
    logs = {name: mill(f"mill_{name}", seed, sessions=6, rows=260) for seed, name in enumerate("ab")}
    channels = (*MEASURED, *canonical().command_names)
    columns = [{"native": f"{name}_log", "channel": name, "unit": canonical().channel(name).unit} for name in channels]
    for name in logs:
        mapping = {"machine": f"mill_{name}", "time": {"column": "time", "unit": "s"}, "columns": columns}
        mapping |= {"run": {"column": "run"}}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(mapping))
    frames = {
        f"log_{name}": table.to_pandas().rename(columns={channel: f"{channel}_log" for channel in channels})
        for name, table in logs.items()
    }
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.splitlines()) <= 20
    settings = {name: yaml.safe_load(value) for name, _, value in (text.partition("=") for text in BRIEF)}
    script = tmp_path / "example.py"
    script.write_text(example.replace("cf.fit(a)", f"cf.fit(a, 'tiny', settings={settings})"))
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(script), init_globals=frames)
    assert found["adapted"].machines == ("mill_a", "mill_b")
    assert np.isfinite(found["forecast"].to_polars().select("mean", "standard_deviation").to_numpy()).all()
    assert len(found["answer"].readings) == 1
    assert {"forecast.png", "what_if.png"} <= {file.name for file in tmp_path.iterdir()}


def test_the_five_steps_lead_from_odd_logs_to_a_verdict(tmp_path: Path) -> None:
    """Typed literally on logs with other names, decimal commas, local time and gaps; only the training is cut short."""
    steps = re.search(r"## On the command line.*?```bash\n(.*?)```", README, re.DOTALL)
    assert steps
    commands = commands_of(steps[1])
    assert [words[0] for words in commands] == ["data", "ingest", "audit", "train", "evaluate"]
    write_own_logs(tmp_path)
    for name in ("a", "b"):
        mapping, ingest = ([_for_machine(word, name) for word in words] for words in commands[:2])
        (tmp_path / f"{name}.yaml").write_text(_crossfeed(tmp_path, *mapping).stdout, encoding="utf-8")
        _crossfeed(tmp_path, *ingest)
    german, english = (Table.read(tmp_path / f"{name}.parquet") for name in ("a", "b"))
    assert (len(german.groups), len(english.groups)) == (10, 5), "the pause of a run ends a session"
    assert abs(np.nanmax(german.commands[:, 0]) - 14_000) < 100, "dots between thousands are no decimal points"
    assert np.nanmax(np.abs(english.sensors[:, 2])) < 100, "watts became kilowatts"
    assert german.time[0] > START.timestamp(), "local time became UTC"
    _crossfeed(tmp_path, *commands[2])
    brief = ["tiny" if word == "compact" else word for word in commands[3]]
    _crossfeed(tmp_path, *brief, *(word for setting in BRIEF for word in ("--set", setting)))
    said = _crossfeed(tmp_path, *commands[4]).stdout
    assert "May it be trusted on b? " in said
    assert (tmp_path / "results" / "evaluation.json").exists()
    adapted = _crossfeed(tmp_path, "adapt", "run", "--table", "b.parquet", "--out", "adapted", "--steps", "1").stdout
    assert "model: adapted/few_shot.safetensors" in adapted
    follows = ("--commands", "table", "--at", "60", "--seconds", "4", "--samples", "20")
    assert "never saw" not in _crossfeed(tmp_path, "what-if", "adapted", "--history", "b.parquet", *follows).stdout
    assert "Not known yet" not in _crossfeed(tmp_path, "report", "run").stdout


def test_every_number_of_the_headline_is_one_of_the_results() -> None:
    """The README shows an excerpt: a figure that is measured anew changes in both places."""
    headline = README[README.index("| learned from, judged on") : README.index("**Where it loses.**")]
    numbers = re.findall(r"\d\.\d{3}", headline)
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert len(numbers) == 32
    assert [number for number in numbers if number not in results] == []


def _for_machine(word: str, name: str) -> str:
    """A word of the steps for machine A, typed for machine A or B."""
    return (
        word.replace("logs/a", f"logs/{name}").replace("a.parquet", f"{name}.parquet").replace("a.yaml", f"{name}.yaml")
    )


def _crossfeed(folder: Path, *words: str) -> "CompletedProcess[str]":
    result = typed(*words, folder=folder)
    assert result.returncode == 0, f"{' '.join(words)}\n{result.stderr}"
    return result
