"""Declare an ablation: written down before any of its runs exists."""

from collections.abc import Mapping
from typing import Any

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.study.lock import verified_lock
from crossfeed.study.record import ledger
from crossfeed.study.record.declaration import CONDITION, Declaration, declarations
from crossfeed.study.record.store import Store
from crossfeed.study.search import plan_runs, without_seed
from crossfeed.training.run_config import RunConfig


def declare(store: Store, name: str, arms: Mapping[str, dict[str, Any]], seeds: int) -> Declaration:
    """Write a declaration to the ledger and plan its runs; each arm is the locked configuration with some settings."""
    locked, _ = verified_lock(store)
    _refuse_after_release(store)
    if len(arms) < 2:
        raise ConfigError("An ablation needs a control and at least one variant.", expected="two or more arms")
    declaration = Declaration(name, dict(arms), seeds)
    taken = [*(run.stage for run in store.runs()), *(earlier.stage for earlier in declarations(store))]
    if declaration.stage in taken:
        raise ConfigError(
            f"'{name}' was declared before, or its runs exist already.",
            expected="a declaration made before any of its runs",
            remedy="Choose another name; what was run without a declaration cannot be declared after the fact.",
        )
    base = RunConfig.model_validate(locked.config)
    configs = {declaration.candidate(arm): override(base, settings, f"Arm '{arm}'") for arm, settings in arms.items()}
    known = {ledger.canonical_json(without_seed(run.config)): run.name for run in store.runs("finished")}
    for candidate, config in list(configs.items())[1:]:
        seen = known.get(ledger.canonical_json(without_seed(config.model_dump(mode="json"))))
        if seen:
            raise ConfigError(
                f"The arm '{candidate}' equals the finished run '{seen}': its source metrics are known already.",
                expected="a variant that has not been run",
                remedy="A declaration after the fact is refused.",
            )
    control = next(iter(arms))
    content = {"name": name, "control": control, "arms": dict(arms), "seeds": seeds, "condition": CONDITION}
    store.record("declaration", content)
    plan_runs(store, configs, range(seeds), declaration.stage)
    return declaration


def _refuse_after_release(store: Store) -> None:
    """A declaration is worth something only while nobody has the target's rows."""
    released = store.entries("release")
    if released:
        raise ConfigError(
            f"The target was released on {released[0].time} (ledger entry {released[0].number}).",
            expected="a declaration made while the target is sealed",
            remedy="What is tried from now on has seen the target: report it as exploration. "
            "Ablations declared before the release may still be opened.",
        )
