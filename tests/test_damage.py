"""Every kind of file, cut or with one bit turned, is found out or says exactly what it said before."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crossfeed.errors import CrossfeedError
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.training.checkpoint import STATE, load_state
from crossfeed.training.history import read_history, write_history
from crossfeed.training.run import train
from tests.training.conftest import small_config, toy_table

TRIES = 60


def _numbers(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def _table(path: Path) -> Any:
    read = Table.read(path)
    return read.fingerprint(), read.period


def _state(path: Path) -> Any:
    loaded = load_state(path.parent, torch.device("cpu"))
    assert loaded is not None
    parts = (loaded.model, loaded.optimiser, loaded.best_model, loaded.average)
    return loaded.stage, loaded.epoch, loaded.history, *(_numbers(part) for part in parts)


READERS: dict[str, Callable[[Path], Any]] = {
    "table.parquet": _table,
    "model.safetensors": lambda path: _numbers(read_model_file(path).tensors),
    "history.parquet": read_history,
    STATE: _state,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a finished run's model and history, and the state of a run that was stopped."""
    folder = tmp_path_factory.mktemp("whole")
    toy_table().write(folder / "table.parquet")

    def stop(row: Any) -> None:
        if row["epoch"] == 1:
            raise InterruptedError

    config = small_config({"training.finetune_epochs": 2}, "crossfeed")
    with pytest.raises(InterruptedError):
        train(toy_table(), config, folder / "run", on_epoch=stop)
    for path in (folder / "run").glob("*.safetensors"):
        shutil.copy(path, folder)
    finished = train(toy_table(), config, folder / "run", resume=True)
    for path in (finished.model, finished.folder / "history.parquet"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("name", [*READERS, "best"])
def test_damage_is_found_or_harmless(whole: Path, tmp_path: Path, name: str) -> None:
    path = next(whole.glob("best-*.safetensors")) if name == "best" else whole / name
    read = (lambda found: _state(found.parent / STATE)) if name == "best" else READERS[name]
    content, random = path.read_bytes(), np.random.default_rng(0)
    wanted, found = read(path), 0
    for number in range(TRIES):
        place = tmp_path / str(number)
        shutil.copytree(whole, place, ignore=shutil.ignore_patterns("run"))
        spot = int(random.integers(0, len(content)))
        turned = bytes([content[spot] ^ (1 << int(random.integers(0, 8)))])
        damaged = content[:spot] if number % 4 == 0 else content[:spot] + turned + content[spot + 1 :]
        (place / path.name).write_bytes(damaged)
        try:
            assert read(place / path.name) == wanted, f"bit turned at {spot} of {len(content)} in {path.name}"
        except CrossfeedError:
            found += 1
        shutil.rmtree(place)
    assert found > TRIES // 2


def test_a_resume_went_on_from_a_state_with_a_flipped_weight(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns("run"))
    content = bytearray((tmp_path / "run" / STATE).read_bytes())
    content[-40] ^= 1
    (tmp_path / "run" / STATE).write_bytes(content)
    with pytest.raises(CrossfeedError, match="changed after it was written"):
        load_state(tmp_path / "run", torch.device("cpu"))


def test_a_table_with_a_changed_manifest_was_taken_as_it_was(whole: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    arrow = pyarrow.parquet.ParquetFile(whole / "table.parquet").read()
    text = arrow.schema.metadata[b"crossfeed"].replace(b'"period": 1.0', b'"period": 2.0')
    pyarrow.parquet.write_table(arrow.replace_schema_metadata({b"crossfeed": text}), tmp_path / "table.parquet")
    with pytest.raises(CrossfeedError, match="changed after it was written"):
        Table.read(tmp_path / "table.parquet")


def test_a_table_or_a_history_that_lost_its_checksum_was_taken_as_it_was(whole: Path, tmp_path: Path) -> None:
    import json

    import pyarrow.parquet

    arrow = pyarrow.parquet.ParquetFile(whole / "table.parquet").read()
    content = json.loads(arrow.schema.metadata[b"crossfeed"])
    del content["checksum"]
    bare = arrow.replace_schema_metadata({b"crossfeed": json.dumps(content).encode()})
    pyarrow.parquet.write_table(bare, tmp_path / "table.parquet")
    with pytest.raises(CrossfeedError, match="its checksum is missing"):
        Table.read(tmp_path / "table.parquet")
    write_history(tmp_path / "history.parquet", [{"stage": "finetune", "epoch": 0}])
    arrow = pyarrow.parquet.ParquetFile(tmp_path / "history.parquet").read()
    pyarrow.parquet.write_table(arrow.replace_schema_metadata({}), tmp_path / "history.parquet")
    with pytest.raises(CrossfeedError, match="its checksum is missing"):
        read_history(tmp_path / "history.parquet")


def test_a_history_comes_back_as_it_was_written(tmp_path: Path) -> None:
    rows = [{"stage": "finetune", "epoch": 0, "score": 1 / 3, "note": None}, {"stage": "finetune", "epoch": 1}]
    write_history(tmp_path / "history.parquet", rows)
    assert read_history(tmp_path / "history.parquet") == [
        {"stage": "finetune", "epoch": 0, "score": 1 / 3, "note": None},
        {"stage": "finetune", "epoch": 1, "score": None, "note": None},
    ]
