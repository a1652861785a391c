"""A report on what was damaged or cannot be written names it; it never ends in a traceback."""

import json
import os
import re
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError, CrossfeedError, StorageError
from crossfeed.front.report.artefacts import gather
from crossfeed.front.report.report import write_report
from tests.front.report import material
from tests.front.report.reading import report_on
from tests.front.report.runs import run_folder


def test_a_folder_that_is_neither_study_nor_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a study nor a training run"):
        write_report(gather(tmp_path))
    with pytest.raises(ConfigError, match="does not exist"):
        write_report(gather(run_folder(tmp_path / "run"), comparison=tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "name", ["evaluation/target/evaluation.json", "adaptation/adaptation.json", "comparison/table.json", "audit.json",
             "forecast/forecast.json", "run/summary.json", "run/run.json", "run/history.parquet"]
)  # fmt: skip
@pytest.mark.parametrize("damage", ["{ not json", "[]"])
def test_a_damaged_file_is_named(complete: Path, name: str, damage: str) -> None:
    (complete.parent / name).write_text(damage, encoding="utf-8")
    with pytest.raises(CrossfeedError, match=re.escape(name.rsplit("/", 1)[-1])):
        report_on(complete)


@pytest.mark.parametrize(
    "name", ["evaluation/target/evaluation.json", "adaptation/adaptation.json", "comparison/table.json", "audit.json",
             "forecast/forecast.json"]
)  # fmt: skip
def test_a_file_that_lacks_what_it_should_hold_is_an_error_not_a_traceback(complete: Path, name: str) -> None:
    content = json.loads((complete.parent / name).read_text(encoding="utf-8"))
    key = next(key for key in ("scores", "few_shot", "rows", "findings", "plans") if key in content)
    content[key] = {"fractions": 3} if key == "few_shot" else 17
    material.write(complete.parent / name, content)
    with pytest.raises(StorageError, match=rf"(?s)(?=.*does not hold what)(?=.*{re.escape(name)})"):
        report_on(complete)


def test_a_changed_result_of_an_opening_is_named(real: Path) -> None:
    (real / "results" / "target-1.json").write_text("{", encoding="utf-8")
    with pytest.raises(StorageError, match=r"target-1\.json"):
        report_on(real)


def test_a_study_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.db").write_bytes(b"nothing of the kind")
    with pytest.raises(CrossfeedError, match=r"study\.db"):
        write_report(gather(tmp_path))


def test_an_out_folder_that_cannot_be_written_is_an_error(complete: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StorageError, match=r"Writing .*report\.html failed"):
        write_report(gather(complete), tmp_path / "file" / "out")
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(StorageError, match="folder you may write to"):
            write_report(gather(complete), tmp_path / "closed" / "out")
