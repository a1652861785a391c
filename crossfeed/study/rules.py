"""What the name of a protocol decides, and nothing else does: candidates, score, locked seed, rule of ingest."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from crossfeed.errors import ConfigError
from crossfeed.study.candidates import from_yaml
from crossfeed.study.paper_candidates import the_twenty
from crossfeed.study.score import Score
from crossfeed.training.run_config import RunConfig

LockedSeed = Literal["median", "best"]
_LISTS = Path(str(files("crossfeed.study")))


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one protocol; `ingest_rule` is the one its tables must have been made with, if it asks for one."""

    candidates: Callable[[RunConfig], dict[str, RunConfig]]
    score: Score
    locked_seed: LockedSeed
    ingest_rule: str | None = None


PROTOCOLS: dict[str, Rules] = {
    "paper": Rules(the_twenty, "paper", "best", "paper"),
    "mended": Rules(lambda base: from_yaml(_LISTS / "mended_candidates.yaml", base), "robust", "median"),
    "crossfeed": Rules(lambda base: from_yaml(_LISTS / "crossfeed_candidates.yaml", base), "robust", "median"),
}


def rules_of(name: str) -> Rules:
    """The rules of a protocol by its name."""
    if name not in PROTOCOLS:
        raise ConfigError(f"There is no protocol '{name}'.", expected=f"one of {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
