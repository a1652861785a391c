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

Settings = dict[str, Any]
LISTS = Path(str(files("crossfeed.study")))


def _paper_settings() -> dict[str, Settings]:
    """The twenty candidates of the paper: names, and what each changes of the preset."""
    content = yaml.safe_load((LISTS / "paper_candidates.yaml").read_text(encoding="utf-8"))
    return {name: leaves(settings) for name, settings in content.items() if not name.startswith(".")}


PAPER_CANDIDATES = _paper_settings()
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


def candidates_of(protocol: str, base: RunConfig) -> dict[str, RunConfig]:
    """Who is searched under a protocol: the paper's twenty, or the list of this package."""
    name = rules_of(protocol).preset
    return paper_candidates(base) if name == "paper" else from_yaml(LISTS / f"{name}_candidates.yaml", base)


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
