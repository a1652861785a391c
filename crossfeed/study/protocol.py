"""What a study is bound to from its first moment: the rules, the data by fingerprint, the split, the windows."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from crossfeed.errors import ConfigError, StorageError
from crossfeed.files import __version__, atomic_file, file_hash
from crossfeed.logs.align import check_row_period
from crossfeed.logs.table import Table, manifest_path
from crossfeed.study import vault
from crossfeed.study.record.score import rules_of
from crossfeed.study.record.store import PROTOCOL_VERSION, Store, code_hash
from crossfeed.training.data import prepare
from crossfeed.training.run_config import RunConfig, departures
from crossfeed.training.summary import data_facts


def init(
    folder: Path,
    sources: Sequence[Path],
    targets: Sequence[Path],
    name: str,
    config: RunConfig,
    minimum_seeds: int,
    keep_targets: bool,
    shared: Sequence[str] = (),
) -> Store:
    """Start a study: copy the sources in, move the targets into the vault, and write the protocol to the ledger.

    Without targets, `shared` names the sensors a target would have; schema-drop hides the others.
    """
    store = Store(folder)
    store.refuse_existing()
    if not keep_targets:
        _check_removable(targets)
    tables = [Table.read(path) for path in sources]
    _check_names([*sources, *targets])
    sealed_tables = [Table.read(path) for path in targets]
    _check_ingest_rule(name, dict(zip([*sources, *targets], [*tables, *sealed_tables], strict=True)))
    _check_other_machines(tables, sealed_tables)
    _check_shared(tables[0], bool(targets), shared)
    data = prepare(tables, config, torch.device("cpu"))
    for path in sources:
        with atomic_file(folder / "tables" / path.name) as temporary:
            shutil.copyfile(path, temporary)
    sealed = [vault.seal(folder, path) for path in targets]
    size, departing = departures(rules_of(name).preset, config.model_dump(mode="json"))
    store.create(
        {
            "protocol_version": PROTOCOL_VERSION,
            "name": name,
            "config": config.model_dump(mode="json"),
            "preset": {"size": size, "departures": departing},
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
                for path, table in zip(sources, tables, strict=True)
            ],
            "vault": sealed,
            "shared_sensors": _shared_by_all(sealed) if sealed else list(shared) or _drive_sensors(tables[0]),
            "targets_kept_outside": keep_targets,
            **data_facts(data),
        }
    )
    if not keep_targets:
        for path in targets:
            path.unlink()
            manifest_path(path).unlink(missing_ok=True)
    return store


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
