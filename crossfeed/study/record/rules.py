"""What the name of a protocol decides, and nothing else does: score, locked seed, rule of ingest; and its candidates.

The candidates themselves are in `study/candidates.py`: they are configurations, and with those comes the network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from crossfeed.errors import ConfigError
from crossfeed.study.record.score import Score

LockedSeed = Literal["median", "best"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one protocol; `ingest_rule` is the one its tables must have been made with, if it asks for one."""

    score: Score
    locked_seed: LockedSeed
    ingest_rule: str | None = None


PROTOCOLS: dict[str, Rules] = {
    "paper": Rules("paper", "best", "paper"),
    "mended": Rules("robust", "median"),
    "crossfeed": Rules("robust", "median"),
}


def rules_of(name: str) -> Rules:
    """The rules of a protocol by its name."""
    if name not in PROTOCOLS:
        raise ConfigError(f"There is no protocol '{name}'.", expected=f"one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def score_of(protocol: Mapping[str, Any]) -> Score:
    """Which of the two scores decides: the paper's in its own protocol, the robust one in ours."""
    return rules_of(protocol["name"]).score
