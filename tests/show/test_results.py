"""Every result offers tables and figures, and every renderer takes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crossfeed.errors import StorageError
from crossfeed.evaluation.adaptation.result import AdaptationResult
from crossfeed.evaluation.baselines.results import ComparisonTable
from crossfeed.evaluation.bench.result import LearningCurve
from crossfeed.evaluation.result import Evaluation
from crossfeed.scenarios.result import WhatIf
from crossfeed.show.drawing import draw
from crossfeed.show.formats import html, latex, markdown, notebook_html, text, write_csv
from crossfeed.show.tables import ShownByTables
from crossfeed.windows.audits.subject import AuditReport
from tests.front.report import material

RESULTS: dict[str, Callable[[], ShownByTables]] = {
    "evaluation": lambda: Evaluation.from_dict(material.evaluation()),
    "adaptation": lambda: AdaptationResult.from_dict(material.adaptation()),
    "comparison": lambda: ComparisonTable.from_dict(material.comparison()),
    "curve": lambda: LearningCurve.from_dict(material.curve()),
    "what-if": lambda: WhatIf.from_dict(material.forecast()),
    "audit": lambda: AuditReport.from_dict(material.audit()),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_shown_everywhere_alike(name: str, tmp_path: Path) -> None:
    result = RESULTS[name]()
    tables = list(result.tables())
    assert tables
    assert len({table.name for table in tables}) == len(tables), "each is a file of its own"
    for table in tables:
        write_csv(table, tmp_path / f"{table.name}.csv")
        assert len((tmp_path / f"{table.name}.csv").read_text(encoding="utf-8").splitlines()) == len(table.rows) + 1
        first = str(next(iter(table.rows))[table.columns[0].key])
        for shown in (text(table), html(table), markdown(table), notebook_html(table)):
            assert first in shown or table.columns[0].format != "text"
        assert rf"\label{{tab:{table.name}}}" in latex(table)
    assert repr(result).startswith(tables[0].caption.splitlines()[0])
    for figure in result.figures():
        drawn = draw(figure)
        assert len(drawn.axes) == len(figure.panels) > 0
        assert drawn.texts[0].get_text().replace("\n", " ") == figure.caption


@pytest.mark.parametrize("name", RESULTS)
def test_what_is_no_result_is_refused_by_its_own_reader(name: str) -> None:
    form: Any = type(RESULTS[name]())
    for content in (17, []):
        with pytest.raises(StorageError, match="does not hold what"):
            form.from_dict(content)
