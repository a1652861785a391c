"""The scripts behind the tables: a renamed class left one of them broken for a day, because nobody had run it."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))


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
