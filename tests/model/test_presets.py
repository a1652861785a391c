"""The presets differ exactly where the docs say so, and agree with the paper's locked configuration."""

import json
import re
from pathlib import Path
from typing import Any

from crossfeed.model.config import JepaConfig
from crossfeed.model.presets import MethodConfig, crossfeed, mended, paper

DOCUMENT = Path(__file__).parents[2] / "docs" / "method.md"


def _flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in content.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def _documented(name: str) -> dict[str, tuple[str, str]]:
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| setting | paper | {name} |"))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        setting, first, second, _ = (cell.strip() for cell in line.strip("|").split("|"))
        rows[setting.strip("`")] = (first.strip("`"), second.strip("`"))
    return rows


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_the_docs_list_every_difference_between_the_presets() -> None:
    theirs, ours, default = (_flat(preset().model_dump(mode="json")) for preset in (paper, mended, crossfeed))
    assert theirs.keys() == ours.keys()
    changed = {name: (_text(theirs[name]), _text(ours[name])) for name in theirs if theirs[name] != ours[name]}
    assert _documented("mended") == changed
    other = {
        name: (_text(theirs[name]) if name in theirs else "-", _text(value))
        for name, value in default.items()
        if theirs.get(name) != value
    }
    assert _documented("crossfeed") == other
    assert all(name.startswith(("model.", "objectives.")) for name in theirs.keys() - default.keys())


def test_the_paper_preset_is_the_locked_configuration() -> None:
    config = paper()
    assert (config.jepa.blocks.width, config.model.blocks.heads, config.model.blocks.expansion) == (256, 8, 4)
    assert (config.model.encoder.temporal_layers, config.model.predictor.layers) == (6, 4)
    assert config.model.blocks.dropout == 0.1
    assert (config.model.context, config.model.horizons) == (32, (1, 2, 4, 8, 16))
    assert (config.masks.mode, config.masks.channel_drop, config.objectives.schema_keep) == ("channel", 0.15, 0.65)
    weights = config.objectives.weights
    assert (weights.latent, weights.vicreg, weights.schema, weights.recovery) == (1.0, 0.05, 0.10, 0.05)
    assert weights.physical == 1.0
    assert (config.objectives.vicreg.variance, config.objectives.vicreg.covariance) == (25.0, 1.0)
    assert config.objectives.placement == "context_target"
    assert config.objectives.latent_layer_norm is False


def test_the_default_method_is_the_crossfeed_preset() -> None:
    assert MethodConfig() == crossfeed()


def test_the_map_of_the_paper_names_things_that_exist() -> None:
    root = DOCUMENT.parents[1]
    lines = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    mapped = [row for row in rows if len(row) == 4 and ".py`" in row[2]]
    assert len(mapped) > 30
    for row in mapped:
        files = [part for part in row[2].split("`") if part.endswith(".py")]
        inside = root / "crossfeed" / "model"
        sources = [root / name if name.startswith("crossfeed/") else inside / name for name in files]
        text = "\n".join(source.read_text(encoding="utf-8") for source in sources)
        for name in (part for part in row[3].split("`")[1::2]):
            last = name.split(".")[-1]
            assert f"def {last}(" in text or f"class {last}(" in text or f"class {last}:" in text, (row, name)


def test_a_model_whose_size_nobody_chose_is_the_base_one() -> None:
    assert JepaConfig() == JepaConfig().sized("base")


def test_each_network_can_be_read_in_one_sitting() -> None:
    """At most five files and 1,200 lines from a window to its loss."""
    sitting = DOCUMENT.read_text(encoding="utf-8").partition("## Read it in one sitting")[2].partition("\n## ")[0]
    _, *networks = re.split(r"\n(?=1\. )", sitting)
    assert len(networks) == 2
    for network in networks:
        files = re.findall(r"^\d\. `(model/\S+\.py)`", network, re.MULTILINE)
        lines = [(DOCUMENT.parents[1] / "crossfeed" / file).read_text(encoding="utf-8").count("\n") for file in files]
        assert 1 < len(files) <= 5
        assert sum(lines) <= 1200
