"""What docs/programs.md shows does run and does hold."""

import re
from pathlib import Path

import pytest

from crossfeed.programs.motion import MotionLimits, read_motion_limits
from crossfeed.programs.parse import bundled_programs, read_program
from crossfeed.programs.plan import plan

PAGE = (Path(__file__).parents[2] / "docs" / "programs.md").read_text(encoding="utf-8")


def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(example, {})
    assert "100.0% of 1115 motion lines understood, 0 findings" in capsys.readouterr().out


def test_limits_on_the_page_are_the_defaults(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "limits.yaml").write_text(example)
    assert read_motion_limits(tmp_path / "limits.yaml") == MotionLimits()
    assert set(re.findall(r"^(\w+):", example, re.MULTILINE)) == set(MotionLimits.model_fields)


@pytest.mark.parametrize("name", list(bundled_programs()))
def test_times_of_bundled_programs_on_the_page(name: str) -> None:
    (minutes,) = re.findall(rf"^\| {name} \|.* ([\d.]+) min \|$", PAGE, re.MULTILINE)
    assert plan(read_program(bundled_programs()[name])).duration / 60 == pytest.approx(float(minutes), abs=0.06)
