"""The table of settings in docs/training.md is what the code says."""

from pathlib import Path

import yaml

from crossfeed.configuration import leaves
from crossfeed.training.run_config import preset


def test_documented_settings_are_the_real_ones() -> None:
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:5] for line in text.splitlines() if line.startswith(("| `training.", "| `data."))]
    documented = {name.strip(" `"): tuple(map(yaml.safe_load, values)) for name, *values in rows}
    presets = [leaves(preset(name)) for name in ("crossfeed", "mended", "paper")]
    real = {
        name: tuple(settings[name] for settings in presets)
        for name in presets[0]
        if name.startswith(("training.", "data."))
    }
    assert documented == real
