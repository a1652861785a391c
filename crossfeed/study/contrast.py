"""Arms against their reference, seed by seed: differences, intervals, exact p values and what they can reach.

The pairs are seeds: they carry what training draws at random on one pinned split, and nothing about other splits or
other machines. Of a fleet without each of its machines in turn: what a machine costs that was never seen, on the very
same windows.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any

import numpy as np

from crossfeed.errors import ConfigError
from crossfeed.evaluation.statistics import bootstrap, paired_tests
from crossfeed.study.record.declaration import declarations
from crossfeed.study.record.score import WEIGHTS, has_numbers
from crossfeed.study.record.store import Run, Store

LEAVE_ONE_OUT, ALL_MACHINES = "leave-one-out", "all_machines"  # the ready study, and its reference


@dataclass(frozen=True, slots=True)
class MachineLine:
    """One held-out machine, beside the same machine when it was in training, and beside the last value.

    RMSE in z-units of all machines' train rows, over the sensors that another machine shows too. `difference` pairs the
    two by seed; above 0 it costs not to have seen the machine. `leakage` says how well the trained machines can be told
    from the representation of the model without this one, `leakage_of_inputs` from level and spread of what it saw.
    """

    machine: str
    windows: int
    sensors: int
    seeds: int
    held_out: float
    held_out_spread: float
    trained: float
    difference: float
    persistence: float
    beats_persistence: int
    coverage90: float
    leakage: float
    leakage_of_inputs: float


def machine_lines(store: Store) -> list[MachineLine]:
    """Every machine of the fleet that was left out in at least one finished run; empty without the ready study."""
    runs = [run for run in store.runs() if has_numbers(run)]

    def of_arm(arm: str) -> dict[int, dict[str, Any]]:
        return {run.seed: run.outcome["bundle"] for run in runs if run.candidate == f"{LEAVE_ONE_OUT}.{arm}"}

    trained = of_arm(ALL_MACHINES)
    arms = {machine: of_arm(f"without_{machine}") for machine in machines_of(store)}
    return [_machine_line(machine, alone, trained) for machine, alone in arms.items() if alone]


def machines_of(store: Store) -> list[str]:
    """The machines of a study's source tables."""
    return list(dict.fromkeys(name for source in store.protocol()["sources"] for name in source["machines"]))


def _machine_line(
    machine: str, alone: Mapping[int, Mapping[str, Any]], trained: Mapping[int, Mapping[str, Any]]
) -> MachineLine:
    met = {seed: bundle["by_machine"][machine] for seed, bundle in alone.items()}
    # On the sensors that other machines show as well: for the rest a model that never saw this one has no scale.
    judged = list(next(iter(met.values()))["by_channel"])
    known = {seed: _rmse_over(bundle["by_machine"][machine]["by_channel"], judged) for seed, bundle in trained.items()}
    errors = [scores["rmse"] for scores in met.values()]
    pairs = [met[seed]["rmse"] - known[seed] for seed in met if seed in known]
    probes = [bundle["invariance"] for bundle in alone.values() if bundle["invariance"]]
    first = next(iter(met.values()))
    return MachineLine(
        machine=machine,
        windows=first["windows"],
        seeds=len(met),
        held_out=_mean_of(errors),
        held_out_spread=stdev(errors) if len(errors) > 1 else math.nan,
        sensors=len(judged),
        trained=_mean_of(list(known.values())),
        difference=_mean_of(pairs),
        persistence=first["persistence_rmse"],
        beats_persistence=sum(scores["rmse"] < scores["persistence_rmse"] for scores in met.values()),
        coverage90=_mean_of([scores["coverage90"] for scores in met.values() if scores["coverage90"] is not None]),
        leakage=_mean_of([probe["leakage"] for probe in probes]),
        leakage_of_inputs=_mean_of(
            [(probe["accuracy_from_inputs"] - probe["chance"]) / (1.0 - probe["chance"]) for probe in probes]
        ),
    )


def _rmse_over(rows: Mapping[str, Mapping[str, Any]], channels: Sequence[str]) -> float:
    """RMSE over the entries of some channels."""
    count = sum(rows[name]["count"] for name in channels)
    return math.sqrt(sum(rows[name]["count"] * rows[name]["rmse"] ** 2 for name in channels) / count)


def _mean_of(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else math.nan


# The components of the score (self-supervised ones under the suite's masks, so that arms can be paired), how much
# shuffled commands cost, and the effective rank of the latents at the gate.
METRICS = (*WEIGHTS, "ssl_scale_free", "command_ratio", "rank")
HIGHER_IS_BETTER = ("command_ratio", "rank")


@dataclass(frozen=True, slots=True)
class ContrastLine:
    """One arm and one metric; a negative difference favours the arm where lower is better."""

    contrast: str
    metric: str
    arm: str
    mean: float
    deviation: float
    difference: float
    low: float | None
    high: float | None
    wins: int
    seeds: int
    p: float
    p_holm: float
    floor: float
    verdict: str
    collapsed_seeds: int
    command_ratio: float


def contrasts(store: Store) -> list[ContrastLine]:
    """Every ready study and every declared ablation of the folder; Holm's correction within a contrast and metric."""
    lines, recorded = [], store.runs()
    for name, candidates in comparisons(store):
        runs = {arm: _usable(recorded, candidate) for arm, candidate in candidates.items()}
        _check_anchor(name, runs)
        for metric in METRICS:
            lines += _lines(name, metric, runs) if _measured(runs, metric) else []
    if not lines:
        raise ConfigError(
            "This study has no arms to contrast.",
            remedy="Begin a ready study (crossfeed study ready) or declare an ablation (crossfeed study declare).",
        )
    return lines


def comparisons(store: Store) -> Iterator[tuple[str, dict[str, str]]]:
    """Names of contrasts with the candidate of each arm, the reference first."""
    ready: dict[str, dict[str, str]] = {}
    for entry in store.entries("ready"):
        kind = entry.content["kind"]
        if kind != LEAVE_ONE_OUT:  # its arms are judged machine by machine: see `leave_one_out`
            ready.setdefault(kind, {}).update({arm: f"{kind}.{arm}" for arm in entry.content["arms"]})
    yield from ready.items()
    for declaration in declarations(store):
        yield declaration.name, {arm: declaration.candidate(arm) for arm in declaration.arms}


def _usable(runs: Sequence[Run], candidate: str) -> dict[int, Run]:
    """Runs with numbers, by seed."""
    return {run.seed: run for run in runs if run.candidate == candidate and has_numbers(run)}


def _measured(runs: Mapping[str, Mapping[int, Run]], metric: str) -> bool:
    """Whether these networks have the metric at all; before the first run nobody knows."""
    finished = [run for by_seed in runs.values() for run in by_seed.values()]
    return not finished or any(not math.isnan(_value(run, metric)) for run in finished)


def _check_anchor(name: str, runs: Mapping[str, Mapping[int, Run]]) -> None:
    """All arms must have been measured on the same windows in the same space."""
    anchors = {
        (run.outcome["bundle"]["anchor"]["windows"], run.outcome["bundle"]["anchor"]["space"])
        for by_seed in runs.values()
        for run in by_seed.values()
    }
    if len(anchors) > 1:
        raise ConfigError(
            f"The arms of '{name}' were measured on different windows, so their numbers cannot be paired.",
            expected="arms that share split, context and horizons",
        )


def _lines(name: str, metric: str, runs: Mapping[str, Mapping[int, Run]]) -> list[ContrastLine]:
    seeds = sorted({seed for by_seed in runs.values() for seed in by_seed})
    values = {arm: np.array([_value(by_seed.get(seed), metric) for seed in seeds]) for arm, by_seed in runs.items()}
    reference = next(iter(runs))
    lines = [_line(name, metric, reference, values[reference], runs[reference])]
    if not seeds:
        return lines
    for found in paired_tests(values, reference):
        arm = found.second
        pairs = values[arm] - values[reference]
        pairs = pairs[np.isfinite(pairs)]
        interval = bootstrap(np.stack([pairs, np.ones_like(pairs)], 1), _mean) if len(pairs) else None
        tested = {
            "difference": _mean_of(pairs), "low": interval and interval.low, "high": interval and interval.high,
            "wins": int((pairs > 0.0 if metric in HIGHER_IS_BETTER else pairs < 0.0).sum()), "seeds": found.units,
            "p": found.p_sign_flip, "p_holm": found.p_holm, "floor": found.floor, "verdict": found.verdict,
        }  # fmt: skip
        lines.append(_line(name, metric, arm, values[arm], runs[arm], **tested))
    return lines


def _line(
    name: str, metric: str, arm: str, values: np.ndarray, by_seed: Mapping[int, Run], **tested: Any
) -> ContrastLine:
    known, outcomes = values[np.isfinite(values)], [run.outcome for run in by_seed.values()]
    untested: dict[str, Any] = {
        "difference": math.nan, "low": None, "high": None, "wins": 0, "seeds": len(known), "p": math.nan,
        "p_holm": math.nan, "floor": math.nan, "verdict": "the reference",
    }  # fmt: skip
    return ContrastLine(
        contrast=name,
        metric=metric,
        arm=arm,
        mean=_mean_of(known),
        deviation=float(known.std(ddof=1)) if len(known) > 1 else math.nan,
        collapsed_seeds=sum(bool(one["invalid"] or one["bundle"]["collapsed"]) for one in outcomes),
        command_ratio=_mean_of([one["bundle"]["command_ratio"] for one in outcomes]),
        **(untested | tested),
    )


def _value(run: Run | None, metric: str) -> float:
    if run is None:
        return math.nan
    bundle = run.outcome["bundle"]
    if metric == "rank":
        health = bundle.get("health")
        value = health[f"{run.config['training']['health']['latents'][0]}_rank"] if health else None
    else:
        value = bundle["components"].get(metric) if metric in WEIGHTS else bundle[metric]
    return math.nan if value is None else float(value)


def _mean(sums_DS: np.ndarray) -> np.ndarray:
    return np.asarray(sums_DS[:, 0] / sums_DS[:, 1])
