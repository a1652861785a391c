"""Handing the target back after the confirmatory result: recorded first; from then on nothing can be declared blind."""

from pathlib import Path

from crossfeed.errors import ConfigError
from crossfeed.study import vault
from crossfeed.study.record.store import Store


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
    right = vault.Opening(store.record("release", {"tables": fingerprints}))
    for table, path in zip(vault.reveal(store, right), paths, strict=True):
        table.write(path)
    return paths


def refuse_after_release(store: Store) -> None:
    """A declaration is worth something only while nobody has the target's rows."""
    released = store.entries("release")
    if released:
        raise ConfigError(
            f"The target was released on {released[0].time} (ledger entry {released[0].number}).",
            expected="a declaration made while the target is sealed",
            remedy="What is tried from now on has seen the target: report it as exploration. "
            "Ablations declared before the release may still be opened.",
        )
