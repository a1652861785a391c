"""The box at the top: may the model be trusted on the other machine, and on which channels?"""

from collections.abc import Mapping
from typing import Any, Literal

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Light, Tone, Verdict
from crossfeed.reporting.next_steps import next_steps
from crossfeed.reporting.numbers import interval, number, share, words
from crossfeed.training.record.summary import WEAK_COMMAND_USE

QUESTION = "May the model be trusted on the other machine, and on which channels?"
# Share of observations inside the central 90 % interval: what passes, and below what a channel is not to be used.
COVERAGE = (0.85, 0.98)
COVERAGE_BAD = 0.75


def verdict(found: Artefacts) -> Verdict:
    """The answer that what was recorded allows."""
    steps = next_steps(found)
    known = found.target()
    if known is None:
        return _not_known_yet(found, steps)
    content, name = known
    lights = tuple(judge_channels(content, name))
    tone, answer = _answer(lights)
    sentences = [_overall(content, name), _commands(content, name), _adapted(found), _trustworthy(found)]
    return Verdict(QUESTION, answer, tone, tuple(line for line in sentences if line), lights, tuple(steps))


def read_out(content: Mapping[str, Any]) -> list[str]:
    """The verdict of one evaluation in lines for a terminal: the answer first, then each channel with its reasons."""
    name = content["model"]["name"]
    lights = judge_channels(content, name)
    machines = words(content["table"]["machines"])
    short = {"good": "yes", "fair": "with care", "bad": "no", "unknown": "cannot be said"}
    rows = [f"  {light.channel}: {short[light.light]}, {'; '.join(light.reasons)}" for light in lights]
    told = [line for line in (_overall(content, name), _commands(content, name)) if line]
    return [f"May it be trusted on {machines}? {_answer(tuple(lights))[1]}", *told, *rows]


def judge_channels(content: Mapping[str, Any], name: str) -> list[Light]:
    """One light per channel of the target."""
    use = content.get("command_use", {}).get(name, {})
    pooled = use.get("shuffled", {}).get("rmse_ratio")
    by_channel = use.get("shuffled_by_channel", {})
    return [
        judge(channel, row, by_channel.get(channel, pooled))
        for channel, row in content.get("by_channel", {}).get(name, {}).items()
    ]


def judge(channel: str, row: Mapping[str, Any], command: Mapping[str, Any] | None) -> Light:
    """Green: surely better than the last value, honest intervals, and the commands count."""
    skill = row.get("intervals", {}).get("skill_rmse") or _plain(row.get("skill_rmse"))
    coverage = row.get("intervals", {}).get("coverage90") or _plain(row.get("coverage90"))
    unit = str(row.get("unit", ""))
    if row.get("constant") or skill is None or skill["estimate"] is None:
        return Light(
            channel, unit, "unknown", ("it does not move here, so there is nothing to forecast",), None, coverage
        )
    good, bad, reasons = True, False, []
    if skill["estimate"] <= 0.0:
        bad = True
        reasons.append("the last value, repeated, is as good or better")
    elif skill["low"] is None:
        good = False
        reasons.append("too few runs to be sure that it beats the last value")
    elif skill["low"] <= 0.0:
        good = False
        reasons.append("its advantage over the last value could be chance")
    inside = coverage["estimate"] if coverage else None
    if inside is None:
        good = False
        reasons.append("it gives no intervals")
    elif inside < COVERAGE_BAD:
        bad = True
        reasons.append("far too sure of itself")
    elif inside < COVERAGE[0]:
        good = False
        reasons.append("somewhat too sure of itself")
    elif inside > COVERAGE[1]:
        good = False
        reasons.append("intervals much wider than needed")
    if command is not None and command["estimate"] is not None and command["estimate"] < WEAK_COMMAND_USE:
        good = False
        reasons.append("planned commands hardly change its forecast: not for what-ifs")
    light: Literal["good", "fair", "bad"] = "bad" if bad else "good" if good else "fair"
    if light == "good":
        reasons.append("surely better than the last value, honest intervals, uses the plan")
    return Light(channel, unit, light, tuple(reasons), skill, coverage, command)


def _plain(value: float | None) -> dict[str, Any] | None:
    return None if value is None else {"estimate": value, "low": None, "high": None}


def _answer(lights: tuple[Light, ...]) -> tuple[Tone, str]:
    named = {kind: [one.channel for one in lights if one.light == kind] for kind in ("good", "fair", "bad", "unknown")}
    judged = len(lights) - len(named["unknown"])
    if not judged:
        return "fair", "Cannot be said: no channel of the target moved."
    parts = [f"with care on {words(named['fair'])}"] if named["fair"] else []
    parts += [f"not on {words(named['bad'])}"] if named["bad"] else []
    rest = f"; {'; '.join(parts)}" if parts else ""
    if len(named["good"]) == judged:
        return "good", f"Yes, on all {judged} channels that move."
    if named["good"]:
        return "fair", f"Yes on {len(named['good'])} of {judged} channels: {words(named['good'])}{rest}."
    if named["fair"]:
        return "fair", f"Only {'; '.join(parts)}."
    return "bad", f"No: on none of the {judged} channels."


def _overall(content: Mapping[str, Any], name: str) -> str:
    scores, floor = content["scores"][name], content["scores"].get("persistence")
    skill = content["intervals"][name].get("skill_rmse")
    units = f"{len(content['runs'])} {content.get('unit', 'run')}s"
    told = f"On {content['windows']:,} windows of {units} its RMSE is {number(scores['rmse'])}"
    if floor:
        told += f" (repeating the last value: {number(floor['rmse'])})"
    told += f"; skill {interval(skill)}." if skill else "."
    if scores.get("coverage90") is not None:
        told += f" Its 90 % intervals hold {share(scores['coverage90'])} of what happened."
    return told


def _commands(content: Mapping[str, Any], name: str) -> str:
    ratio = content.get("command_use", {}).get(name, {}).get("shuffled", {}).get("rmse_ratio")
    if not ratio or ratio["estimate"] is None:
        return ""
    sure = ratio["low"] if ratio["low"] is not None else ratio["estimate"]
    told = f"With the plan of another moment its error is {interval(ratio)} times as large"
    if sure >= WEAK_COMMAND_USE:
        return f"{told}: it listens to the planned commands."
    return f"{told}: it hardly listens to the planned commands, so do not compare plans with it yet."


def _adapted(found: Artefacts) -> str:
    rows = (found.adaptation.get("few_shot") or {}).get("fractions") or []
    best = rows[-1] if rows else None
    if not best or not best["fraction"] or best["rmse_ratio"]["estimate"] is None:
        return ""
    if not best["updates"]:
        return "The runs are too short to learn from their beginnings."
    change = 1.0 - best["rmse_ratio"]["estimate"]
    told = "hardly changes" if abs(change) < 0.005 else f"is {abs(change):.1%} {'smaller' if change > 0 else 'larger'}"
    return f"After learning from the first {best['fraction']:.0%} of each run its RMSE {told}."


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


def _not_known_yet(found: Artefacts, steps: list[str]) -> Verdict:
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
        reasons = "; ".join(study.confirmatory["excluded"].values()) or "no score was recorded"
        told = [f"The target was opened, but the model gave no usable forecast there: {reasons}"]
        return Verdict(QUESTION, "No.", "bad", tuple(told), (), tuple(steps))
    elif study.lock is not None:
        told = [
            f"The model is locked ({study.lock['candidate']}, seed {study.lock['seed']}); the target is still sealed."
        ]
    else:
        done = sum(run.status in ("finished", "invalid") for run in study.runs)
        runs = f"{done} of {len(study.runs)} planned runs are finished" if study.runs else "no run is planned yet"
        told = [f"The study has not locked a model yet: {runs}."]
    return Verdict(QUESTION, "Not known yet.", "next", tuple(told), (), tuple(steps))
