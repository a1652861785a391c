import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from crossfeed.ingest.table import Group, Table
from crossfeed.model.presets import crossfeed
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _machine(absent: int) -> Table:
    schema, rows = canonical(), 60
    random = np.random.default_rng(absent)
    sensors = random.normal(size=(6 * rows, len(schema.sensors)))
    sensors[:, len(schema.sensors) - absent :] = np.nan
    groups = tuple(Group("m", f"s{i}", "r", "p", i * rows, (i + 1) * rows) for i in range(6))
    commands = random.normal(size=(6 * rows, len(schema.commands)))
    return Table(schema, groups, np.tile(np.arange(rows) + 1.0, 6), sensors, commands, 1.0, {})


def test_the_python_example_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = _machine(absent=0)
    normaliser = Normaliser.fit(split_table(source).train_rows(source))
    WorldModel(crossfeed("tiny").model, source.schema, normaliser).save(tmp_path / "out/run/model.safetensors", {})
    _machine(absent=7).write(tmp_path / "out/target.parquet")
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(example.splitlines()) <= 20
    script = tmp_path / "example.py"
    script.write_text(example)
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(script))
    assert {"x_current", "spindle_speed"} & set(found["session"].columns)
    assert np.isfinite(found["forecast"].to_polars().select("mean", "standard_deviation").to_numpy()).all()


def test_the_commands_of_the_readme_exist() -> None:
    from crossfeed.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups if group.name}
    used = set(re.findall(r"^crossfeed (\w+)", README, re.MULTILINE))
    assert used
    assert used <= known


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert (ROOT / Path(page).parent / target).exists(), f"{page} points to {target}"
