"""Who is searched under each protocol: the paper's twenty, or the lists of this package."""

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from crossfeed.study.candidates import from_yaml
from crossfeed.study.paper_candidates import the_twenty
from crossfeed.study.record.rules import rules_of
from crossfeed.training.run_config import RunConfig

_LISTS = Path(str(files("crossfeed.study")))
_CANDIDATES: dict[str, Callable[[RunConfig], dict[str, RunConfig]]] = {
    "paper": the_twenty,
    "mended": lambda base: from_yaml(_LISTS / "mended_candidates.yaml", base),
    "crossfeed": lambda base: from_yaml(_LISTS / "crossfeed_candidates.yaml", base),
}


def candidates_of(protocol: str, base: RunConfig) -> dict[str, RunConfig]:
    """The candidates of a protocol by their names, each departing from the study's configuration."""
    rules_of(protocol)
    return _CANDIDATES[protocol](base)
