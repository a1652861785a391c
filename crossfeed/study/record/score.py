"""Outcomes of runs, the two scores that rank them, and the rules of each protocol, one of which says what decides.

The composite score of the paper and its robust twin are both computed from the per-run components alone.

Lower is better. Each component is standardised within the pool of valid runs, weighted and summed; a run whose latents
collapsed after fine-tuning or whose forecasts hardly use the commands pays a penalty; a candidate's score is the mean
over its valid seeds, of which it needs two to be ranked. The paper standardises by mean and standard deviation, so a
single value in another unit flattens everybody else; the robust twin uses median and MAD, and a scale-free
self-supervised component. A network without latents has no such component: in a pool of such runs it is left out, and
the others share its weight.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import numpy as np

from crossfeed.errors import ConfigError
from crossfeed.files import file_hash
from crossfeed.study.record.store import Run, Store
from crossfeed.training.config import WEAK_COMMAND_USE

Score = Literal["paper", "robust"]

# Weights of the paper (Section 5.2).
WEIGHTS: dict[str, float] = {
    "clean": 0.30,
    "schema_drop": 0.25,
    "masked": 0.15,
    "long_horizon": 0.10,
    "calibration": 0.10,
    "ssl": 0.10,
}
COLLAPSE_PENALTY = 3.0
WEAK_COMMAND_PENALTY = 1.0
OUTCOME = "outcome.json"
# How the reason begins when a run is invalid because its latents collapsed, although it forecasts.
COLLAPSED = "latents collapsed"
FEWEST_SEEDS = 2  # a single valid seed, as of the paper's large model, is no evidence


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What one finished run brings to the ranking."""

    candidate: str
    seed: int
    components: Mapping[str, float]
    ssl_scale_free: float | None
    command_ratio: float
    collapsed: bool = False
    invalid: str = ""

    @property
    def weak_command(self) -> bool:
        return self.command_ratio < WEAK_COMMAND_USE


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """One line of the ranking."""

    candidate: str
    paper: float
    robust: float
    seeds: int
    invalid_seeds: int
    collapsed_seeds: int
    weak_seeds: int
    components: Mapping[str, float]
    dropped_after: int | None = None


def weights_of(runs: Iterable[RunOutcome]) -> dict[str, float]:
    """The paper's weights; without the self-supervised one, and again with the sum 1, where no run has latents."""
    pool = list(runs)
    if not pool or any("ssl" in run.components for run in pool):
        return WEIGHTS
    left = {name: weight for name, weight in WEIGHTS.items() if name != "ssl"}
    return {name: weight / sum(left.values()) for name, weight in left.items()}


def run_scores(outcomes: Sequence[RunOutcome], by: Score) -> dict[tuple[str, int], float]:
    """The score of every valid run of the pool, by candidate and seed."""
    valid = [run for run in outcomes if not run.invalid]
    weights = weights_of(valid)
    _check_finite(valid, weights)
    totals = np.array([COLLAPSE_PENALTY * run.collapsed + WEAK_COMMAND_PENALTY * run.weak_command for run in valid])
    for name, weight in weights.items() if valid else ():
        totals = totals + weight * _standardised([_component(run, name, by) for run in valid], by)
    return {(run.candidate, run.seed): float(total) for run, total in zip(valid, totals, strict=True)}


def rank(outcomes: Sequence[RunOutcome], by: Score = "robust") -> list[CandidateScore]:
    """Score every candidate in the pool and sort by one of the two scores; those with too few valid runs come last."""
    paper, robust = run_scores(outcomes, "paper"), run_scores(outcomes, "robust")
    weights = weights_of(run for run in outcomes if not run.invalid)
    lines = []
    for name in dict.fromkeys(run.candidate for run in outcomes):
        own = [run for run in outcomes if run.candidate == name]
        valid = [run for run in own if not run.invalid]
        lines.append(
            CandidateScore(
                candidate=name,
                paper=_mean(paper[run.candidate, run.seed] for run in valid),
                robust=_mean(robust[run.candidate, run.seed] for run in valid),
                seeds=len(valid),
                invalid_seeds=len(own) - len(valid),
                collapsed_seeds=sum(run.collapsed for run in valid),
                weak_seeds=sum(run.weak_command for run in valid),
                components={part: _mean(run.components[part] for run in valid) for part in weights},
            )
        )
    return _by(lines, by)


def ranked(lines: Sequence[CandidateScore]) -> list[CandidateScore]:
    """The lines of candidates with two valid seeds; where nobody has two, of those with one."""
    fewest = _fewest(lines)
    return [line for line in lines if line.seeds >= fewest]


def leaders_disagree(lines: Sequence[CandidateScore]) -> bool:
    """Whether the two scores would crown different candidates of one ranking."""
    leaders = {_by(lines, score)[0].candidate for score in get_args(Score) if lines}
    return len(leaders) > 1


def _by(lines: Sequence[CandidateScore], score: Score) -> list[CandidateScore]:
    fewest = _fewest(lines)
    return sorted(lines, key=lambda line: (line.seeds < fewest, getattr(line, score), line.candidate))


def _fewest(lines: Sequence[CandidateScore]) -> int:
    return max(1, min(FEWEST_SEEDS, max((line.seeds for line in lines), default=1)))


def _mean(values: Iterable[float]) -> float:
    """The mean, or infinity where there is nothing, so that a candidate without a valid run comes last."""
    found = list(values)
    return fmean(found) if found else math.inf


def _standardised(values: Sequence[float], by: Score) -> np.ndarray:
    """By mean and standard deviation, or by median and MAD; where more than half the values are equal the mean
    deviation stands in, so others still count. What varies by rounding errors only contributes nothing."""
    each = np.array(values, dtype=float)
    centre, spread = each.mean(), each.std()
    if by == "robust":
        away = np.abs(each - np.median(each))
        centre, spread = np.median(each), 1.4826 * np.median(away) or 1.2533 * away.mean()
    return (each - centre) / spread if spread > 1e-9 * np.abs(each).max() else np.zeros_like(each)


def _component(run: RunOutcome, name: str, by: Score) -> float:
    if (name, by) != ("ssl", "robust"):
        return run.components[name]
    assert run.ssl_scale_free is not None
    return run.ssl_scale_free


def _check_finite(runs: Sequence[RunOutcome], weights: Mapping[str, float]) -> None:
    for run in runs:
        numbers = {name: run.components.get(name, math.nan) for name in weights}
        if "ssl" in weights:
            numbers["ssl_scale_free"] = math.nan if run.ssl_scale_free is None else run.ssl_scale_free
        bad = [name for name, value in numbers.items() if not math.isfinite(value)]
        if bad:
            raise ConfigError(
                f"Run '{run.candidate}' with seed {run.seed} has no finite value for {', '.join(bad)}.",
                expected="a run that is complete, or marked invalid with a reason",
                remedy="Run the search again for it, or inspect its bundle.",
            )


def outcomes(store: Store, stages: Iterable[str] | None = None) -> list[RunOutcome]:
    """What the finished runs bring to the ranking."""
    wanted = None if stages is None else set(stages)
    return [
        outcome_of(run)
        for run in store.runs()
        if run.status in ("finished", "invalid") and (wanted is None or run.stage in wanted)
    ]


def has_numbers(run: Run) -> bool:
    """Whether a run counts where arms are compared: it finished, or nothing but the latent gate speaks against it.

    Leaving a flagged run out would flatter the arm that collapses, and the paper scored all of its flagged runs.
    """
    return "bundle" in run.outcome and (run.status == "finished" or bool(flag_of(run)))


def flag_of(run: Run) -> str:
    """Why the latent gate flagged a run, at the kept pretraining epoch or after fine-tuning; empty if it did not."""
    invalid = str(run.outcome.get("invalid") or "")
    if invalid:
        return invalid if invalid.startswith(COLLAPSED) else ""
    return "; ".join(run.outcome.get("bundle", {}).get("collapse_reasons") or [])


def flags_of(runs: Iterable[Run]) -> dict[str, str]:
    """Runs against which the latent gate speaks, with its reasons."""
    return {run.name: flag for run in runs if (flag := flag_of(run))}


def outcome_of(run: Run) -> RunOutcome:
    """A finished run as the score sees it."""
    if run.status == "invalid":
        return RunOutcome(run.candidate, run.seed, {}, 0.0, 0.0, invalid=run.outcome["invalid"])
    bundle = run.outcome["bundle"]
    return RunOutcome(
        candidate=run.candidate,
        seed=run.seed,
        components=bundle["components"],
        ssl_scale_free=bundle["ssl_scale_free"],
        command_ratio=bundle["command_ratio"],
        collapsed=bool(bundle["collapsed"]),
    )


def dropped(store: Store) -> dict[str, int]:
    """Candidates that were dropped, with the number of seeds they had then; empty without halving."""
    return {name: rung.content["seeds"] for rung in store.entries("rung") for name in rung.content["dropped"]}


def pool(store: Store, stages: Sequence[str] = ("search", "confirm")) -> list[RunOutcome]:
    """The outcomes that may be compared with each other: those of candidates that were never dropped."""
    gone = dropped(store)
    return [run for run in outcomes(store, stages) if run.candidate not in gone]


def ranking(store: Store, by: Score, stages: Sequence[str] = ("search", "confirm")) -> list[CandidateScore]:
    """Those that stayed, by their full seeds; below them the dropped ones, each as it stood in the rung that ended it.

    The scores of different rungs are standardised in different pools and stand beside each other for information only.
    """
    lines = rank(pool(store, stages), by)
    rungs = [entry.content for entry in store.entries("rung")]
    every = outcomes(store, ["search"]) if rungs else []
    for rung in reversed(rungs):
        then = [run for run in every if run.candidate in rung["among"] and run.seed < rung["seeds"]]
        lines += [
            replace(line, dropped_after=rung["seeds"]) for line in rank(then, by) if line.candidate in rung["dropped"]
        ]
    return lines


def artefacts(run_folder: Path) -> dict[str, str]:
    """SHA-256 of every file a run leaves behind, apart from its log and its lock."""
    files = (path for path in sorted(run_folder.iterdir()) if path.is_file() and not path.name.startswith("."))
    return {path.name: file_hash(path) for path in files if path.name not in (OUTCOME, "log.txt")}


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
_SECOND_VERSION = {"model.instance_norm.kind": "split", "training.health.spread": "relative"}

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
