"""Conditions of a declared second opening: a sentence in a small fixed grammar, evaluated on recorded source metrics.

    all rmse components better on source validation
    any of clean, masked better on every seed on source validation

`better` compares the paired arms by their mean over the common seeds, or, with `on every seed`, pair by pair.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from crossfeed.errors import ConfigError
from crossfeed.study.record.score import WEIGHTS

RMSE_COMPONENTS = ("clean", "schema_drop", "masked", "long_horizon")
_GRAMMAR = re.compile(
    r"(?P<all>all|any)\s+(?:of\s+)?(?P<names>rmse components|[a-z_]+(?:\s*,\s*[a-z_]+)*)\s+better"
    r"(?P<pairs>\s+on every seed)?\s+on source validation"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed sentence."""

    components: tuple[str, ...]
    need_all: bool
    every_seed: bool


@dataclass(frozen=True, slots=True)
class ConditionVerdict:
    """What the software found, component by component; recorded before any target row is read."""

    holds: bool
    seeds: tuple[int, ...]
    differences: dict[str, list[float]]


def parse_condition(sentence: str) -> Condition:
    """Read a sentence, or say how to write one."""
    match = _GRAMMAR.fullmatch(" ".join(sentence.lower().split()))
    if match is None:
        raise ConfigError(
            f"The condition '{sentence}' is not understood.",
            expected="'all|any [of] rmse components|<component, ...> better [on every seed] on source validation'",
            remedy="For the paper's ablation write: all rmse components better on source validation",
        )
    named = match["names"]
    components = RMSE_COMPONENTS if named == "rmse components" else tuple(part.strip() for part in named.split(","))
    unknown = [name for name in components if name not in WEIGHTS]
    if unknown:
        raise ConfigError(
            f"The condition names unknown components: {', '.join(unknown)}.", expected=f"some of {', '.join(WEIGHTS)}"
        )
    return Condition(components, match["all"] == "all", match["pairs"] is not None)


def evaluate(
    condition: Condition,
    control: Mapping[int, Mapping[str, float]],
    variant: Mapping[int, Mapping[str, float]],
) -> ConditionVerdict:
    """Compare two arms, given as seed -> components; only seeds that both arms have count."""
    seeds = tuple(sorted(control.keys() & variant.keys()))
    if not seeds:
        raise ConfigError(
            "The two arms have no common seed, so the condition cannot be evaluated.",
            expected="runs of both arms with the same seeds",
        )
    differences = {name: [variant[seed][name] - control[seed][name] for seed in seeds] for name in condition.components}
    results = [_better(values, condition.every_seed) for values in differences.values()]
    return ConditionVerdict(all(results) if condition.need_all else any(results), seeds, differences)


def _better(differences: Sequence[float], every_seed: bool) -> bool:
    return all(value < 0.0 for value in differences) if every_seed else fmean(differences) < 0.0
