"""What docs/audits.md and docs/protocol.md say is what the code does."""

import re
from pathlib import Path

import numpy as np
import pytest

from crossfeed.windows.audits.run import CHECKS
from crossfeed.windows.corrupt import MaskMode
from tests.windows.tables import study_table

DOCS = Path(__file__).parents[3] / "docs"


def _python(page: str) -> list[str]:
    return re.findall(r"```python\n(.+?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_every_check_is_in_the_table() -> None:
    page = (DOCS / "audits.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == tuple(CHECKS)


def test_every_mask_mode_is_in_the_table() -> None:
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    masks = page[page.index("## Masks") :]
    assert {"none", *re.findall(r"^\| `(\w+)`", masks, re.MULTILINE)} == set(MaskMode.__args__)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    table = study_table()
    table.write("source.parquet")
    study_table(1).write("target.parquet")
    names: dict[str, object] = {"table": table, "smooth": lambda values: np.cumsum(values[::-1], axis=0)[::-1]}
    for code in (*_python("protocol.md"), *_python("audits.md")):
        exec(code, names)
    assert len(names["train"]) > 0
    assert "Leak(" in capsys.readouterr().out
