"""A short run of the bad-input benchmark: no traceback, no exit code that lies."""

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def bad_input() -> ModuleType:
    found = importlib.util.spec_from_file_location("bad_input", BENCHMARKS / "bad_input.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["bad_input"] = module
    found.loader.exec_module(module)
    module.LONGEST_S = 600  # beside busy processes a minute is not long
    return module


def test_two_hundred_bad_inputs_end_in_words(bad_input: ModuleType) -> None:
    results = list(bad_input.run_cases(range(200), seed=3))
    assert [row for row in results if row["problem"]] == []
    families = Counter(row["family"] for row in results)
    assert set(families) == {
        "files", "mappings", "templates", "tables", "plans", "model files", "archives", "mtconnect", "arguments"
    }  # fmt: skip
    assert Counter(row["code"] for row in results)[2] > 100


def test_a_lying_exit_code_would_be_seen(bad_input: ModuleType, tmp_path: Path) -> None:
    case = bad_input.Case("files", ["ingest"], must_fail=True)
    assert bad_input._lie(case, 0, "done").startswith("lie")
    assert bad_input._lie(case, 1, "error").startswith("lie")
    assert bad_input._lie(case, 2, "").startswith("lie")
    assert bad_input._lie(case, 2, "error: no") == ""
    assert bad_input._lie(bad_input.Case("files", ["ingest"], out=str(tmp_path / "none")), 0, "").startswith("lie")


def test_a_traceback_would_be_seen(bad_input: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: list[str]) -> int:
        raise IndexError("list index out of range")

    monkeypatch.setattr(bad_input, "_typed", broken)
    assert bad_input.judge(bad_input.Case("files", ["ingest"]))["problem"].startswith("traceback: IndexError")
