"""Candidates: names and what each changes of a configuration; those of a protocol, or those of a user's YAML file."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from crossfeed.configuration import leaves, load_yaml, override
from crossfeed.errors import ConfigError
from crossfeed.study.record.score import rules_of
from crossfeed.training.run_config import RunConfig

# The twenty candidates of the paper (Appendices A and B): names, and what each changes of the preset.


Settings = dict[str, Any]


def weights(**values: float) -> Settings:
    """Weights of loss terms under their dotted names."""
    return {f"objectives.weights.{name}": value for name, value in values.items()}


_TOKEN: Settings = {"model.predictor.injection": "token", "model.predictor.conditioning": "mean"}
_MIXED: Settings = {"masks.mode": "mixed", "masks.ratio": 0.35}
# Slots read the commands by attention; the reference of the later candidates.
_ATTENTION: Settings = _MIXED | {"model.predictor.injection": "cross_attention"}
# The teacher slows down.
_SCHEDULED: Settings = _ATTENTION | {"training.ema_momentum": 0.99, "training.ema_final_momentum": 0.9999}
# Median and interquartile range without a floor, which shows the paper's pathology.
_ROBUST: Settings = _SCHEDULED | {"data.normaliser": "robust", "data.robust_floor": 0.0}

PAPER_CANDIDATES: dict[str, Settings] = {
    "plain_control": _TOKEN | _MIXED | weights(vicreg=0.0, schema=0.0, recovery=0.0),
    "per_horizon_vicreg": _TOKEN | _MIXED | weights(schema=0.0, recovery=0.0),
    "schema_consistency": _TOKEN | weights(recovery=0.0),
    "schema_and_command_recovery": _TOKEN,  # the configuration the paper locked
    "film_command": _MIXED | {"model.predictor.injection": "film", "model.predictor.conditioning": "mean"},
    "cross_attention_command": _ATTENTION,
    "event_masking": _ATTENTION | {"masks.mode": "event"},
    # No heavier than others, since their code ignored the ratio.
    "heavy_channel_masking": _ATTENTION | {"masks.mode": "channel", "masks.channel_drop": 0.15} | weights(schema=0.2),
    "light_mixed_masking": _ATTENTION | {"masks.ratio": 0.2},
    "latent_layer_norm": _ATTENTION | {"objectives.latent_layer_norm": True},
    "pooled_vicreg": _ATTENTION | {"objectives.regularise": "pooled", "objectives.latent_target": "pooled"},
    "low_latent_weight": _ATTENTION | weights(latent=0.5),
    "high_latent_weight": _ATTENTION | weights(latent=2.0),
    "scheduled_ema": _SCHEDULED,
    "robust_normalisation": _ROBUST,
    "compact_model": _SCHEDULED,
    "medium_wide_model": _SCHEDULED,
    "large_model": _SCHEDULED,
    # The complete pretrained checkpoint is taken over, untrained head included.
    "loaded_head_control": _SCHEDULED | {"training.initialisation": "complete_checkpoint"},
    "full_candidate": _ROBUST | weights(schema=0.2, recovery=0.1),  # everything at once
}
# Factors for width, heads, encoder layers and predictor layers of the candidates that have another size.
SIZES = {
    "compact_model": (0.5, 0.5, 4 / 6, 0.5),
    "medium_wide_model": (1.5, 1.0, 1.0, 1.0),
    "large_model": (2.0, 1.0, 8 / 6, 1.5),
    "full_candidate": (1.5, 1.0, 1.0, 1.0),
}


def paper_candidates(base: RunConfig) -> dict[str, RunConfig]:
    """All of them, as variants of a configuration that has the paper's network."""
    sizes = {name: _resized(base, *factors) for name, factors in SIZES.items()}
    return {
        name: override(base, settings | sizes.get(name, {}), "A candidate")
        for name, settings in PAPER_CANDIDATES.items()
    }


def _resized(base: RunConfig, width: float, heads: float, layers: float, predictor: float) -> Settings:
    """Scale the preset's size; from `base` this gives exactly the paper's compact, medium and large models."""
    blocks, encoder, own = base.jepa.blocks, base.jepa.encoder, base.jepa.predictor
    return {
        "model.blocks.width": round(blocks.width * width),
        "model.blocks.heads": max(1, round(blocks.heads * heads)),
        "model.encoder.temporal_layers": max(1, round(encoder.temporal_layers * layers)),
        "model.predictor.layers": max(1, round(own.layers * predictor)),
    }


_LISTS = Path(str(files("crossfeed.study")))


def candidates_of(protocol: str, base: RunConfig) -> dict[str, RunConfig]:
    """Who is searched under a protocol: the paper's twenty, or the list of this package."""
    name = rules_of(protocol).preset
    return paper_candidates(base) if name == "paper" else from_yaml(_LISTS / f"{name}_candidates.yaml", base)


def from_yaml(path: Path, base: RunConfig) -> dict[str, RunConfig]:
    """A user's candidates: a mapping of names to dotted (or nested) settings that differ from the preset."""
    content = load_yaml(path, "The candidate file", loader=_NoDuplicates)
    if not isinstance(content, dict) or not all(isinstance(value, dict | None) for value in content.values()):
        raise ConfigError(
            f"The candidate file {path} is no mapping of names to settings.",
            expected="for example 'slow_teacher: {training.ema_momentum: 0.9995}'",
        )
    return {
        str(name): override(base, leaves(settings or {}), f"Candidate '{name}' in {path}")
        for name, settings in content.items()
    }


def candidates_named(every: Mapping[str, RunConfig], only: Sequence[str] | None = None) -> dict[str, RunConfig]:
    """Some of these candidates, by name; all of them where nothing is named."""
    unknown = sorted(set(only or ()) - every.keys())
    if unknown:
        raise ConfigError(f"There is no candidate {', '.join(unknown)}.", expected=f"some of {', '.join(every)}")
    return {name: config for name, config in every.items() if not only or name in only}


class _NoDuplicates(yaml.SafeLoader):
    """YAML that refuses a name given twice instead of keeping the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=deep) for key, _ in node.value]
        doubled = sorted({str(name) for name in names if names.count(name) > 1})
        if doubled:
            raise yaml.YAMLError(f"these names stand twice: {', '.join(doubled)}")
        return super().construct_mapping(node, deep=deep)
