"""Opening the vault: verified, recorded and synced to disk before the first target row is read; once per right."""

import hashlib
from collections.abc import Sequence
from typing import Any

from crossfeed.errors import ConfigError
from crossfeed.model.world_model import WorldModel
from crossfeed.study import ledger, vault
from crossfeed.study.declaration import Declaration, declared, verdict_of
from crossfeed.study.lock import verified_lock
from crossfeed.study.protocol import check_version, source_tables
from crossfeed.study.store import Run, Store
from crossfeed.training.folder import write_json
from crossfeed.training.run_config import RunConfig


def unseal(store: Store, declaration: str | None = None) -> dict[str, Any]:
    """The confirmatory pass of the locked model, or the declared pass of an ablation's arms."""
    check_version(store)
    locked, _ = verified_lock(store)
    if declaration is None:
        runs, purpose = [locked], "confirmatory"
        _refuse_a_second_one(store, purpose, "a declaration made beforehand (crossfeed study declare)")
    else:
        plan = declared(store, declaration)
        purpose = f"declared: {plan.name}"
        _refuse_a_second_one(store, purpose, "another declaration")
        _need_verdict(store, plan)
        runs = [run for run in store.runs("finished") if run.stage == plan.stage]
    opening = _begin(store, purpose, runs)
    result = _evaluate(store, runs, opening)
    name = f"target-{len(_openings(store))}.json"
    write_json(store.folder / "results" / name, result)
    digest = hashlib.sha256((store.folder / "results" / name).read_bytes()).hexdigest()
    store.record("opening result", {"opening": opening.entry, "file": name, "sha256": digest, "purpose": purpose})
    return result


def _begin(store: Store, purpose: str, runs: Sequence[Run]) -> vault.Opening:
    """Write the opening down; an opening that was interrupted before its result is taken up again."""
    with store.reading() as connection:
        used = {entry.content["opening"] for entry in ledger.entries(connection, "opening result")}
        for entry in ledger.entries(connection, "opening"):
            if entry.hash not in used and entry.content["purpose"] == purpose:
                return vault.Opening(entry.hash)
    return vault.Opening(store.record("opening", {"purpose": purpose, "runs": [run.name for run in runs]}))


def _refuse_a_second_one(store: Store, purpose: str, way_out: str) -> None:
    with store.reading() as connection:
        done = [e for e in ledger.entries(connection, "opening result") if e.content["purpose"] == purpose]
    if done:
        raise ConfigError(
            f"The target was opened for this purpose on {done[0].time} (ledger entry {done[0].number}).",
            expected="one opening for each purpose",
            remedy=f"A further opening needs {way_out}.",
        )


def _need_verdict(store: Store, plan: Declaration) -> None:
    """Evaluate the declared condition on recorded source metrics and write the verdict down before anything else."""
    verdict = verdict_of(store, plan)
    store.record("verdict", {"declaration": plan.name, **verdict.to_json()})
    if not verdict.holds:
        raise ConfigError(
            f"The condition of '{plan.name}' does not hold on source validation, so the target stays sealed.",
            expected=plan.condition,
            remedy="The verdict is in the ledger; report it as it is.",
        )


def _openings(store: Store) -> list[ledger.Entry]:
    with store.reading() as connection:
        return ledger.entries(connection, "opening")


def _evaluate(store: Store, runs: Sequence[Run], opening: vault.Opening) -> dict[str, Any]:
    from crossfeed.evaluation.target import evaluate_target

    sources = source_tables(store)
    models = {
        run.name: (
            WorldModel.load(store.folder / "runs" / run.name / "model.safetensors"),
            RunConfig.model_validate(run.config),
        )
        for run in runs
    }
    return evaluate_target(models, sources, vault.reveal(store, opening))
