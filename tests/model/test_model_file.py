"""The model file: whole, self-contained, and refused as soon as anything in it is not what was written."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from crossfeed import __version__
from crossfeed.errors import CheckpointError, StorageError
from crossfeed.model.model_file import _content_hash, _digests, read_model_file
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from tests.model import toy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    toy.model().save(tmp_path / "model.safetensors", {"split": {"seed": 1}, "data": ["abc"]})
    return tmp_path / "model.safetensors"


def _parts(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    with safe_open(path, framework="pt") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _forge(path: Path, metadata: dict[str, str], tensors: dict[str, torch.Tensor]) -> None:
    """Write a file with fitting hashes, as a careful forger or another program would."""
    texts = {name: metadata[name] for name in ("config", "schema", "normaliser", "provenance")}
    digests = _digests(texts, tensors)
    hashes = {"digests": json.dumps(digests), "sha256": _content_hash(digests)}
    safetensors.torch.save_file(tensors, path, {**metadata, **hashes})


def test_a_loaded_model_is_the_saved_one_bit_for_bit(path: Path) -> None:
    saved, loaded = toy.model(), WorldModel.load(path, schema=toy.SCHEMA)
    assert loaded.config == saved.config
    assert loaded.schema == saved.schema
    assert loaded.normaliser == saved.normaliser
    assert not loaded.training
    windows = toy.batch()
    assert torch.equal(saved(windows).distribution.mean, loaded(windows).distribution.mean)
    assert torch.equal(saved.encode_target(windows), loaded.encode_target(windows))


def test_the_file_says_where_it_comes_from(path: Path) -> None:
    file = read_model_file(path)
    assert file.provenance == {"code_version": __version__, "split": {"seed": 1}, "data": ["abc"]}
    assert file.sha256 == toy.model().save(path, {"split": {"seed": 1}, "data": ["abc"]})


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 1.0, exclude_max=True))
def test_any_flipped_byte_is_noticed(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 0xFF
    broken = path.with_name("broken.safetensors")
    broken.write_bytes(content)
    with pytest.raises(CheckpointError):
        WorldModel.load(broken)


@pytest.mark.parametrize("part", ["config", "schema", "normaliser", "provenance"])
def test_changed_metadata_is_named(path: Path, part: str) -> None:
    metadata, tensors = _parts(path)
    changed = {**metadata, part: metadata[part].replace("1", "2")}
    assert changed != metadata
    safetensors.torch.save_file(tensors, path, changed)
    with pytest.raises(CheckpointError, match=f"changed after it was written: {part}"):
        WorldModel.load(path)


def test_changed_tensors_and_hashes_are_named(path: Path) -> None:
    metadata, tensors = _parts(path)
    safetensors.torch.save_file({**tensors, "head.mean.bias": tensors["head.mean.bias"] + 1e-3}, path, metadata)
    with pytest.raises(CheckpointError, match="changed after it was written: tensors"):
        WorldModel.load(path)
    safetensors.torch.save_file(tensors, path, {**metadata, "sha256": "0" * 64})
    with pytest.raises(CheckpointError, match="hashes"):
        WorldModel.load(path)


def _without(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: tensor for name, tensor in tensors.items() if name != "head.mean.bias"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_without, "head.mean.bias is missing"),
        (lambda tensors: tensors | {"extra": torch.zeros(1)}, "extra is unexpected"),
        (lambda tensors: tensors | {"head.mean.bias": torch.zeros(4)}, r"head.mean.bias is \(4,\)"),
        (lambda tensors: tensors | {"head.mean.bias": torch.zeros(5).double()}, "float64"),
        (lambda tensors: tensors | {"head.mean.bias": torch.full((5,), torch.nan)}, "no numbers"),
    ],
)
def test_tensors_that_do_not_fit_are_named(path: Path, change: Any, sentence: str) -> None:
    metadata, tensors = _parts(path)
    _forge(path, metadata, change(tensors))
    with pytest.raises(CheckpointError, match=sentence):
        WorldModel.load(path)


def test_a_schema_in_another_order_is_refused(path: Path) -> None:
    turned = Schema(name="toy", sensors=toy.SCHEMA.sensors[::-1], commands=toy.SCHEMA.commands)
    with pytest.raises(CheckpointError, match="another order"):
        WorldModel.load(path, schema=turned)
    fewer = Schema(name="toy", sensors=toy.SCHEMA.sensors[:4], commands=toy.SCHEMA.commands)
    with pytest.raises(CheckpointError, match="other sensors"):
        WorldModel.load(path, schema=fewer)
    metadata, tensors = _parts(path)
    _forge(path, {**metadata, "schema": turned.model_dump_json()}, tensors)
    with pytest.raises(CheckpointError, match="normaliser and the schema"):
        WorldModel.load(path)


def test_other_files_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no model file"):
        WorldModel.load(tmp_path / "absent.safetensors")
    text = tmp_path / "text.safetensors"
    text.write_text("hello")
    with pytest.raises(CheckpointError, match="cannot be read"):
        WorldModel.load(text)
    safetensors.torch.save_file({"a": torch.zeros(1)}, text)
    with pytest.raises(CheckpointError, match="not a crossfeed model file"):
        WorldModel.load(text)


def test_unknown_settings_in_the_file_are_a_clear_error(path: Path) -> None:
    metadata, tensors = _parts(path)
    _forge(path, {**metadata, "config": json.dumps({"colour": "red"})}, tensors)
    with pytest.raises(CheckpointError, match="colour"):
        WorldModel.load(path)


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match="No space left"):
        toy.model(seed=1).save(path, {})
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
