import errno
from pathlib import Path

import pytest

from crossfeed.errors import StorageError
from crossfeed.files import atomic_file


def test_a_finished_file_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.txt"
    for text in ("old", "new"):
        with atomic_file(target) as temporary:
            temporary.write_text(text)
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_an_interrupted_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_or_forbidden_disk_is_a_clear_error(tmp_path: Path, code: int) -> None:
    target = tmp_path / "file.txt"
    with pytest.raises(StorageError) as caught, atomic_file(target):
        raise OSError(code, "no room")
    assert str(target) in caught.value.found
    assert caught.value.remedy
    assert not list(tmp_path.iterdir())
