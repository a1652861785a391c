"""May a model be trusted on a machine, and on which channels? The answer in one sentence, the reasons by channel.

The types an evaluation records need no torch: reports and tables read results where no model runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crossfeed.evaluation.statistics import Interval
from crossfeed.training.config import WEAK_COMMAND_USE

Unit = Literal["run", "session", "program"]
Metrics = dict[str, float | None]
Light = Literal["good", "fair", "bad", "unknown"]
# The RMSE of others on the same windows, by their names and by channel.
BaselineErrors = Mapping[str, Mapping[str, float | None]]
# Share of observations inside the central 90 % interval: what passes, and below what a channel is not to be used.
COVERAGE = (0.85, 0.98)
COVERAGE_BAD = 0.75


@dataclass(frozen=True)
class Calibration:
    """Coverage against nominal, the width of 90 %, the PIT histogram and what its shape means."""

    coverage: dict[str, float | None]
    penalty90: float
    pit: tuple[float, ...]
    pit_deviation: float
    reading: str
    width90: float | None = None
    by_regime: dict[str, "Calibration"] = field(default_factory=dict)


@dataclass(frozen=True)
class ChannelScores:
    """The metrics of one channel in evaluation space and in its own unit; one that never moves is constant."""

    metrics: Metrics
    physical: Metrics
    unit: str
    constant: bool
    intervals: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class FalsePlan:
    """What one false plan costs: errors over those under the true plan, with run-level intervals."""

    meaning: str
    rmse: float | None
    rmse_ratio: Interval
    mae_ratio: Interval
    crps_ratio: Interval
    runs_worse: int
    runs: int


@dataclass(frozen=True)
class CommandUse:
    """Errors under false plans beside the error under the true one; a ratio of 1 means: not listened to."""

    windows: int
    true_rmse: float | None
    plans: dict[str, FalsePlan]
    shuffled_by_channel: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class ChannelVerdict:
    """The judgement on one channel: a light, the reasons in words, and the numbers it rests on."""

    channel: str
    unit: str
    light: Light
    reasons: tuple[str, ...]
    skill: Interval | None = None
    coverage: Interval | None = None
    command: Interval | None = None


@dataclass(frozen=True)
class Verdict:
    """One answer for the whole machine, and one light for each channel."""

    light: Literal["good", "fair", "bad"]
    answer: str
    channels: tuple[ChannelVerdict, ...]


def judge_channels(
    channels: Mapping[str, ChannelScores], use: CommandUse | None, baselines: BaselineErrors | None = None
) -> Verdict:
    """Judge every channel, beside what baselines reached on the same windows.

    One without a command-use ratio of its own is judged by that of all channels together.
    """
    pooled = use.plans["shuffled"].rmse_ratio if use and "shuffled" in use.plans else None
    of_channel = use.shuffled_by_channel if use else {}
    lights = tuple(
        judge_channel(
            name,
            scores,
            of_channel.get(name, pooled),
            {other: rmse for other, errors in (baselines or {}).items() if (rmse := errors.get(name)) is not None},
        )
        for name, scores in channels.items()
    )
    return Verdict(*_answer(lights), lights)


def judge_channel(
    channel: str, scores: ChannelScores, command: Interval | None, baselines: Mapping[str, float] | None = None
) -> ChannelVerdict:
    """Green: surely better than the last value and every baseline, R² above 0, honest intervals, commands count."""
    skill, coverage = (scores.intervals.get(name) for name in ("skill_rmse", "coverage90"))
    if scores.constant or skill is None or skill.estimate is None:
        still = ("it does not move here, so there is nothing to forecast",)
        return ChannelVerdict(channel, scores.unit, "unknown", still, None, coverage)
    found: list[tuple[Light, str]] = []
    if skill.estimate <= 0.0:
        found.append(("bad", "the last value, repeated, is as good or better"))
    elif skill.low is None:
        found.append(("fair", "too few runs to be sure that it beats the last value"))
    elif skill.low <= 0.0:
        found.append(("fair", "its advantage over the last value could be chance"))
    explained, error = scores.metrics.get("r2"), scores.metrics.get("rmse")
    if explained is not None and explained <= 0.0:
        found.append(("bad", f"its mean, repeated, would do as well (R² {explained:.2f})"))
    ahead = {name: rmse for name, rmse in (baselines or {}).items() if error is not None and rmse <= error}
    if ahead:
        best = min(ahead, key=lambda name: ahead[name])
        found.append(("fair", f"{best} is as good or better (RMSE {ahead[best]:.3g}, this model {error:.3g})"))
    inside = coverage.estimate if coverage else None
    if inside is None:
        found.append(("fair", "it gives no intervals"))
    elif inside < COVERAGE_BAD:
        found.append(("bad", "far too sure of itself"))
    elif inside < COVERAGE[0]:
        found.append(("fair", "somewhat too sure of itself"))
    elif inside > COVERAGE[1]:
        found.append(("fair", "intervals much wider than needed"))
    if command is not None and command.estimate is not None and command.estimate < WEAK_COMMAND_USE:
        found.append(("fair", "planned commands hardly change its forecast: not for what-ifs"))
    if not found:
        others = " and all baselines that were run" if baselines else ""
        found.append(("good", f"surely better than the last value{others}, honest intervals, uses the plan"))
    lights, reasons = zip(*found, strict=True)
    return ChannelVerdict(
        channel, scores.unit, "bad" if "bad" in lights else lights[0], reasons, skill, coverage, command
    )


def _answer(lights: Sequence[ChannelVerdict]) -> tuple[Literal["good", "fair", "bad"], str]:
    named = {light: [one.channel for one in lights if one.light == light] for light in ("good", "fair", "bad")}
    judged = sum(len(names) for names in named.values())
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


def words(names: Sequence[str]) -> str:
    """Names as people say them: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"
