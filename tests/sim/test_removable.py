"""The package without its simulator: everything but trials, the demonstration and fleets goes on working."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import crossfeed
from crossfeed.schema import canonical
from tests.front.conftest import MEASURED, mill
from tests.test_imports import EXTRAS

PACKAGE = Path(crossfeed.__file__).parent
# What is on the simulator by its nature. Options of other commands reach it when they are given.
ON_THE_SIMULATOR = ("crossfeed.demo", "crossfeed.control.machine", "crossfeed.control.trial")

IMPORTS = f"""
import importlib, sys
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").split(".")[0] not in {EXTRAS!r}:
            failed.append(f"{{name}}: {{error}}")
sys.exit("\\n".join(failed) or 0)
"""
WORK = """
import sys
import crossfeed as cf
from crossfeed.cli import app

app("ingest table log.csv log.parquet --mapping log.yaml".split(), standalone_mode=False)
table = cf.Table.read("log.parquet")
brief = {"training.steps_per_epoch": 2, "training.finetune_epochs": 1, "training.batch_size": 8}
model = cf.fit(table, "tiny", settings=brief, pretrained="none", device="cpu")
rows = table.to_polars()[:80]
history, plan = rows[:40], rows[40:56]
assert model.forecast(history, plan).to_polars()["mean"].is_finite().all()
slower = plan.with_columns(plan["spindle_speed"] * 0.5)
assert len(cf.what_if(model, history, {"as planned": plan, "slower": slower}, samples=20).readings) == 1
assert cf.__file__.startswith(sys.argv[1]) and not any(name.startswith("crossfeed.sim") for name in sys.modules)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package in which `sim` is missing."""
    folder = tmp_path_factory.mktemp("bare")
    shutil.copytree(PACKAGE, folder / "crossfeed", ignore=shutil.ignore_patterns("__pycache__", "sim"))
    return folder


def _python(folder: Path, script: str, *arguments: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_other_module_imports_without_the_simulator(bare: Path) -> None:
    paths = [path.relative_to(bare).with_suffix("") for path in sorted((bare / "crossfeed").rglob("*.py"))]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths if path.stem != "__main__"]
    assert len(names) > 200
    assert "crossfeed.sim" not in names
    _python(bare, IMPORTS, *(name for name in names if not name.startswith(ON_THE_SIMULATOR)))


def test_logs_become_a_model_and_answers_without_the_simulator(bare: Path) -> None:
    channels = (*MEASURED, *canonical().command_names)
    columns = [{"native": name, "channel": name, "unit": canonical().channel(name).unit} for name in channels]
    mapping = {"machine": "mill", "time": {"column": "time", "unit": "s"}, "columns": columns, "run": {"column": "run"}}
    (bare / "log.yaml").write_text(yaml.safe_dump(mapping))
    mill("mill", 0, sessions=4, rows=200).to_polars().write_csv(bare / "log.csv")
    _python(bare, WORK, str(bare))
