"""Figures need no display, and their files appear whole or not at all."""

from pathlib import Path

import pytest

from crossfeed.errors import StorageError
from crossfeed.show.figures import new_figure, save_figure


@pytest.mark.parametrize(("name", "head"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("deep/a.svg", b"<?xml")])
def test_kinds_of_file(name: str, head: bytes, tmp_path: Path) -> None:
    with new_figure(2.0, 1.0) as figure:
        figure.add_subplot().plot([0, 1])
        save_figure(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(head)


def test_style_does_not_leak(tmp_path: Path) -> None:
    import matplotlib as mpl

    before = mpl.rcParams["font.size"]
    with new_figure(2.0, 1.0) as figure:
        save_figure(figure, tmp_path / "a.png")
    assert mpl.rcParams["font.size"] == before


def test_unknown_kind_is_refused(tmp_path: Path) -> None:
    with new_figure(2.0, 1.0) as figure, pytest.raises(StorageError, match=r"a\.bmp"):
        save_figure(figure, tmp_path / "a.bmp")
    assert list(tmp_path.iterdir()) == []
