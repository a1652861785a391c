"""Opening the vault: verified, recorded and synced to disk before the first target row is read; once per right.

An opening for a declared ablation asks for the recorded verdict on its condition, and for a control that repeats the
search runs of the locked candidate: otherwise more was changed than declared. After the confirmatory result the target
can be handed back; from then on nothing can be declared blind.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.files import file_hash, read_sealed, write_json
from crossfeed.logs.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.study import vault
from crossfeed.study.lock import verified_lock
from crossfeed.study.record.declaration import CONDITION, Declaration, declared, verdict_of
from crossfeed.study.record.score import flags_of, has_numbers, rules_of
from crossfeed.study.record.store import Run, Store, check_version, source_tables
from crossfeed.training.run_config import RunConfig

# A CPU repeats a run but for rounding. A GPU adds in no fixed order, which training amplifies: there a repetition may
# fall as far from the run it repeats as another seed would, and a component that hardly moves by this much. The
# calibration penalty is a distance to zero, of which no part makes sense: its coverage may move by one percent.
ON_CPU, ON_GPU, COVERAGE_ON_GPU = 1e-4, 0.02, 0.01


@dataclass(frozen=True, slots=True)
class Drift:
    """The component in which a control run strays most from the search run it repeats, beside what is allowed."""

    component: str
    searched: float
    repeated: float
    allowed: float

    @property
    def share(self) -> float:
        """The difference as a part of what is allowed: above 1 the run is no repetition."""
        return abs(self.repeated - self.searched) / self.allowed

    def __str__(self) -> str:
        return f"{self.component} {self.repeated:.6g} instead of {self.searched:.6g} ({self.allowed:.2g} allowed)"


def control_drift(store: Store, declaration: Declaration, locked: str) -> dict[str, Drift]:
    """How far each control run is from the search run of the locked candidate that it repeats.

    Empty where the control changes the locked configuration or the search never had these seeds.
    """
    control = next(iter(declaration.arms))
    if declaration.arms[control]:
        return {}
    runs = [run for run in store.runs() if has_numbers(run)]
    searched = {run.seed: run.outcome["bundle"]["components"] for run in runs if run.candidate == locked}
    return {
        run.name: _drift(run, searched[run.seed], searched.values(), _on_cpu(store, run))
        for run in runs
        if run.candidate == declaration.candidate(control) and run.seed in searched
    }


def _drift(run: Run, before: Mapping[str, float], seeds: Iterable[Mapping[str, float]], on_cpu: bool) -> Drift:
    repeated, every, found = run.outcome["bundle"]["components"], list(seeds), []
    for name, value in before.items():
        apart = max(seed[name] for seed in every) - min(seed[name] for seed in every)
        least = COVERAGE_ON_GPU if name == "calibration" else ON_GPU * abs(value)
        allowed = ON_CPU * abs(value) if on_cpu else max(least, apart)
        found.append(Drift(name, value, repeated[name], max(allowed, 1e-12)))
    return max(found, key=lambda drift: drift.share)


def _on_cpu(store: Store, run: Run) -> bool:
    summary = store.folder / "runs" / run.name / "summary.json"
    return not summary.is_file() or str(read_sealed(summary)["device"]) == "cpu"


def unseal(store: Store, declaration: str | None = None) -> dict[str, Any]:
    """The confirmatory pass of the locked model, or the declared pass of an ablation's arms."""
    if not check_version(store)["vault"]:
        raise ConfigError("This study has no target: it was begun on source tables alone.")
    locked, _ = verified_lock(store)
    if declaration is None:
        runs, purpose = [locked], vault.CONFIRMATORY
        _refuse_a_second_one(store, purpose, "a declaration made beforehand (crossfeed study declare)")
    else:
        plan = declared(store, declaration)
        _need_confirmatory_first(store)
        purpose = f"declared: {plan.name}"
        _refuse_a_second_one(store, purpose, "another declaration")
        runs = [run for run in store.runs() if run.stage == plan.stage and has_numbers(run)]
        _need_verdict(store, plan, runs, locked.candidate)
    opening = _begin(store, purpose, runs)
    result = _evaluate(store, runs, opening, purpose)
    result["flagged"] = flags_of(runs)
    name = f"target-{len(store.entries('opening'))}.json"
    write_json(store.folder / "results" / name, result)
    digest = file_hash(store.folder / "results" / name)
    store.record("opening result", {"opening": opening, "file": name, "sha256": digest, "purpose": purpose})
    return result


def release(store: Store, out: Path) -> list[Path]:
    """Write the target tables into a folder, after the ledger says so; gives their paths."""
    sealed = store.protocol()["vault"]
    if not sealed:
        raise ConfigError("This study has no target to release: it was begun on source tables alone.")
    if not vault.was_opened(store.entries()):
        raise ConfigError(
            "The target cannot be released: the confirmatory opening has no result yet.",
            expected="crossfeed study unseal, carried out to its end",
            remedy="Lock and unseal first; a released target could no longer be judged blind.",
        )
    paths = [out / f"{Path(table['name']).stem}.parquet" for table in sealed]
    there = [str(path) for path in paths if path.exists()]
    if there:
        raise ConfigError(
            f"{', '.join(there)} exists already.", remedy="Choose another folder; nothing is overwritten."
        )
    fingerprints = {table["name"]: table["table_fingerprint"] for table in sealed}
    entry = store.record("release", {"tables": fingerprints})
    for table, path in zip(vault.reveal(store, entry), paths, strict=True):
        table.write(path)
    return paths


def _begin(store: Store, purpose: str, runs: Sequence[Run]) -> str:
    """Write the opening down; an opening that was interrupted before its result is taken up again."""
    used = {entry.content["opening"] for entry in store.entries("opening result")}
    for entry in store.entries("opening"):
        if entry.hash not in used and entry.content["purpose"] == purpose:
            return entry.hash
    return store.record("opening", {"purpose": purpose, "runs": [run.name for run in runs]})


def _refuse_a_second_one(store: Store, purpose: str, way_out: str) -> None:
    done = [entry for entry in store.entries("opening result") if entry.content["purpose"] == purpose]
    if done:
        raise ConfigError(
            f"The target was opened for this purpose on {done[0].time} (ledger entry {done[0].number}).",
            expected="one opening for each purpose",
            remedy=f"A further opening needs {way_out}.",
        )


def _need_confirmatory_first(store: Store) -> None:
    """The control of an ablation is the locked model: its target score must not be seen before the one that counts."""
    if not vault.was_opened(store.entries()):
        raise ConfigError(
            "The confirmatory opening comes first, and it has no result yet.",
            expected="crossfeed study unseal, carried out to its end, before any declared opening",
            remedy="Unseal the locked model, then open for the declared ablation.",
        )


def _need_verdict(store: Store, plan: Declaration, runs: Sequence[Run], locked: str) -> None:
    """Evaluate the declared condition on recorded source metrics and write the verdict down before anything else."""
    verdict, drift = verdict_of(store, plan), control_drift(store, plan, locked)
    told = {"flagged": flags_of(runs), "control_drift": {name: asdict(found) for name, found in drift.items()}}
    store.record("verdict", {"declaration": plan.name, **told, **asdict(verdict)})
    strayed = [f"{name}: {found}" for name, found in drift.items() if found.share > 1.0]
    if strayed:
        raise ConfigError(
            f"The control of '{plan.name}' does not reproduce the search runs of the locked candidate. "
            + "; ".join(strayed)
            + ".",
            expected="the same components from the same configuration, seed, code and data",
            remedy="Something else changed (hardware, libraries). The verdict is in the ledger; declare anew where "
            "the search can be repeated.",
        )
    if not verdict.holds:
        raise ConfigError(
            f"The condition of '{plan.name}' does not hold on source validation, so the target stays sealed.",
            expected=CONDITION,
            remedy="The verdict is in the ledger; report it as it is.",
        )


def _evaluate(store: Store, runs: Sequence[Run], opening: str, purpose: str) -> dict[str, Any]:
    """Every run on the target beside the floors; the confirmatory pass also adapts the locked model to it."""
    from crossfeed.evaluation.judge import evaluate_target

    sources = source_tables(store)
    models = {
        run.name: (WorldModel.load(_checkpoint(store, run)), RunConfig.model_validate(run.config)) for run in runs
    }
    targets = vault.reveal(store, opening)
    result = evaluate_target(models, sources, targets).to_dict()
    if purpose == vault.CONFIRMATORY:
        result["adaptation"] = _adapt(store, runs[0], sources, targets)
    return result


def _adapt(store: Store, locked: Run, sources: Sequence[Table], targets: Sequence[Table]) -> dict[str, Any]:
    """Few-shot as the protocol learns and judges, and online; a target too short for it says so and spoils nothing."""
    from crossfeed.evaluation.adaptation.fewshot import FewShotConfig
    from crossfeed.evaluation.adaptation.model_adaptation import adapt
    from crossfeed.evaluation.adaptation.online import OnlineConfig
    from crossfeed.evaluation.adaptation.result import AdaptationResult
    from crossfeed.evaluation.opened_model import open_model
    from crossfeed.evaluation.setup import SourceData, foreign_set

    opened = open_model(_checkpoint(store, locked), "cpu")
    few_shot = FewShotConfig.of(rules_of(store.protocol()["name"]).preset)
    data = foreign_set(opened.model, targets, SourceData.of(sources, opened.config.data).space)
    facts = {
        "file": " + ".join(sealed["name"] for sealed in store.protocol()["vault"]),
        "fingerprint": " + ".join(table.fingerprint() for table in targets),
        "machines": list(data.windows.machines),
    }
    try:
        result = adapt(opened, data, facts, few_shot, OnlineConfig.model_validate({})).result
    except CrossfeedError as error:
        result = AdaptationResult(table=facts, not_possible=error.found)
    return result.to_dict()


def _checkpoint(store: Store, run: Run) -> Path:
    return store.folder / "runs" / run.name / "model.safetensors"
