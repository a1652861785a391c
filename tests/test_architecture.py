"""The walk of a row in docs/architecture.md: every file and function is there, and no step goes back to a room."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (\d+) \| `([a-z_/]+\.py)` \| (.*?) \|")


def steps() -> list[tuple[int, str, str]]:
    """Number, file and function of each step of the walk."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = [match for line in text.splitlines() if (match := ROW.match(line))]
    return [(int(match[1]), match[2], re.findall(r"`(\w+)`", match[3])[0]) for match in found]


def test_rooms_named_files_to_begin_with_that_had_moved() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    cells = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    rooms = [each for each in cells if len(each) == 6]
    assert len(rooms) == 17
    for _, room, *_, files, _ in rooms:
        folder = ROOT / "crossfeed" / re.findall(r"`(\w+)`", room)[0]
        for name in re.findall(r"`([a-z_/]+\.py)`", files):
            assert any((beside / name).is_file() for beside in (folder, folder.parent)), f"{room.strip()}: {name}"


def naive_baselines() -> dict[str, int]:
    """How deep each room lies, from the import contract: the deepest is 0."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return {room: depth for depth, layer in enumerate(reversed(layers)) for room in re.findall(r"\w+", layer)}


def test_the_walk_is_numbered_without_a_gap() -> None:
    assert [number for number, _, _ in steps()] == list(range(1, len(steps()) + 1))
    assert len(steps()) > 20


@pytest.mark.parametrize(("file", "name"), [(file, name) for _, file, name in steps()])
def test_every_step_is_where_the_walk_says(file: str, name: str) -> None:
    path = ROOT / "crossfeed" / file
    assert path.is_file()
    assert re.search(rf"^\s*(def|class) {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_no_step_goes_back_to_an_earlier_room() -> None:
    depth = naive_baselines()
    passed = [depth[file.split("/")[0]] for _, file, _ in steps()]
    assert passed == sorted(passed)


def test_rooms_do_not_draw_tables() -> None:
    """Tables are rendered in show/ and printed by cli/; what a room shows is progress."""
    allowed = {"show/formats.py", "progress.py", "study/board.py", "demo/chapter.py"}
    package = ROOT / "crossfeed"
    drawing = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"^\s*(from|import) rich\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {path for path in drawing if not path.startswith("cli/")} <= allowed


def test_no_two_classes_share_a_name() -> None:
    """A reader who meets a name looks in one place for it; `Plan` and twelve others once had two homes each."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in (ROOT / "crossfeed").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(f"{path.relative_to(ROOT).as_posix()}:{node.lineno}")
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
