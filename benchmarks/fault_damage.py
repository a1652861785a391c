"""Files with one bit turned or their end cut off: a reader finds it, or reads exactly what was written."""

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fault_children import SPOKEN, Tally, in_child, place_for

from crossfeed.files import read_sealed
from crossfeed.live.recorder import ENDING, HEADER, spool_to_table
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.study.study import Study
from crossfeed.training.checkpoint import STATE, load_state
from crossfeed.training.history import read_history


def damage(folder: Path, material: Path, count: int, moments: random.Random) -> dict[str, Tally]:
    """One bit turned, or the end cut off; a reader finds it, or reads exactly what was written."""
    cpu = torch.device("cpu")

    def sums(tensors: dict[str, Any]) -> Any:
        return {
            name: [float(tensor.double().sum()), float(tensor.double().square().sum())]
            for name, tensor in tensors.items()
        }

    def database(path: Path) -> Any:
        study = Study(path.parent)
        return [list(study.verify().problems), [run.name for run in study.store.runs()], study.verify().head]

    def state(path: Path) -> Any:
        loaded = load_state(path.parent, cpu)
        assert loaded is not None
        parts = (loaded.model, loaded.optimiser, loaded.best_model, loaded.average)
        return [loaded.stage, loaded.epoch, loaded.history, *(sums(part) for part in parts)]

    def table(path: Path) -> Any:
        read = Table.read(path)
        return [
            read.fingerprint(),
            read.period,
            {name: float(np.nansum(values)) for name, values in read.extras.items()},
        ]

    def spool(path: Path) -> Any:
        read = spool_to_table(path.parent)
        return [[repair for repair in read.manifest["repairs"] if "spool" in repair], read.fingerprint()]

    kinds: dict[str, tuple[Path, Callable[[Path], Any]]] = {
        "table": (material / "source.parquet", table),
        "model": (material / "run" / "model.safetensors", lambda path: sums(read_model_file(path).tensors)),
        "training state": (material / "stopped" / STATE, state),
        "best weights": (
            next((material / "stopped").glob("best-*.safetensors")),
            lambda path: state(path.parent / STATE),
        ),
        "history": (material / "run" / "history.parquet", lambda path: read_history(path)),
        "study": (material / "study" / "study.db", database),
        "spool": (
            next((material / "spool").glob(f"*{ENDING}")),
            spool,
        ),
        "spool's header": (material / "spool" / HEADER, spool),
        "result": (material / "results" / "evaluation.json", lambda path: read_sealed(path)),
    }
    if (material / "model.onnx").exists():
        from crossfeed.edge import EdgeModel

        kinds["export"] = (material / "model.onnx", lambda path: sorted(EdgeModel(path).metadata["hashes"].values()))
    found = {}
    for name, (path, read) in kinds.items():
        whole, wanted = path.read_bytes(), in_child(lambda: read(path))  # noqa: B023
        tally = found[name] = Tally()
        for number in range(count):
            place = place_for(folder, "damaged")
            shutil.copytree(path.parent, place, dirs_exist_ok=True)
            spot = moments.randrange(len(whole))
            changed = whole[:spot] if number % 4 == 0 else _flipped(whole, spot, moments)
            (place / path.name).write_bytes(changed)
            for beside in place.glob(f"{path.name}-*"):  # a journal would repair a database
                beside.unlink()
            told = in_child(lambda: read(place / path.name))  # noqa: B023
            tally.tries += 1
            code = told.get("exit code") if isinstance(told, dict) else None
            if code == SPOKEN:
                tally.counts["found"] += 1
            elif code is not None:
                tally.counts["traceback"] += 1
            elif told == wanted:
                tally.counts["harmless"] += 1
            elif name in ("study", "spool") and told[0]:
                tally.counts["found"] += 1
            else:
                tally.counts["SILENT"] += 1
        print(f"damage {name}: {dict(tally.counts)}", file=sys.stderr, flush=True)
    return found


def _flipped(content: bytes, spot: int, moments: random.Random) -> bytes:
    return content[:spot] + bytes([content[spot] ^ (1 << moments.randrange(8))]) + content[spot + 1 :]
