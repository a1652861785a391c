"""The scripts behind the tables: a renamed class left one of them broken for a day, because nobody had run it."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_name_that_a_benchmark_imports_is_there(script: Path) -> None:
    wanted = [
        (node.module, name.name)
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "crossfeed"
        for name in node.names
    ]
    for module, name in wanted:
        try:
            found = importlib.import_module(str(module))
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("crossfeed"):
                raise
            pytest.skip(f"needs {error.name}")
        assert hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module} has no {name}"


def test_errors_are_planted_in_files_that_are_there_and_looked_for_by_tests_that_are() -> None:
    """A file that moved was asked for under its old name, and the whole sample ended there."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "benchmarks" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    mutants = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutants)
    files = mutants.files()
    assert len(files) > 150
    assert {file.split("/")[0] for file in files} == set(mutants.ROOMS)
    assert [file for file in files if not mutants.tests_of(file)] == []
