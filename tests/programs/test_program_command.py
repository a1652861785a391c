"""`crossfeed program` shows, draws and exports what a program does."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ProgramError, StorageError
from crossfeed.programs.figures import draw_program, outline, summarise
from crossfeed.programs.plan import plan
from crossfeed.programs.trajectory import write_commands
from tests.programs.nc import parse

SMALL = ("T1 M6", "G0 X5 Y5 Z2 S8000 M3", "G1 Z-1 F500", "X40 F1500", "G3 X40 Y25 I0 J10", "G1 G777 X10", "CYCLE800()")


@pytest.fixture
def part(tmp_path: Path) -> Path:
    path = tmp_path / "part.mpf"
    path.write_text("\n".join(SMALL))
    return path


def run(*arguments: str):
    return CliRunner().invoke(app, ["program", *arguments], env={"COLUMNS": "160"})


def test_table_names_the_essentials(part: Path) -> None:
    result = run(str(part))
    assert result.exit_code == 0
    for text in (
        "part",
        "5 of 5 (100.0%)",
        "T1",
        "8000 rpm",
        "500, 1500 mm/min",
        "CYCLE800 x1",
        "G777 is not known here",
    ):
        assert text in result.output


def test_many_findings_are_cut_short_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "part.mpf"
    path.write_text("G0 X1\n" + "\n".join(f"G777 X{number}" for number in range(2, 40)))
    assert "18 more findings; --json lists all of them" in run(str(path)).output


def test_json_holds_every_finding(part: Path) -> None:
    content = json.loads(run(str(part), "--json").output)
    assert content["understood"] == 1.0
    assert content["findings"][0]["line"] == 6
    assert content["total_time"] > content["cutting_time"] > content["programmed_cutting_time"] > 0


def test_plot_and_csv_are_written(part: Path, tmp_path: Path) -> None:
    picture, table = tmp_path / "new" / "part.png", tmp_path / "part.csv"
    assert run(str(part), "--plot", str(picture), "--csv", str(table), "--rate", "20").exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(table.open()))
    total = sum(float(row["feed_x"]) for row in rows) / 20 / 60
    start = float(rows[0]["x"]) - float(rows[0]["feed_x"]) / 20 / 60
    assert start + total == pytest.approx(float(rows[-1]["x"]), abs=1e-3)
    assert {row["tool"] for row in rows} == {"T1"}


def test_bundled_name_limits_and_override(tmp_path: Path) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("rapid: [10000, 10000, 10000]\n")
    slow = run("bundled:steel_guide", "--limits", str(limits), "--feed-override", "50", "--json")
    fast = run("bundled:steel_guide", "--json")
    assert json.loads(slow.output)["total_time"] > 1.9 * json.loads(fast.output)["total_time"]


@pytest.mark.parametrize(
    "arguments", ["bundled:nothing", "bundled:bracket --feed-override 0", "bundled:bracket --csv x --rate 0"]
)
def test_bad_arguments_raise_our_errors(arguments: str) -> None:
    assert isinstance(run(*arguments.split()).exception, ProgramError)


def test_missing_file() -> None:
    assert isinstance(run("/nowhere/part.mpf").exception, StorageError)


def test_summary_adds_up() -> None:
    program = parse(*SMALL)
    summary = summarise(program, plan(program))
    assert summary["path_length"] == pytest.approx(summary["cutting_length"] + summary["rapid_length"])
    assert summary["tools"] == ("T1",)
    assert summary["spindle_speeds"] == (8000.0,)


def test_outline_of_an_arc_lies_on_it() -> None:
    arc = parse(*SMALL).moves[3]
    points = outline(arc)
    assert np.allclose(np.linalg.norm(points[:, :2] - [40, 15], axis=1), 10)
    assert np.allclose(points[[0, -1]], [arc.start, arc.end])


def test_outline_is_on_the_workpiece_while_the_table_is_turned() -> None:
    (move,) = parse("S1 M3 F10", "G0 B90", "TRAORI", "AROT Y90", "G1 X1 Y2 Z3").moves
    assert np.allclose(outline(move)[-1], [3, 2, -1])


@pytest.mark.parametrize("lines", [("G0 X10",), ("G4 F3",), ("S1 M3 F10 G1 X5",)])
def test_picture_of_hardly_anything(lines: tuple[str, ...], tmp_path: Path) -> None:
    program = parse(*lines)
    draw_program(program, plan(program), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_csv_quotes_tool_names(tmp_path: Path) -> None:
    program = parse('T="MILL, 8 mm"', "G0 X1", "M6")
    trajectory = plan(program)
    write_commands(trajectory.sample(5), trajectory.tools, tmp_path / "commands.csv")
    rows = list(csv.DictReader((tmp_path / "commands.csv").open()))
    assert rows[-1]["tool"] == "MILL, 8 mm"
    assert len(rows) == len(trajectory.sample(5))
