"""What the name of a protocol decides, and nothing else does: preset, score, lock, rule of ingest; and its candidates.

The candidates themselves are in `study/candidates.py`: they are configurations, and with those comes the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from crossfeed.errors import ConfigError
from crossfeed.study.record.score import Score

LockedSeed = Literal["median", "best"]
# How bundles are measured: as the authors did (all channels under schema-drop, each candidate's own masks, its own
# self-supervised loss on unmasked windows), or alike for all candidates.
Measured = Literal["paper", "alike"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one protocol.

    settings: what differs from the preset for every candidate. ingest_rule: the one its tables must have been made
    with, if it asks for one. first_leader: whose leader at the seed count of the search the confirmation begins with.
    seeds_after_refusal: how many seeds the front runners get each time the leader changed. invalid_seeds_block: whether
    a seed that trained to nothing keeps its candidate from being locked.
    """

    preset: str
    score: Score
    locked_seed: LockedSeed
    measured: Measured
    first_leader: Literal["pool", "finalists"]
    seeds_after_refusal: int
    invalid_seeds_block: bool
    ingest_rule: Literal["paper"] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


_PAPER: dict[str, Any] = {
    "preset": "paper", "locked_seed": "best", "measured": "paper", "first_leader": "pool", "seeds_after_refusal": 2,
    "invalid_seeds_block": False, "ingest_rule": "paper",
}  # fmt: skip
_OURS: dict[str, Any] = {
    "score": "robust", "locked_seed": "median", "measured": "alike", "first_leader": "finalists",
    "seeds_after_refusal": 1, "invalid_seeds_block": True,
}  # fmt: skip
# The second version that the paper announces: its search again with normalised windows whose variance is predicted in
# the global space, and with a gate that no scale moves.
_SECOND_VERSION = {
    "model.instance_norm.kind": "split",
    "training.health.spread": "relative",
    "training.health.varying_floor": 0.10,
}

PROTOCOLS: dict[str, Rules] = {
    "paper": Rules(**_PAPER, score="paper"),
    "paper-v2": Rules(**_PAPER, score="robust", settings=_SECOND_VERSION),
    "mended": Rules(**_OURS, preset="mended"),
    "crossfeed": Rules(**_OURS, preset="crossfeed"),
}


def rules_of(name: str) -> Rules:
    """The rules of a protocol by its name."""
    if name not in PROTOCOLS:
        raise ConfigError(f"There is no protocol '{name}'.", expected=f"one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def score_of(protocol: Mapping[str, Any]) -> Score:
    """Which of the two scores decides: the paper's in its own protocol, the robust one elsewhere."""
    return rules_of(protocol["name"]).score
