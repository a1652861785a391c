"""Finding log files in folders, globs and zip archives, whole or damaged."""

import zipfile

import pytest

from crossfeed.errors import LogError
from crossfeed.logs.files import find_files, match_columns, unpacked


def archive(path, members: dict[str, bytes]):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return path


def test_files_folders_and_globs(tmp_path) -> None:
    for name in ("a.csv", "deep/b.csv", "deep/c.txt", "deep/.hidden.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [file.name for file in find_files(tmp_path, ["*.csv"])] == ["a.csv", "b.csv"]
    assert [file.name for file in find_files(tmp_path / "deep" / "*.txt", [])] == ["c.txt"]
    assert find_files(tmp_path / "a.csv", []) == [tmp_path / "a.csv"]
    with pytest.raises(LogError, match="nothing at"):
        find_files(tmp_path / "missing.csv", [])


def test_an_archive_is_unpacked_without_the_archives_inside(tmp_path) -> None:
    path = archive(tmp_path / "logs.zip", {"run/a.csv": b"a", "run/b.zip": b"b", "readme.pdf": b"c"})
    with unpacked(path) as (folder, source):
        assert source == path
        assert [str(file.relative_to(folder)) for file in folder.rglob("*.*")] == ["run/a.csv"]
    assert not folder.exists()


def test_an_archive_cannot_write_outside_its_folder(tmp_path) -> None:
    path = archive(tmp_path / "logs.zip", {"../../evil.csv": b"a", "/etc/evil.csv": b"b"})
    with unpacked(path) as (folder, _):
        assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*.csv")) == ["etc/evil.csv", "evil.csv"]


def test_a_folder_with_one_archive_and_no_logs_counts_as_the_archive(tmp_path) -> None:
    path = archive(tmp_path / "logs.zip", {"run/a.csv": b"a"})
    (tmp_path / "checksums.json").write_text("{}")
    with unpacked(tmp_path) as (folder, source):
        assert source == path
        assert (folder / "run" / "a.csv").exists()
    (tmp_path / "b.csv").write_text("b")
    with unpacked(tmp_path) as (folder, source):
        assert (folder, source) == (tmp_path, None)


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.0])
def test_a_truncated_archive_is_refused(tmp_path, keep) -> None:
    path = archive(tmp_path / "logs.zip", {"a.csv": b"a,b\n" + bytes(range(48, 58)) * 1000})
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(LogError, match="not a whole zip archive"), unpacked(path):
        pass


def test_a_zip_of_a_few_kilobytes_that_holds_gigabytes_is_refused(tmp_path) -> None:
    path = archive(tmp_path / "logs.zip", {"a.csv": bytes(5_000_000)})
    with (
        pytest.raises(LogError, match=r"would become 0\.0 GB\..*\n.*at most 0\.001 GB.*\n.*--unpack-limit"),
        unpacked(path, 1e6),
    ):
        pass
    with unpacked(path, 1e7) as (folder, _):
        assert (folder / "a.csv").stat().st_size == 5_000_000


def test_an_archive_that_lies_about_its_size_is_stopped_while_it_is_unpacked(tmp_path) -> None:
    path = archive(tmp_path / "logs.zip", {"a.csv": bytes(5_000_000)})
    content = path.read_bytes().replace((5_000_000).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    path.write_bytes(content)
    with pytest.raises(LogError), unpacked(path, 1e6):
        pass


def test_a_damaged_member_is_refused(tmp_path) -> None:
    path = archive(tmp_path / "logs.zip", {"a.csv": b"a,b\n" + bytes(range(48, 58)) * 1000})
    content = bytearray(path.read_bytes())
    content[60:70] = b"\x00" * 10
    path.write_bytes(bytes(content))
    with pytest.raises(LogError, match="not a whole zip archive"), unpacked(path):
        pass


def test_an_archive_without_logs_is_refused(tmp_path) -> None:
    path = archive(tmp_path / "logs.zip", {"readme.pdf": b"c"})
    with pytest.raises(LogError, match="holds no logs"), unpacked(path):
        pass


def test_a_file_of_another_kind_was_told_every_column_that_it_lacks() -> None:
    with pytest.raises(LogError, match=r"none of the 24 columns that are needed; it has No\., Phase") as caught:
        match_columns(["No.", "Phase"], [f"column {number}" for number in range(24)], "notes.csv")
    assert "Name the log itself" in caught.value.remedy
