"""Sealed results: what was written is read, and what was changed is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import StorageError
from crossfeed.files import plain, read_json, read_sealed, write_json, write_sealed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(content=st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_was_sealed_is_read(tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("sealed") / "result.json"
    try:
        write_sealed(path, content)
    except UnicodeEncodeError:  # half a character is no text
        return
    assert read_sealed(path) == plain({key: value for key, value in content.items() if key != "checksum"})


def test_a_changed_digit_in_a_result_was_not_found(tmp_path: Path) -> None:
    """Every bit of the file is turned: the reader refuses it, or reads exactly what was written."""
    path, content = tmp_path / "evaluation.json", {"scores": {"rmse": 0.337, "name": "mühle"}, "windows": [1, 2]}
    write_sealed(path, content)
    whole = path.read_bytes()
    refused = 0
    for spot in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[spot // 8] ^= 1 << spot % 8
        path.write_bytes(changed)
        try:
            assert read_sealed(path) == content
        except StorageError:
            refused += 1
    assert refused > 0.8 * 8 * len(whole)


def test_a_result_of_another_order_or_without_an_entry_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_sealed(path, {"a": 1, "b": 2})
    for keys in (("b", "checksum"), ("b", "a", "checksum")):
        content = json.loads(path.read_text(encoding="utf-8"))
        other = tmp_path / "other.json"
        other.write_text(json.dumps({key: content[key] for key in keys}), encoding="utf-8")
        with pytest.raises(StorageError, match="was changed after it was written"):
            read_sealed(other)


def test_a_file_whose_checksum_was_deleted_passed(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_sealed(path, {"a": 1, "b": 2})
    kept = [line for line in path.read_text(encoding="utf-8").splitlines() if "checksum" not in line]
    path.write_text("\n".join(kept).replace("2,", "2"), encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1, "b": 2}
    with pytest.raises(StorageError, match="its checksum is missing"):
        read_sealed(path)


def test_what_is_no_sealed_file_can_be_read_as_plain_json(tmp_path: Path) -> None:
    write_json(tmp_path / "printed.json", {"a": 1})
    assert read_json(tmp_path / "printed.json") == {"a": 1}


@pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
def test_what_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(StorageError, match=r"x\.json"):
        read_sealed(tmp_path / "x.json")


def test_paths_are_written_as_texts():
    assert plain({"file": Path("out/model.onnx")}) == {"file": str(Path("out/model.onnx"))}
