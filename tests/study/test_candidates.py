import csv
from itertools import combinations
from pathlib import Path

import pytest

from crossfeed.configuration import differences, override
from crossfeed.errors import ConfigError
from crossfeed.model.config import JepaConfig
from crossfeed.study.candidates import candidates_named, candidates_of, from_yaml, paper_candidates
from crossfeed.study.record.score import rules_of
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
    found = {name: row(config) for name, config in paper_candidates(preset("paper")).items()}
    assert found == published()


def test_scaling_from_base_gives_the_papers_sizes_exactly() -> None:
    configs = paper_candidates(preset("paper"))
    for name, size in (("compact_model", "compact"), ("medium_wide_model", "medium"), ("large_model", "large")):
        model = configs[name].model
        found = (model.blocks.width, model.blocks.heads, model.encoder.temporal_layers, model.predictor.layers)
        assert found == JepaConfig.sizes[size]


@pytest.mark.parametrize("name", ["paper", "mended", "crossfeed"])
@pytest.mark.parametrize("size", ["tiny", "base"])
def test_every_pair_of_candidates_differs(name: str, size: str) -> None:
    configs = candidates_of(name, preset(name, size))  # type: ignore[arg-type]
    assert len(configs) >= 20
    for (first, one), (second, two) in combinations(configs.items(), 2):
        assert differences(one, two), f"{first} and {second} are the same run"


def test_the_default_was_not_among_its_own_candidates() -> None:
    base = preset("crossfeed")
    found = candidates_of("crossfeed", base)
    assert found["preset"] == base
    changed = {name for config in found.values() for name in differences(base, config)}
    assert {"machines.gain", "model.movers", "objectives.weights.squared", "training.average_decay"} <= changed


def test_instance_normalisation_was_no_factor_of_the_search() -> None:
    base = preset("mended")
    found = candidates_of("mended", base)
    assert found["preset"] == base
    changed = {name for config in found.values() for name in differences(base, config)}
    assert {"model.instance_norm.kind", "model.head.likelihood", "model.predictor.conditioning"} <= changed


def test_one_setting_silently_turned_a_study_of_the_paper_into_another() -> None:
    base = preset("paper")
    told = override(base, {"training.selection": "scale_free"})
    for one, two in zip(candidates_of("paper", base).values(), candidates_of("paper", told).values()):
        assert set(differences(one, two)) == {"training.selection"}
    twenty = candidates_of("paper", told)
    assert twenty["heavy_channel_masking"].masks.channel_drop == 0.15
    assert twenty["robust_normalisation"].data.robust_floor == 0.0


def test_an_unknown_protocol_or_candidate_is_named() -> None:
    with pytest.raises(ConfigError, match="no protocol 'beauty'"):
        rules_of("beauty")
    with pytest.raises(ConfigError, match="no candidate beauty"):
        candidates_named(candidates_of("paper", preset("paper")), ["beauty"])


def test_the_twenty_are_variants_of_the_papers_network_alone() -> None:
    assert len(candidates_of("paper", preset("mended"))) == 20
    with pytest.raises(ConfigError, match=r"network 'sensors'"):
        candidates_of("paper", preset("crossfeed"))


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
        ("[" * 5000, "cannot be read"),  # ended in a RecursionError
    ],
)
def test_a_broken_candidate_file_says_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        from_yaml(path, preset("crossfeed", "tiny"))
    assert complaint in str(caught.value)
