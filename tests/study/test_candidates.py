import csv
from itertools import combinations
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.model.config import SIZES
from crossfeed.study.candidates import PAPER_CANDIDATES, choose, from_yaml, named, plain_control
from crossfeed.training.overrides import differences
from crossfeed.training.run_config import RunConfig, preset


def published() -> dict[str, dict[str, str]]:
    """The paper's table "Complete architecture-search configuration", row by row."""
    with (Path(__file__).parent / "paper_matrix.csv").open() as handle:
        return {line.pop("candidate"): line for line in csv.DictReader(handle)}


def row(config: RunConfig) -> dict[str, str]:
    weights, masks = config.objectives.weights, config.masks
    values = {
        "mask": masks.mode,
        "amount": masks.channel_drop if masks.mode == "channel" else masks.ratio,
        "injection": config.model.predictor.injection.partition("_")[0],
        "vicreg": weights.vicreg,
        "latent": weights.latent,
        "schema": weights.schema,
        "recovery": weights.recovery,
        "ema": "fixed" if config.training.ema_final_momentum is None else "sched",
        "size": f"{config.model.blocks.width}/{config.model.encoder.temporal_layers}",
        "normaliser": config.data.normaliser,
        "layer_norm": config.objectives.latent_layer_norm,
        "head": "loaded" if config.training.initialisation == "complete_checkpoint" else "fresh",
    }
    return {name: str(value) for name, value in values.items()}


def test_the_twenty_are_those_of_the_papers_matrix() -> None:
    found = {name: row(config) for name, config in named(PAPER_CANDIDATES, preset("paper")).items()}
    assert found == published()


def test_scaling_from_base_gives_the_papers_sizes_exactly() -> None:
    configs = named(PAPER_CANDIDATES, preset("paper"))
    for name, size in (("compact_model", "compact"), ("medium_wide_model", "medium"), ("large_model", "large")):
        model = configs[name].model
        found = (model.blocks.width, model.blocks.heads, model.encoder.temporal_layers, model.predictor.layers)
        assert found == SIZES[size]


@pytest.mark.parametrize("preset_name", ["paper", "mended"])
@pytest.mark.parametrize("size", ["tiny", "base"])
def test_every_pair_of_candidates_differs(preset_name: str, size: str) -> None:
    configs = named(PAPER_CANDIDATES, preset(preset_name, size))  # type: ignore[arg-type]
    assert len(configs) == 20
    for (first, one), (second, two) in combinations(configs.items(), 2):
        assert differences(one, two), f"{first} and {second} are the same run"


def test_heavy_masking_and_robust_normalisation_mean_what_they_say_only_in_our_preset() -> None:
    paper, ours = named(PAPER_CANDIDATES, preset("paper")), named(PAPER_CANDIDATES, preset("mended"))
    assert paper["heavy_channel_masking"].masks.channel_drop == 0.15
    assert ours["heavy_channel_masking"].masks.channel_drop == 0.5
    assert paper["robust_normalisation"].data.robust_floor == 0.0
    assert ours["robust_normalisation"].data.robust_floor == 0.05


def test_the_twenty_are_variants_of_the_papers_network_alone() -> None:
    assert len(choose(preset("mended"))) == 20
    with pytest.raises(ConfigError, match=r"network 'sensors'[\s\S]*--protocol mended[\s\S]*--candidates"):
        choose(preset("crossfeed"))


def test_two_candidates_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="named 'plain_control'"):
        named([plain_control, plain_control], preset("paper"))


def test_user_candidates_come_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("slow: {training.ema_momentum: 0.9995}\nnested: {training: {patience: 3}}\nas_it_is:\n")
    configs = from_yaml(path, preset("crossfeed", "tiny"))
    assert configs["slow"].training.ema_momentum == 0.9995
    assert configs["nested"].training.patience == 3
    assert configs["as_it_is"] == preset("crossfeed", "tiny")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("slow: {training.ema_momentun: 0.9}", "training.ema_momentum"),
        ("slow: {}\nslow: {}", "stand twice: slow"),
        ("- a list", "no mapping"),
        ("slow: [", "cannot be read"),
    ],
)
def test_a_broken_candidate_file_says_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        from_yaml(path, preset("crossfeed", "tiny"))
    assert complaint in str(caught.value)
