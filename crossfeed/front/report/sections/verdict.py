"""The box at the top: may the model be trusted, is anyone simpler as good, and what would complete the report?"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any

from crossfeed.evaluation.baselines import ARMS
from crossfeed.evaluation.result_view import sentences
from crossfeed.front.report.artefacts import Artefacts
from crossfeed.front.report.page import VerdictBox
from crossfeed.front.report.study_facts import StudyFacts
from crossfeed.show.tables import number, plural

QUESTION = "May the model be trusted on the other machine, and on which channels?"
# The last value is a floor of every evaluation already.
_NO_RIVALS = (*ARMS, "persistence")


def verdict(found: Artefacts) -> VerdictBox:
    """The answer that what was recorded allows."""
    steps = next_steps(found)
    known = found.on_target()
    if known is None:
        return _not_known_yet(found, steps)
    evaluation, name = known.evaluation, known.name
    said = evaluation.verdict(name, {rival.name: rival.by_channel for rival in rivals(found)})
    headline, *listening = sentences(evaluation, name)
    lines = (headline, against_rivals(found), *listening, _adapted(found), _trustworthy(found))
    told = tuple(line for line in lines if line)
    return VerdictBox(QUESTION, said.answer, said.light, told, said.channels, tuple(steps))


def _adapted(found: Artefacts) -> str:
    shots = found.adaptation.few_shot
    best = shots.fractions[-1] if shots is not None and shots.fractions else None
    if best is None or not best.fraction or best.rmse_ratio.estimate is None:
        return ""
    if not best.updates:
        return "The runs are too short to learn from their beginnings."
    change = 1.0 - best.rmse_ratio.estimate
    told = "hardly changes" if abs(change) < 0.005 else f"is {abs(change):.1%} {'smaller' if change > 0 else 'larger'}"
    return f"After learning from the first {best.fraction:.0%} of each run its RMSE {told}."


def _trustworthy(found: Artefacts) -> str:
    """What stands behind the numbers."""
    study = found.study
    if study is None or study.confirmatory is None:
        return (
            "These numbers come from an evaluation, not from a sealed study: nobody vouches that the target was unseen."
        )
    if study.verification.problems:
        return f"Attention: the study fails verification ({'; '.join(study.verification.problems[:3])})."
    return "The model was locked on source data before the target was opened once; the ledger verifies."


def _not_known_yet(found: Artefacts, steps: list[str]) -> VerdictBox:
    study = found.study
    if study is None:
        told = ["This is a training run: it was judged on held-out sessions of its own machine only."]
        validation = found.run.summary.get("validation") if found.run else None
        if validation:
            model, floor = validation["model"]["rmse"], validation["persistence"]["rmse"]
            told.append(f"There its RMSE is {number(model)}; repeating the last value gives {number(floor)}.")
        else:
            told.append("The run has not finished yet.")
    elif not study.protocol["vault"]:
        told = ["This study has no target: it compares candidates on the source alone."]
    elif study.confirmatory is not None:
        reasons = "; ".join(study.confirmatory.result.excluded.values()) or "no score was recorded"
        told = [f"The target was opened, but the model gave no usable forecast there: {reasons}"]
        return VerdictBox(QUESTION, "No.", "bad", tuple(told), (), tuple(steps))
    elif study.lock is not None:
        told = [
            f"The model is locked ({study.lock['candidate']}, seed {study.lock['seed']}); the target is still sealed."
        ]
    else:
        done = sum(run.status in ("finished", "invalid") for run in study.runs)
        runs = f"{done} of {len(study.runs)} planned runs are finished" if study.runs else "no run is planned yet"
        told = [f"The study has not locked a model yet: {runs}."]
    return VerdictBox(QUESTION, "Not known yet.", "next", tuple(told), (), tuple(steps))


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
    for result in found.comparison.results if found.comparison else ():
        on_target = result.scores.get("target")
        if result.status == "finished" and on_target and on_target["windows"] == windows:
            scores.setdefault(result.model, []).append(on_target)
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


def next_steps(found: Artefacts) -> list[str]:
    """Sentences with a command each, the next one first; empty when nothing is missing."""
    if found.study is None:
        return _for_run(found)
    return _for_study(found.study) or _extras(found)


def _shell(path: Path) -> str:
    """A path as a shell takes it."""
    return quote(str(path))


def _for_run(found: Artefacts) -> list[str]:
    steps = []
    if found.run is not None and not found.run.summary:
        steps.append(
            f"Finish the training: crossfeed train --out {_shell(found.folder)} --resume --table SOURCE.parquet"
        )
    if not found.evaluations:
        steps.append(
            f"Judge it on another machine: crossfeed evaluate {_shell(found.folder)} --table TARGET.parquet "
            "--source SOURCE.parquet --out evaluation"
        )
    return steps + _extras(found)


def _for_study(study: StudyFacts) -> list[str]:
    """The step of the protocol that comes next; none after the opening."""
    folder = _shell(study.folder)
    unfinished = [run for run in study.runs if run.status not in ("finished", "invalid")]
    if not study.runs:
        return [f"Train the candidates: crossfeed study search {folder}"]
    if unfinished:
        return [f"Finish the {len(unfinished)} runs that are planned: crossfeed study search {folder} --planned"]
    if study.lock is None:
        if study.confirmation is None:
            return [f"Confirm the leader with more seeds: crossfeed study confirm {folder}"]
        if study.refusals:
            return [
                f"The study cannot be locked: {refusal.reason}. Then: {refusal.command(folder)}"
                for refusal in study.refusals
            ]
        return [f"Freeze the leader: crossfeed study lock {folder}"]
    if study.protocol["vault"] and study.confirmatory is None:
        return [f"Open the target, once: crossfeed study unseal {folder}"]
    return []


def _extras(found: Artefacts) -> list[str]:
    """What would make a finished report more complete."""
    study = found.study
    model = _shell(found.folder / "runs" / study.shown_run if study and study.shown_run else found.folder)
    steps = []
    wanting = not (found.comparison and found.forecasts)
    if study is not None and study.confirmatory is not None and wanting and not study.entries("release"):
        steps.append(f"Get the target tables back for what follows: crossfeed study release {_shell(study.folder)} OUT")
    if study is not None and found.on_target() and not any(one.robustness for one in found.evaluations):
        steps.append(
            f"Robustness and the source's test side: crossfeed evaluate {model} --table SOURCE.parquet --suite full "
            "--out evaluation"
        )
    if not found.adaptation:
        steps.append(f"Few-shot curves: crossfeed adapt {model} --table TARGET.parquet --out adaptation")
    if not found.comparison:
        steps.append("Baselines: crossfeed compare --table SOURCE.parquet --target TARGET.parquet --out comparison")
    if not found.forecasts:
        steps.append(
            f"What if: crossfeed what-if {model} --history LOG.parquet --commands PLAN.csv --compare OTHER.csv "
            "--out forecast"
        )
    if not found.audits:
        steps.append("Data audit: crossfeed audit SOURCE.parquet --json > audit.json")
    return steps
