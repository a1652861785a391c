"""Every page: commands that exist with their options, links that lead somewhere, Python that at least imports."""

import ast
import importlib
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.walk import commands, problems

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")),
]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Stands for the rest of a command that the page does not spell out.
PLACEHOLDER = "..."


def blocks(page: str, *languages: str) -> list[str]:
    """The code blocks of a page in one of these languages."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [body for language, body in FENCE.findall(text) if language.strip().split(" ")[0] in languages]


def commands_of(text: str) -> list[list[str]]:
    """The words after `crossfeed` of each such command in a shell block, without comments and redirections."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|", line):
            words = shlex.split(part, comments=True)
            if words and words[0] == "crossfeed":
                end = next((i for i, word in enumerate(words) if word.startswith((">", "2>"))), len(words))
                found.append(words[1:end])
    return found


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist_with_their_options(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shell = commands_of("\n".join(blocks(page, "bash", "sh", "")))
    inline = [command for span in re.findall(r"`(crossfeed [^`]+)`", text) for command in commands_of(span)]
    wrong = [f"{' '.join(words)}: {problem}" for words in shell if (problem := problems(words))]
    groups = {name.split()[0] for name in commands()}
    for words in inline:  # in running text a command may be shortened, but what it names must exist
        if words[0].isupper() or (len(words) == 1 and words[0] in groups):
            continue
        problem = problems([word for word in words if word != PLACEHOLDER])
        if "no option" in problem or "no command" in problem:
            wrong.append(f"{' '.join(words)}: {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([\w-]+)", "\n".join(blocks(page, "bash", "sh", "")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page} names make {target}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", text):
        if target.startswith(("http:", "https:")):
            continue
        path = ROOT / Path(page).parent / target if target else ROOT / page
        assert path.exists(), f"{page} points to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


@pytest.mark.parametrize("page", PAGES)
def test_a_number_that_is_a_link_stands_where_it_points(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for number, target in re.findall(r"\[(\d+\.\d+)\]\(([^)#\s]+)", text):
        assert number in (ROOT / Path(page).parent / target).read_text(encoding="utf-8"), f"{page}: {number}"


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_parse_and_what_they_import_is_there(page: str) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("crossfeed"):
                module = importlib.import_module(node.module)
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{page}: {node.module} has no {', '.join(missing)}"


def test_the_reader_of_blocks_sees_commands() -> None:
    text = "crossfeed ingest thws a b.parquet  # why\nls\ncrossfeed train --out x \\\n  --table y > log && "
    text += "crossfeed data list\n"
    assert commands_of(text) == [
        ["ingest", "thws", "a", "b.parquet"], ["train", "--out", "x", "--table", "y"], ["data", "list"],
    ]  # fmt: skip
    assert any(commands_of("\n".join(blocks(page, "bash"))) for page in PAGES)
