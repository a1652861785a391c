"""The lock: the confirmed leader frozen by five hashes that an opening finds again; ablations are declared on it."""

import hashlib
from collections.abc import Mapping
from typing import Any

from crossfeed.configuration import override
from crossfeed.errors import CheckpointError, ConfigError
from crossfeed.files import file_hash, write_json
from crossfeed.model.model_file import read_model_file
from crossfeed.study import vault
from crossfeed.study.record import ledger
from crossfeed.study.record.declaration import CONDITION, CONFIRMATION, Confirmation, Declaration, declarations
from crossfeed.study.record.lockable import LOCK, holds, refusals
from crossfeed.study.record.score import LockedSeed, pool, rules_of, run_scores, score_of
from crossfeed.study.record.store import Run, Store, code_hash, source_tables
from crossfeed.study.search import plan_runs, without_seed
from crossfeed.training.run_config import RunConfig


def lock(store: Store, seed: LockedSeed | None = None) -> dict[str, Any]:
    """Freeze the confirmed leader at its median or best seed (as the protocol has it), or explain the refusal."""
    recorded = store.entries("lock")
    if recorded and not (store.folder / LOCK).exists():
        # The lock is in the ledger, but its file could not be written then.
        return _write(store, recorded[-1].content, recorded[-1].hash)
    if recorded:
        raise ConfigError(
            f"The study is locked already: {recorded[-1].content['run']}.",
            remedy="A lock is never revisited; open the target with crossfeed study unseal.",
        )
    reasons = refusals(store)
    if reasons:
        raise ConfigError(
            "The study cannot be locked: " + "; ".join(refusal.reason for refusal in reasons) + ".",
            expected="a stable leader with enough valid seeds, no collapse flag and no weak-command flag",
            remedy="; ".join(dict.fromkeys(refusal.command(store.folder) for refusal in reasons)) + ".",
        )
    leader = Confirmation.recorded(store.entries(CONFIRMATION)[-1].content).leader
    if seed not in (None, "median", "best"):
        raise ConfigError(f"A lock cannot take the seed '{seed}'.", expected="median or best")
    rule = seed or rules_of(store.protocol()["name"]).locked_seed
    run = _seed_run(store, leader, rule)
    content = {"candidate": leader, "seed": run.seed, "seed_rule": rule, "run": run.name, **hashes(store, run)}
    return _write(store, content, store.record("lock", content))


def _write(store: Store, content: dict[str, Any], entry: str) -> dict[str, Any]:
    write_json(store.folder / LOCK, {**content, "entry": entry})
    return {**content, "entry": entry}


def hashes(store: Store, run: Run) -> dict[str, Any]:
    """The five things a lock freezes: configuration, code, normaliser, data and checkpoint."""
    checkpoint = store.folder / "runs" / run.name / "model.safetensors"
    return {
        "config_sha256": hashlib.sha256(ledger.canonical_json(run.config).encode()).hexdigest(),
        "code_sha256": code_hash(),
        "normaliser_sha256": read_model_file(checkpoint).normaliser.hash(),
        "data_sha256": [table.fingerprint() for table in source_tables(store)]
        + [sealed["sealed_sha256"] for sealed in store.protocol()["vault"]],
        "checkpoint_sha256": file_hash(checkpoint),
    }


def verified_lock(store: Store) -> tuple[Run, dict[str, Any]]:
    """The locked run, after finding all five hashes again; says which one is off otherwise."""
    recorded = store.entries("lock")
    if not recorded:
        raise ConfigError("The study is not locked.", remedy="Run crossfeed study lock first.")
    content = recorded[-1].content
    run = store.run(content["run"])
    problems = vault.damaged(store)
    now = hashes(store, run)
    problems += [name.removesuffix("_sha256") for name in now if now[name] != content[name]]
    if not holds(store.folder / LOCK, {**content, "entry": recorded[-1].hash}):
        problems.append(f"{LOCK} is not what the ledger recorded")
    if problems:
        raise CheckpointError(
            f"The lock does not hold: changed since it was made: {', '.join(problems)}.",
            expected="the configuration, code, normaliser, data and checkpoint of the lock, byte for byte",
            remedy="Restore what changed (crossfeed study verify lists it); the target stays sealed.",
        )
    return run, content


def _seed_run(store: Store, candidate: str, rule: LockedSeed) -> Run:
    """The run with the best or the median score of the candidate's valid seeds; the better one of an even number."""
    scores = run_scores(pool(store), score_of(store.protocol()))
    runs = [run for run in store.runs("finished") if run.candidate == candidate]
    ordered = sorted(runs, key=lambda run: (scores[run.candidate, run.seed], run.seed))
    return ordered[(len(ordered) - 1) // 2 if rule == "median" else 0]


def declare(store: Store, name: str, arms: Mapping[str, dict[str, Any]], seeds: int) -> Declaration:
    """Write a declaration to the ledger and plan its runs; each arm is the locked configuration with some settings."""
    locked, _ = verified_lock(store)
    for released in store.entries("release"):
        raise ConfigError(
            f"The target was released on {released.time} (ledger entry {released.number}).",
            expected="a declaration made while the target is sealed",
            remedy="What is tried from now on has seen the target: report it as exploration. "
            "Ablations declared before the release may still be opened.",
        )
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
