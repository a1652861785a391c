"""The recipes of CONTRIBUTING.md, run as written."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from crossfeed.evaluation.baselines import networks
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.contenders import Setting, contender
from crossfeed.front.report import report
from crossfeed.front.report.artefacts import gather
from crossfeed.logs import log_formats
from crossfeed.logs.pipeline import ingest
from crossfeed.study.candidates import from_yaml
from crossfeed.training.run_config import preset
from tests.evaluation.small_machine import evaluation_set, normaliser_of, small_table
from tests.front.report.runs import run_folder

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def recipe(name: str) -> str:
    """The block with this name."""
    (found,) = re.findall(rf"^```\w+ {name}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def test_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {}
    monkeypatch.setattr(log_formats, "_REGISTERED", log_formats.log_formats())
    exec(recipe("lathe"), scope)
    rows = "\n".join(f"{1000 + row},{500 + row},{3000 if row < 40 else 4000}" for row in range(80))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "monday.csv").write_text(f"I_spindle_mA,P_W,S_rpm\n{rows}\n", encoding="utf-8")
    detected = log_formats.detect_log_format(tmp_path / "logs")
    assert detected is log_formats.log_format_named("lathe") is scope["LOG_FORMAT"]
    table = ingest(detected, tmp_path / "logs")
    assert table.schema.sensor_names == ("spindle_current", "spindle_power")
    assert np.nanmax(np.abs(table.sensors[:5, 0] - 1.0)) < 0.01
    assert np.nanmax(np.abs(table.sensors[:5, 1] - 0.5)) < 0.01
    assert {3000.0, 4000.0} <= set(table.commands[:, 0])


def test_a_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (networks.RECIPES, networks._registered_in):
        monkeypatch.setitem(known, "last_and_plan", None)  # type: ignore[arg-type]  # gone again afterwards
    exec(recipe("baseline"), {})
    data = evaluation_set(small_table(), normaliser_of(small_table()))
    budget = Budget(epochs=1, pretext_epochs=0, steps=2, batch_size=8)
    assert contender("last_and_plan+blind", Setting(budget, "tiny", "cpu", {})).name == "last_and_plan+blind"
    forecaster = networks.network_forecaster("last_and_plan", frozenset(), budget, "tiny")
    forecaster.fit(data.windows, data.windows, 0)
    batch = data.windows.batch(data.sample(4))
    assert forecaster.predict(batch).mean.shape == batch.future_x_BHC.shape


def test_a_candidate(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(recipe("candidates"), encoding="utf-8")
    found = from_yaml(tmp_path / "mine.yaml", preset("crossfeed", "tiny"))
    assert list(found) == ["wide_and_shallow", "little_masking"]
    assert found["little_masking"].masks.channel_drop == 0.05


def test_a_section_of_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {}
    exec(recipe("section"), scope)
    monkeypatch.setitem(report.PARTS, "files", scope["files"])
    monkeypatch.setitem(report.SECTIONS, "files", yaml.safe_load(recipe("section-text"))["files"])
    written = report.write_report(gather(run_folder(tmp_path / "run")))
    assert "files" in written.sections
    assert "Every figure of this page" in written.report.read_text(encoding="utf-8")
    assert tmp_path / "run" / "report" / "tables" / "files.csv" in written.tables


def changed(name: str, folder: Path) -> Path:
    """A copy of the package with the edits of a recipe made; each finds exactly one place, and they touch few files."""
    copy = folder / "crossfeed"
    shutil.copytree(Path(__file__).parent.parent / "crossfeed", copy, ignore=shutil.ignore_patterns("__pycache__"))
    edits = re.findall(rf"^```edit {name} (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert 1 <= len({file for file, _ in edits}) <= 3
    for file, lines in edits:
        path = folder / file
        text = path.read_text(encoding="utf-8")
        before, after = ("".join(f"{line[1:]}\n" for line in lines.splitlines() if line[0] == sign) for sign in "-+")
        assert not before or text.count(before) == 1, f"{file}: {before}"
        path.write_text(text.replace(before, after) if before else text + after, encoding="utf-8")
    return folder


AFTERWARDS = {
    "loss": """
import tempfile
from crossfeed.training.folder import RunFolder
from crossfeed.training.history import read_history
from crossfeed.training.run import train
from tests.training.conftest import small_config, toy_table
config = small_config({"objectives.weights.absolute": 0.5}, "crossfeed")
run = train(toy_table(), config, tempfile.mkdtemp() + "/run", device="cpu")
history = read_history(RunFolder(run.folder).history)
assert all(row["train_absolute"] > 0 for row in history), history[0].keys()
""",
    "quantity": """
from crossfeed.schema import Channel
from crossfeed.model.model_file import locate_model
from crossfeed.model.world_model import WorldModel
Channel(name="microphone", quantity="sound pressure", unit="mPa")
assert "sound pressure" not in WorldModel.load(locate_model("fleet")).config.quantities
""",
    "protocol": """
from crossfeed.study.candidates import candidates_of
from crossfeed.study.record.score import rules_of
assert rules_of("mended-long").settings == {"training.finetune_epochs": 200}
""",
    "verb": """
import crossfeed as cf
import numpy as np
from crossfeed.logs.table import Group, Table
from crossfeed.schema import canonical
schema, rows = canonical(), 4
sensors = np.full((rows, len(schema.sensors)), np.nan)
sensors[:, 0] = 1.0
commands = np.zeros((rows, len(schema.commands)))
table = Table(schema, (Group("m", "s", "r", "p", 0, rows),), np.arange(4.0), sensors, commands, 1.0, {})
assert cf.sensors_of(table) == (schema.sensor_names[0],), cf.sensors_of(table)
""",
}


@pytest.mark.parametrize("name", AFTERWARDS)
def test_a_recipe_that_changes_files(name: str, tmp_path: Path) -> None:
    folder = changed(name, tmp_path)
    tests = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{tests}"}
    command = [sys.executable, "-c", AFTERWARDS[name]]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
