"""The table of settings in docs/training.md is what the code says."""

from pathlib import Path

import yaml

from crossfeed.training.overrides import leaves
from crossfeed.training.run_config import preset


def test_documented_settings_are_the_real_ones() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:4] for line in text.splitlines() if line.startswith(("| `training.", "| `data."))]
    documented = {name.strip(" `"): (yaml.safe_load(ours), yaml.safe_load(paper)) for name, ours, paper in rows}
    ours, paper = (leaves(preset(name)) for name in ("crossfeed", "paper"))
    real = {name: (ours[name], paper[name]) for name in ours if name.startswith(("training.", "data."))}
    assert documented == real
