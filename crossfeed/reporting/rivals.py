"""What would be used instead, where it was judged on the very windows on which the model was."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from crossfeed.baselines import ARMS
from crossfeed.grid import plural
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.numbers import number

# The last value is a floor of every evaluation already.
_NO_RIVALS = (*ARMS, "persistence")


@dataclass(frozen=True)
class Rival:
    """One baseline on the target, mean over its seeds."""

    name: str
    rmse: float
    by_channel: Mapping[str, float]


def rivals(found: Artefacts) -> list[Rival]:
    """The baselines that met the windows of the target's evaluation; none where they met others."""
    known = found.on_target()
    windows = known.evaluation.windows if known else None
    scores: dict[str, list[Mapping[str, Any]]] = {}
    for result in found.comparison.get("results") or []:
        on_target = result["scores"].get("target")
        if result["status"] == "finished" and on_target and on_target["windows"] == windows:
            scores.setdefault(str(result["model"]), []).append(on_target)
    return [
        Rival(name, fmean(one["rmse"] for one in seeds), _channels(seeds))
        for name, seeds in scores.items()
        if name not in _NO_RIVALS
    ]


def _channels(seeds: list[Mapping[str, Any]]) -> dict[str, float]:
    """The channels that every seed has numbers for."""
    tables = [seed.get("rmse_by_channel") or {} for seed in seeds]
    return {
        channel: fmean(table[channel] for table in tables)
        for channel in tables[0]
        if all(table.get(channel) is not None for table in tables)
    }


def against_rivals(found: Artefacts) -> str:
    """Whether anyone who was run is ahead, in one sentence; nothing where nobody was."""
    known, others = found.on_target(), rivals(found)
    if known is None or not others:
        return ""
    own = known.evaluation.scores[known.name]["rmse"]
    ahead = sorted((one for one in others if own is not None and one.rmse <= own), key=lambda one: one.rmse)
    run = f"{plural(len(others), 'rival')} that {'was' if len(others) == 1 else 'were'} run on the same windows"
    if ahead:
        named = ", ".join(f"{one.name} ({number(one.rmse)})" for one in ahead)
        return f"Of {run} {'one is' if len(ahead) == 1 else f'{len(ahead)} are'} as good or better by RMSE: {named}."
    best = min(others, key=lambda one: one.rmse)
    return f"Of {run} none is as good by RMSE; the best is {best.name} with {number(best.rmse)}."
