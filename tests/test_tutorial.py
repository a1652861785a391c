"""The tutorial runs as written, from two simulated machines to a compared plan; only the training is cut short."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("pandas", reason="the tutorial reads its logs with pandas")

DOCS = Path(__file__).parent.parent / "docs"
BRIEF = {
    '"training.steps_per_epoch": 60, "training.finetune_epochs": 10':
    '"training.steps_per_epoch": 2, "training.finetune_epochs": 1, "training.validation_windows": 16',
    "steps=20": "steps=1",
}  # fmt: skip


def test_the_tutorial_runs_as_written(tmp_path: Path) -> None:
    tools = runpy.run_path(str(DOCS / "execute.py"))
    text = "\n".join(tools["blocks"](DOCS / "tutorial.md"))
    assert all(old in text for old in BRIEF), "what is cut short stands in the tutorial"
    left = tools["execute"](DOCS / "tutorial.md", tmp_path, BRIEF)
    assert left["adapted"].machines == ("fleet_000", "fleet_001")
    assert left["result"].verdict().channels
    assert len(left["answer"].readings) == 1
    drawn = {picture.name for picture in tmp_path.glob("*.png")}
    assert drawn == {"forecast.png", "evaluation.png", "what_if.png"}
    for name in drawn:
        assert (DOCS / "pictures" / f"tutorial_{name}").is_file(), "python docs/execute.py draws it"
