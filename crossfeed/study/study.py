"""A study from Python: one object over the folder, each method one step of the protocol."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import torch

from crossfeed.configuration import override
from crossfeed.errors import ConfigError, StorageError
from crossfeed.files import __version__, atomic_file, file_hash
from crossfeed.jobs import Engine, LocalEngine
from crossfeed.logs.align import check_row_period
from crossfeed.logs.table import Table, manifest_path
from crossfeed.model.config import Size
from crossfeed.show.figures import Figure
from crossfeed.show.tables import ResultTable
from crossfeed.study import vault
from crossfeed.study.candidates import candidates_named, candidates_of, from_yaml
from crossfeed.study.confirm import FINALISTS, confirm
from crossfeed.study.contrast import ContrastLine, MachineLine, comparisons, contrasts, machine_lines
from crossfeed.study.lock import declare, lock
from crossfeed.study.opening import release, unseal
from crossfeed.study.ready import plan_ready
from crossfeed.study.record import ledger
from crossfeed.study.record.declaration import Confirmation, Declaration
from crossfeed.study.record.lockable import MOST_SEEDS, refusals
from crossfeed.study.record.score import CandidateScore, LockedSeed, Score, ranking, rules_of, score_of
from crossfeed.study.record.store import PROTOCOL_VERSION, Store, check_sources, check_version, code_hash
from crossfeed.study.search import halve, plan_runs, refuse_plain_search, search
from crossfeed.study.tables import (
    contrast_table,
    ledger_table,
    machines_table,
    ranking_tables,
    scores_figure,
)
from crossfeed.study.verify import Verification, verify
from crossfeed.training.data import prepare
from crossfeed.training.run_config import RunConfig, departures, preset
from crossfeed.training.summary import data_facts

if TYPE_CHECKING:
    import polars


class Study:
    """A folder with a protocol, runs, a ledger and a sealed target."""

    def __init__(self, folder: Path | str) -> None:
        self.store = Store(Path(folder))
        self.protocol = check_version(self.store)

    @classmethod
    def init(
        cls,
        folder: Path | str,
        sources: Sequence[Path | str],
        targets: Sequence[Path | str] = (),
        protocol: str = "crossfeed",
        size: str = "base",
        settings: Mapping[str, Any] | None = None,
        minimum_seeds: int = 5,
        keep_targets: bool = False,
        shared: Sequence[str] = (),
    ) -> Self:
        """Start a study; the target tables move into the vault (or stay as well, which the ledger then says).

        Without targets it is a study of the source alone; `shared` then names the sensors a target would have.
        """
        rules, store = rules_of(protocol), Store(Path(folder))
        config = override(preset(rules.preset, cast(Size, size)), {**rules.settings, **(settings or {})})
        learned_on, judged_on = ([Path(path) for path in paths] for paths in (sources, targets))
        store.refuse_existing()
        if not keep_targets:
            _check_removable(judged_on)
        tables = [Table.read(path) for path in learned_on]
        _check_names([*learned_on, *judged_on])
        sealed_tables = [Table.read(path) for path in judged_on]
        _check_ingest_rule(protocol, dict(zip([*learned_on, *judged_on], [*tables, *sealed_tables], strict=True)))
        _check_other_machines(tables, sealed_tables)
        _check_shared(tables[0], bool(judged_on), shared)
        data = prepare(tables, config, torch.device("cpu"))
        for path in learned_on:
            with atomic_file(store.folder / "tables" / path.name) as temporary:
                shutil.copyfile(path, temporary)
        sealed = [vault.seal(store.folder, path) for path in judged_on]
        named, departing = departures(rules.preset, config.model_dump(mode="json"))
        # What the study is bound to from here on: rules, data by fingerprint, split and windows.
        store.create(
            {
                "protocol_version": PROTOCOL_VERSION,
                "name": protocol,
                "config": config.model_dump(mode="json"),
                "preset": {"size": named, "departures": departing},
                "minimum_seeds": minimum_seeds,
                "crossfeed": __version__,
                "code": code_hash(),
                "sources": [
                    {
                        "name": path.name,
                        "fingerprint": table.fingerprint(),
                        "sha256": file_hash(path),
                        "rows": len(table),
                        "machines": table.machines(),
                    }
                    for path, table in zip(learned_on, tables, strict=True)
                ],
                "vault": sealed,
                "shared_sensors": _shared_by_all(sealed) if sealed else list(shared) or _drive_sensors(tables[0]),
                "targets_kept_outside": keep_targets,
                **data_facts(data),
            }
        )
        for path in () if keep_targets else judged_on:
            path.unlink()
            manifest_path(path).unlink(missing_ok=True)
        return cls(folder)

    @classmethod
    def open_or_init(cls, folder: Path | str, sources: Sequence[Path | str], *begin: Any, **options: Any) -> Self:
        """Go on with the study of these very sources, or start it; the other arguments are those of `init`."""
        if not Store(Path(folder)).exists:
            return cls.init(folder, sources, *begin, **options)
        study = cls(folder)
        check_sources(study.store, [Path(path) for path in sources])
        return study

    @property
    def config(self) -> RunConfig:
        """The configuration from which every candidate departs."""
        return RunConfig.model_validate(self.protocol["config"])

    def candidates(self, only: Sequence[str] | None = None, file: Path | None = None) -> dict[str, RunConfig]:
        """The candidates of the protocol or of a user's file, all or some by name."""
        config = self.config
        every = candidates_of(self.protocol["name"], config) if file is None else from_yaml(file, config)
        return candidates_named(every, only)

    def plan(self, candidates: Mapping[str, RunConfig] | None = None, seeds: int = 4) -> int:
        """Put candidates on the list, by default all of the protocol; gives the number of new runs."""
        refuse_plain_search(self.store)
        chosen = self.candidates() if candidates is None else candidates
        return plan_runs(self.store, chosen, range(seeds), "search")

    def ready(self, kind: str, seeds: int, only: Sequence[str] = ()) -> int:
        """Plan the arms of a ready study (ablations, ..., leave-one-out); gives the new runs."""
        return plan_ready(self.store, kind, self.config, seeds, only)

    def contrasts(self) -> list[ContrastLine]:
        """Every arm of ready studies and declared ablations against its reference, paired by seed."""
        return contrasts(self.store)

    def held_out(self) -> list[MachineLine]:
        """Every machine of a fleet held out (ready study leave-one-out), beside itself in training."""
        return machine_lines(self.store)

    def search(self, engine: Engine | None = None) -> None:
        """Bring every planned run to its outcome."""
        search(self.store, engine or LocalEngine())

    def halve(
        self, candidates: Mapping[str, RunConfig] | None = None, seeds: int = 4, engine: Engine | None = None
    ) -> None:
        """Search by successive halving over seeds instead of planning all of them; never below the finalists."""
        chosen = self.candidates() if candidates is None else candidates
        halve(self.store, engine or LocalEngine(), chosen, seeds, score_of(self.protocol), FINALISTS)

    def confirm(
        self, engine: Engine | None = None, most_seeds: int = MOST_SEEDS, pass_over: str | None = None
    ) -> Confirmation:
        """Add seeds until the leader stands; `pass_over` takes out a leader that no seed can make lockable."""
        return confirm(self.store, engine or LocalEngine(), most_seeds, pass_over)

    def refusals(self) -> list[str]:
        """Why the study cannot be locked now, each with the step that can lead out of it."""
        return [str(refusal) for refusal in refusals(self.store)]

    def lock(self, seed: LockedSeed | None = None) -> dict[str, Any]:
        """Freeze the leader at its median or best seed; without a word as the protocol has it."""
        return lock(self.store, seed)

    def declare(self, name: str, arms: Mapping[str, dict[str, Any]], seeds: int) -> Declaration:
        """Announce an ablation that may open the target again if every arm has smaller errors on the source."""
        return declare(self.store, name, arms, seeds)

    def unseal(self, declaration: str | None = None) -> dict[str, Any]:
        """Open the target, once."""
        return unseal(self.store, declaration)

    def release(self, out: Path | str) -> list[Path]:
        """Hand the target tables back, after the confirmatory result; nothing can be declared from then on."""
        return release(self.store, Path(out))

    def verify(self) -> Verification:
        """Find every byte that changed."""
        return verify(self.store)

    def rank(self, by: Score | None = None, stages: Sequence[str] = ("search", "confirm")) -> list[CandidateScore]:
        """The ranking by the protocol's own score, or by the other one; dropped candidates stand below and say so."""
        return ranking(self.store, by or score_of(self.protocol), stages)

    def tables(self) -> list[ResultTable]:
        """The ranking, every contrast by the clean RMSE, machines left out, and the ledger, as far as there are any."""
        judged = any(run.status in ("finished", "invalid") for run in self.store.runs())
        shown = ranking_tables(self.rank(), score_of(self.protocol)) if judged else []
        lines = contrasts(self.store) if any(comparisons(self.store)) else []
        lines = [line for line in lines if line.metric == "clean"]
        for name in dict.fromkeys(line.contrast for line in lines):
            shown.append(contrast_table([line for line in lines if line.contrast == name]))
        strangers = self.held_out()
        return [*shown, *([machines_table(strangers)] if strangers else []), ledger_table(self.ledger())]

    def figures(self) -> list[Figure]:
        """Both scores of every candidate; nothing before a run is finished."""
        runs = [run for run in self.store.runs() if run.stage in ("search", "confirm")]
        return [scores_figure(self.rank(), runs)] if any(run.status == "finished" for run in runs) else []

    def ledger(self) -> list[ledger.Entry]:
        """Everything that happened, in order."""
        return self.store.entries()

    def runs(self) -> "polars.DataFrame":
        """One row per run with its components, so that anyone can compute the scores again."""
        import polars

        rows = []
        for run in self.store.runs():
            bundle = run.outcome.get("bundle", {})
            rows.append(
                {
                    "run": run.name,
                    "candidate": run.candidate,
                    "seed": run.seed,
                    "stage": run.stage,
                    "status": run.status,
                    "invalid": run.outcome.get("invalid") or None,
                    **bundle.get("components", {}),
                    **{name: bundle.get(name) for name in ("ssl_scale_free", "command_ratio", "collapsed")},
                }
            )
        return polars.DataFrame(rows, infer_schema_length=None)


def _check_removable(targets: Sequence[Path]) -> None:
    """A target moves into the vault; one that cannot be taken away would be kept outside unsaid."""
    for path in targets:
        if not os.access(path.parent, os.W_OK):
            raise StorageError(
                f"{path} cannot be moved into the vault: its folder is read-only.",
                remedy="Copy the table elsewhere, or keep it outside as well (--keep-targets), which the ledger says.",
            )


def _check_names(paths: Sequence[Path]) -> None:
    names = [path.stem for path in paths]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError(f"Several tables are named {', '.join(doubled)}.", remedy="Rename them and init again.")


def _check_ingest_rule(name: str, tables: Mapping[Path, Table]) -> None:
    """A protocol that asks for a rule of ingest takes no table made by another one."""
    wanted = rules_of(name).ingest_rule
    found = {path: table.manifest.get("rules", {}).get("rule", "unknown") for path, table in tables.items()}
    wrong = [f"{path.name} (rule {rule})" for path, rule in found.items() if wanted not in (None, rule)]
    if wrong:
        raise ConfigError(
            f"The protocol '{name}' cannot use {', '.join(wrong)}.",
            expected=f"tables of logs ingested with --rule {wanted}: bins, commands and gaps as its authors made them",
            remedy=f"Ingest the logs again with crossfeed ingest ... --rule {wanted}, or take --protocol crossfeed.",
        )


def _check_other_machines(sources: Sequence[Table], targets: Sequence[Table]) -> None:
    """A sealed machine must not be known from the sources."""
    known = {machine for table in sources for machine in table.machines()}
    for target in targets:
        both = known & set(target.machines())
        if both:
            raise ConfigError(
                f"The machine {', '.join(sorted(both))} is in the source and in the target.",
                expected="target machines of which no row is in a source table",
                remedy="Take its rows out of one of the two tables.",
            )
        check_row_period(target.period, sources[0].period, "The target", "the source")
        if target.schema.fingerprint != sources[0].schema.fingerprint:
            raise ConfigError(
                f"The target has the schema '{target.schema.name}', the source '{sources[0].schema.name}'.",
                expected="one schema; a machine that lacks a channel leaves it empty",
            )


def _check_shared(source: Table, has_target: bool, shared: Sequence[str]) -> None:
    """Schema-drop needs sensors to keep and sensors to hide."""
    unknown = sorted(set(shared) - set(source.schema.sensor_names))
    if unknown or (has_target and shared):
        raise ConfigError(
            f"The shared sensors {', '.join(unknown or shared)} cannot be used.",
            expected="with a target none: it shows what it has" if has_target else "names of the source's sensors",
        )
    if not has_target and not shared and len(_drive_sensors(source)) in (0, len(source.schema.sensors)):
        raise ConfigError(
            "Without a target it is not known which sensors another machine would have.",
            expected=f"some of {', '.join(source.schema.sensor_names)}",
            remedy="Name them with --shared (shared=...), or give a target table.",
        )


def _shared_by_all(sealed: Sequence[dict[str, Any]]) -> list[str]:
    """Sensors that every sealed machine has: a fact of its schema, known before any of its rows is read."""
    return [n for n in sealed[0]["shared_sensors"] if all(n in table["shared_sensors"] for table in sealed)]


def _drive_sensors(source: Table) -> list[str]:
    """What every drive reports, and all that the paper's second machine has: currents, torques and powers."""
    return [sensor.name for sensor in source.schema.sensors if sensor.quantity in ("current", "torque", "power")]
