"""A fleet without each of its machines in turn: what a machine costs that was never seen, on the very same windows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from crossfeed.study.record.outcomes import has_numbers
from crossfeed.study.record.store import Run, Store

LEAVE_ONE_OUT, ALL_MACHINES = "leave-one-out", "all_machines"  # the ready study, and its reference


@dataclass(frozen=True, slots=True)
class MachineLine:
    """One machine met as a stranger, beside the same machine when it was in training, and beside the last value.

    RMSE in z-units of all machines' train rows. `difference` pairs the two by seed; above 0 the stranger costs.
    `leakage` says how well the trained machines can be told from the representation of the model without this one.
    """

    machine: str
    windows: int
    seeds: int
    stranger: float
    stranger_spread: float
    trained: float
    difference: float
    persistence: float
    beats_persistence: int
    coverage90: float
    leakage: float


def machine_lines(store: Store) -> list[MachineLine]:
    """Every machine of the fleet that was left out in at least one finished run; empty without the ready study."""
    runs = [run for run in store.runs() if has_numbers(run)]
    trained = _by_seed(runs, ALL_MACHINES)
    lines = []
    for machine in machines_of(store):
        alone = _by_seed(runs, f"without_{machine}")
        if alone:
            lines.append(_line(machine, alone, trained))
    return lines


def machines_of(store: Store) -> list[str]:
    """The machines of a study's source tables."""
    return list(dict.fromkeys(name for source in store.protocol()["sources"] for name in source["machines"]))


def _by_seed(runs: Sequence[Run], arm: str) -> dict[int, Mapping[str, Any]]:
    return {run.seed: run.outcome["bundle"] for run in runs if run.candidate == f"{LEAVE_ONE_OUT}.{arm}"}


def _line(
    machine: str, alone: Mapping[int, Mapping[str, Any]], trained: Mapping[int, Mapping[str, Any]]
) -> MachineLine:
    met = {seed: bundle["by_machine"][machine] for seed, bundle in alone.items()}
    known = {seed: bundle["by_machine"][machine] for seed, bundle in trained.items()}
    errors = [scores["rmse"] for scores in met.values()]
    pairs = [met[seed]["rmse"] - known[seed]["rmse"] for seed in met if seed in known]
    leakages = [bundle["invariance"]["leakage"] for bundle in alone.values() if bundle["invariance"]]
    first = next(iter(met.values()))
    return MachineLine(
        machine=machine,
        windows=first["windows"],
        seeds=len(met),
        stranger=fmean(errors),
        stranger_spread=stdev(errors) if len(errors) > 1 else math.nan,
        trained=_mean([scores["rmse"] for scores in known.values()]),
        difference=_mean(pairs),
        persistence=first["persistence_rmse"],
        beats_persistence=sum(scores["rmse"] < scores["persistence_rmse"] for scores in met.values()),
        coverage90=_mean([scores["coverage90"] for scores in met.values() if scores["coverage90"] is not None]),
        leakage=_mean(leakages),
    )


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan
