"""What the ledger holds of decisions: who led at each seed count of a confirmation, and what was declared.

Of a declared ablation: arms and seeds, and whether the paper's condition of opening for it holds on the source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from crossfeed.errors import ConfigError
from crossfeed.study.record.score import Score, has_numbers
from crossfeed.study.record.store import UNFINISHED, Store

CONFIRMATION, PASSED_OVER = "confirmation", "passed over"  # kinds of entries
RMSE_COMPONENTS = ("clean", "schema_drop", "masked", "long_horizon")
CONDITION = "all rmse components better on source validation"


@dataclass(frozen=True, slots=True)
class ConditionVerdict:
    """What the software found, component by component; recorded before any target row is read."""

    holds: bool
    seeds: tuple[int, ...]
    differences: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Declaration:
    """What was declared; the first arm is the control."""

    name: str
    arms: dict[str, dict[str, Any]]
    seeds: int

    @classmethod
    def recorded(cls, content: Mapping[str, Any]) -> "Declaration":
        """As the ledger holds it: names stand in alphabetical order there, so it says which arm is the control."""
        control = content.get("control", next(iter(content["arms"])))
        arms = {control: content["arms"][control], **content["arms"]}
        return cls(content["name"], arms, content["seeds"])

    @property
    def stage(self) -> str:
        return f"ablation {self.name}"

    def candidate(self, arm: str) -> str:
        return f"{self.name}.{arm}"


def declared(store: Store, name: str) -> Declaration:
    """A declaration from the ledger."""
    for declaration in declarations(store):
        if declaration.name == name:
            return declaration
    raise ConfigError(
        f"Nothing named '{name}' was declared.",
        expected=f"one of {', '.join(each.name for each in declarations(store)) or 'no declaration yet'}",
        remedy="Declare it first (crossfeed study declare), before its runs.",
    )


def verdict_of(store: Store, declaration: Declaration) -> ConditionVerdict:
    """The condition on the recorded source metrics; with several variants it must hold for each."""
    runs = [run for run in store.runs() if run.stage == declaration.stage]
    unfinished = [run.name for run in runs if run.status in UNFINISHED]
    if unfinished:
        raise ConfigError(
            f"The ablation '{declaration.name}' has {len(unfinished)} unfinished runs.",
            remedy="Finish them with crossfeed study search --planned.",
        )
    by_arm = {
        arm: {
            run.seed: run.outcome["bundle"]["components"]
            for run in runs
            if run.candidate == declaration.candidate(arm) and has_numbers(run)
        }
        for arm in declaration.arms
    }
    control, *variants = by_arm.values()
    if not all(control.keys() & variant.keys() for variant in variants):
        failures = {run.name: run.outcome["invalid"] for run in runs if not has_numbers(run)}
        raise ConfigError(
            f"The arms of '{declaration.name}' have no common seed with numbers: "
            + "; ".join(f"{name}: {reason}" for name, reason in failures.items()),
            expected="a seed that the control and every variant came through",
            remedy="These runs failed and would fail again. Declare the ablation anew under another name, with more "
            "seeds or with settings that train.",
        )
    verdicts = [compare(control, variant) for variant in variants]
    failed = [verdict for verdict in verdicts if not verdict.holds]
    return failed[0] if failed else verdicts[0]


def compare(control: Mapping[int, Mapping[str, float]], variant: Mapping[int, Mapping[str, float]]) -> ConditionVerdict:
    """Whether a variant has the smaller mean of every RMSE component, over the seeds that both arms have."""
    seeds = tuple(sorted(control.keys() & variant.keys()))
    differences = {name: [variant[seed][name] - control[seed][name] for seed in seeds] for name in RMSE_COMPONENTS}
    return ConditionVerdict(all(fmean(values) < 0.0 for values in differences.values()), seeds, differences)


def declarations(store: Store) -> list[Declaration]:
    """All of them, in the order in which they were made."""
    return [Declaration.recorded(entry.content) for entry in store.entries("declaration")]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """How far the confirmation is: who is in it, who led at each seed count, and by which score."""

    finalists: tuple[str, ...]
    leaders: dict[int, str]
    score: Score

    @classmethod
    def recorded(cls, content: Mapping[str, Any]) -> "Confirmation":
        """As the ledger holds it: seed counts are texts in alphabetical order there."""
        leaders = sorted((int(count), name) for count, name in content["leaders"].items())
        return cls(tuple(content["finalists"]), dict(leaders), content["score"])

    def content(self) -> dict[str, Any]:
        """As the ledger holds it."""
        leaders = {str(count): name for count, name in self.leaders.items()}
        return {"finalists": list(self.finalists), "leaders": leaders, "score": self.score, "stable": self.stable}

    @property
    def stable(self) -> bool:
        counts = sorted(self.leaders)
        return len(counts) > 1 and self.leaders[counts[-1]] == self.leaders[counts[-2]]

    @property
    def leader(self) -> str:
        return self.leaders[max(self.leaders)]

    @property
    def history(self) -> str:
        """Who led when, in words."""
        return ", ".join(f"{name} at {count} seeds" for count, name in self.leaders.items())


def passed_over(store: Store) -> list[str]:
    """Leaders that were taken out of the contest because nothing could make them lockable."""
    return [entry.content["candidate"] for entry in store.entries(PASSED_OVER)]
