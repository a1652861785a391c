"""Run a finished run again from its own configuration and compare: the same seed must give the same bits on a CPU."""

import json
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from crossfeed.configuration import parse
from crossfeed.errors import ConfigError
from crossfeed.files import read_sealed
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.processes import as_own_command
from crossfeed.show.tables import plural
from crossfeed.training.folder import IDENTITY, RunFolder, saved_config
from crossfeed.training.history import read_history
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig

# What a clock measured, which no second run repeats.
_CLOCK = ("train_seconds", "validation_seconds")


@dataclass(frozen=True)
class Reproduction:
    """How two runs of one configuration compare; `same` only when every bit of weights and history agrees."""

    same: bool
    tensors: int
    different_tensors: tuple[str, ...]
    largest_difference: float
    epochs: int
    first_different_epoch: str | None
    differences: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.same:
            compared = f"{plural(self.tensors, 'tensor')}, {plural(self.epochs, 'epoch')} of history"
            return f"The same in every bit: {compared}."
        weights = f"{len(self.different_tensors)} of {self.tensors} tensors by up to {self.largest_difference:.3g}"
        return f"Different: {weights}, first in {self.first_different_epoch or 'no epoch of the history'}."


def reproduce(
    run: Path | str,
    tables: Sequence[Table],
    *,
    threads: int | None = None,
    pretrained: Path | str | None = None,
    out: Path | str | None = None,
) -> Reproduction:
    """Train again what lies in the folder `run`, in `out` or in a place that is removed, and compare the two."""
    first = RunFolder(Path(run))
    config = saved_config(first.path)
    if config is None or not first.finished:
        raise ConfigError(
            f"{run} holds no finished run.", expected="a folder that crossfeed train has written to its end"
        )
    _check_inputs(first.path, tables, pretrained)
    summary = read_sealed(first.summary)
    recorded = summary.get("environment", {})
    asked = threads or recorded.get("threads") or torch.get_num_threads()
    before = torch.get_num_threads()
    destination: AbstractContextManager[Any] = nullcontext(out) if out is not None else tempfile.TemporaryDirectory()
    with destination as folder:
        target = Path(folder) if out is not None else Path(folder) / "run"
        torch.set_num_threads(asked)
        try:
            resolved = parse(RunConfig, config, f"The configuration in {first.path}")
            with as_own_command(recorded.get("wide_products", False)):
                train(tables, resolved, target, device=summary["device"], pretrained=pretrained)
        finally:
            torch.set_num_threads(before)
        return compare_runs(first.path, target)


def compare_runs(first: Path, second: Path) -> Reproduction:
    """Weights and history of two finished runs, bit by bit."""
    one, two = (read_model_file(RunFolder(folder).model).tensors for folder in (first, second))
    names = sorted(one.keys() | two.keys())
    different = [name for name in names if name not in one or name not in two or not _same_bits(one[name], two[name])]
    apart = [
        float((one[name].double() - two[name].double()).abs().max())
        for name in different
        if name in one and name in two and one[name].shape == two[name].shape and one[name].numel()
    ]
    rows = [_without_clock(RunFolder(folder).history) for folder in (first, second)]
    changed = [(here, there) for here, there in zip(*rows, strict=False) if json.dumps(here) != json.dumps(there)]
    epoch: str | None = None
    columns: tuple[str, ...] = ()
    if changed:
        here, there = changed[0]
        epoch = f"epoch {here['epoch']} of {here['stage']}"
        columns = tuple(f"{name}: {here[name]} and {there.get(name)}" for name in here if here[name] != there.get(name))
    elif len(rows[0]) != len(rows[1]):
        epoch = f"epoch {min(map(len, rows))}, which one of the two does not have"
    same = not different and not changed and len(rows[0]) == len(rows[1])
    return Reproduction(same, len(names), tuple(different), max(apart, default=0.0), len(rows[0]), epoch, columns)


def _same_bits(one: torch.Tensor, two: torch.Tensor) -> bool:
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return torch.equal(one.flatten().view(torch.uint8), two.flatten().view(torch.uint8))


def _without_clock(path: Path) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in _CLOCK} for row in read_history(path)]


def _check_inputs(run: Path, tables: Sequence[Table], pretrained: Path | str | None) -> None:
    inputs = read_sealed(run / IDENTITY)["inputs"]
    found = [table.fingerprint() for table in tables]
    if found != inputs["tables"]:
        raise ConfigError(
            f"The run in {run} was trained on other tables than those with the fingerprints "
            f"{', '.join(one[:12] for one in found)}.",
            expected=f"in this order: {', '.join(one[:12] for one in inputs['tables'])}",
        )
    body = read_model_file(pretrained).sha256 if pretrained is not None else None
    if body != inputs.get("pretrained"):
        raise ConfigError(
            f"The run in {run} began from {'a pretrained body' if inputs.get('pretrained') else 'no pretrained body'}.",
            remedy="Name the same file with --pretrained, or leave the option away.",
        )
