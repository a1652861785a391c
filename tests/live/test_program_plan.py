"""The plan of the next seconds: from the running program, or the last command held, and always said which."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from crossfeed.live.program_plan import ProgramFollower
from crossfeed.live.source import LINE, OVERRIDES
from crossfeed.logs.declaration import PROGRAM
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import program_path, read_program
from crossfeed.programs.plan import plan
from crossfeed.schema import canonical

LAST = {"spindle_speed": 1000.0, "feed_x": 1.0, "feed_y": 2.0, "feed_z": 3.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(program_path("bundled:face_pocket"), tmp_path / "FACE_POCKET.MPF")
    return tmp_path


def _follower(folder: Path | None) -> ProgramFollower:
    return ProgramFollower(folder, canonical(), 1.0, MotionLimits())


def test_the_next_rows_are_those_of_the_program_from_the_line_on(folder: Path) -> None:
    fine = plan(read_program(folder / "FACE_POCKET.MPF"), MotionLimits()).sample(10.0, "mean")
    place = len(fine) // 2
    line = int(fine.line[place])
    begin = int(np.flatnonzero(fine.line == line)[0])
    told = {PROGRAM: "/_N_WKS_DIR/face_pocket", LINE: float(line)}
    found = _follower(folder).plan(told, 100.0, LAST, 4)
    assert found.kind == "program"
    assert f"line {line}" in found.sentence
    rows = dict(zip(canonical().command_names, fine.commanded(canonical().commands).T))
    for name in LAST:
        wanted = rows[name][begin : begin + 40].reshape(4, 10).mean(1)
        np.testing.assert_allclose(found.commands[name], wanted)
        # What-ifs go on to the end of the program.
        assert 4 + len(found.following[name]) == -(-(len(fine) - begin) // 10)
        later = rows[name][begin + 40 : begin + 50].mean()
        assert found.following[name][0] == pytest.approx(later)


def test_a_lower_override_makes_the_same_path_slower(folder: Path) -> None:
    program = read_program(folder / "FACE_POCKET.MPF")
    fine = plan(program, MotionLimits()).sample(10.0, "mean")
    line = float(fine.line[int(np.argmax(np.asarray(fine.cutting)))])
    told = {PROGRAM: "face_pocket.mpf", LINE: line}
    full = _follower(folder).plan(told, 0.0, LAST, 8)
    slow = _follower(folder).plan({**told, OVERRIDES["feed_override"]: 50.0}, 0.0, LAST, 8)
    assert "feed 50 %" in slow.sentence

    def travel(commands: dict[str, tuple[float, ...]]) -> float:
        return sum(abs(value) for name in ("feed_x", "feed_y", "feed_z") for value in commands[name])

    assert travel(dict(slow.commands)) < travel(dict(full.commands))


@pytest.mark.parametrize("period", [0.25, 0.02])
def test_rows_of_a_quarter_second_were_filled_with_two_tenths(folder: Path, period: float) -> None:
    trajectory = plan(read_program(folder / "FACE_POCKET.MPF"), MotionLimits())
    follower = ProgramFollower(folder, canonical(), period, MotionLimits())
    first = trajectory.sample(1.0, "mean").line[0]
    found = follower.plan({PROGRAM: "face_pocket", LINE: float(first)}, 0.0, LAST, 4)
    planned = trajectory.sample(1.0 / period, "mean").spindle_speed[:200]
    followed = (found.commands["spindle_speed"] + found.following["spindle_speed"])[: len(planned)]
    np.testing.assert_allclose(followed, planned, atol=1e-6)


def test_time_spent_on_a_line_counts(folder: Path) -> None:
    fine = plan(read_program(folder / "FACE_POCKET.MPF"), MotionLimits()).sample(10.0, "mean")
    lines, counts = np.unique(fine.line, return_counts=True)
    line = float(lines[np.argmax(counts)])
    follower = _follower(folder)
    first = follower.plan({PROGRAM: "face_pocket", LINE: line}, 50.0, LAST, 4)
    later = follower.plan({PROGRAM: "face_pocket", LINE: line}, 51.0, LAST, 4)
    for name in LAST:
        assert later.commands[name][:3] == pytest.approx(first.commands[name][1:])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "runs no program"),
        ({PROGRAM: "face_pocket"}, "does not tell the line"),
        ({PROGRAM: "other", LINE: 3.0}, "no file other"),
        ({PROGRAM: "face_pocket", LINE: 1e6}, "nothing follows"),
    ],
)
def test_without_a_program_the_last_command_is_held_and_the_reason_said(
    folder: Path, told: dict[str, float | str | None], words: str
) -> None:
    found = _follower(folder).plan(told, 0.0, LAST, 3)
    assert found.kind == "held"
    assert words in found.sentence
    assert found.commands["feed_y"] == (2.0, 2.0, 2.0)


def test_without_a_folder_the_last_command_is_held() -> None:
    assert "--programs" in _follower(None).plan({PROGRAM: "x", LINE: 1.0}, 0.0, LAST, 2).sentence


def test_on_a_line_that_moves_nothing_the_next_one_is_waited_for(folder: Path) -> None:
    fine = plan(read_program(folder / "FACE_POCKET.MPF"), MotionLimits()).sample(10.0, "mean")
    lines = np.unique(fine.line)
    still = next(line for line in range(int(lines[0]) + 1, int(lines[-1])) if line not in lines)
    follower = _follower(folder)
    told = {PROGRAM: "face_pocket", LINE: float(still)}
    first, later = follower.plan(told, 50.0, LAST, 4), follower.plan(told, 53.0, LAST, 4)
    begin = int(np.flatnonzero(fine.line > still)[0])
    speed = fine.commanded(canonical().commands)[:, canonical().command_names.index("spindle_speed")]
    assert first.commands["spindle_speed"][0] == pytest.approx(speed[begin : begin + 10].mean())
    assert later.commands == first.commands


@pytest.mark.parametrize(
    ("knob", "shown"), [(None, "100"), (97.4, "95"), (97.6, "100"), (2.0, "5"), (float("nan"), "100")]
)
def test_knobs_are_planned_in_steps_of_five_per_cent(folder: Path, knob: float | None, shown: str) -> None:
    line = float(plan(read_program(folder / "FACE_POCKET.MPF"), MotionLimits()).sample(1.0, "mean").line[0])
    told = {PROGRAM: "face_pocket", LINE: line, OVERRIDES["spindle_override"]: knob}
    assert _follower(folder).plan(told, 0.0, LAST, 2).sentence.endswith(f"spindle {shown} %")
