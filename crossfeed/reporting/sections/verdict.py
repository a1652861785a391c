"""The box at the top: may the model be trusted on the other machine, and on which channels?"""

from crossfeed.evaluation.result import Evaluation
from crossfeed.json_file import plain
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import VerdictBox
from crossfeed.reporting.next_steps import next_steps
from crossfeed.reporting.numbers import interval, number, share
from crossfeed.reporting.rivals import against_rivals, rivals
from crossfeed.training.measure import WEAK_COMMAND_USE

QUESTION = "May the model be trusted on the other machine, and on which channels?"


def verdict(found: Artefacts) -> VerdictBox:
    """The answer that what was recorded allows."""
    steps = next_steps(found)
    known = found.on_target()
    if known is None:
        return _not_known_yet(found, steps)
    evaluation, name = known.evaluation, known.name
    said = evaluation.verdict(name, {rival.name: rival.by_channel for rival in rivals(found)})
    sentences = (
        headline_sentence(evaluation, name), against_rivals(found), command_sentence(evaluation, name),
        _adapted(found), _trustworthy(found),
    )  # fmt: skip
    told = tuple(line for line in sentences if line)
    return VerdictBox(QUESTION, said.answer, said.light, told, said.channels, tuple(steps))


def headline_sentence(found: Evaluation, name: str) -> str:
    """The headline in one sentence, beside what costs nothing."""
    scores, floor = found.scores[name], found.scores.get("persistence")
    skill = found.intervals[name].get("skill_rmse")
    units = f"{len(found.runs)} {found.unit}s"
    told = f"On {found.windows:,} windows of {units} its RMSE is {number(scores['rmse'])}"
    if floor:
        told += f" (repeating the last value: {number(floor['rmse'])})"
    told += f"; skill {interval(plain(skill))}." if skill else "."
    if scores.get("coverage90") is not None:
        told += f" Its 90 % intervals hold {share(scores['coverage90'])} of what happened."
    return told


def command_sentence(found: Evaluation, name: str) -> str:
    """Whether the planned commands count; nothing where nobody asked."""
    use = found.command_use.get(name)
    ratio = use.plans["shuffled"].rmse_ratio if use and "shuffled" in use.plans else None
    if ratio is None or ratio.estimate is None:
        return ""
    sure = ratio.low if ratio.low is not None else ratio.estimate
    told = f"With the plan of another moment its error is {interval(plain(ratio))} times as large"
    if sure >= WEAK_COMMAND_USE:
        return f"{told}: it listens to the planned commands."
    return f"{told}: it hardly listens to the planned commands, so do not compare plans with it yet."


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
