"""The bundled programs are clean, varied and of the size of a real job."""

from pathlib import Path

import pytest

from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import Dwell, Setup
from crossfeed.programs.parse import bundled_programs, program_path, read_program
from crossfeed.programs.plan import plan

NAMES = ("bracket", "contour_helix", "drill_plate", "face_pocket", "pla_cover", "steel_guide")


def test_all_are_listed() -> None:
    assert tuple(bundled_programs()) == NAMES
    assert {path.suffix for path in bundled_programs().values()} == {".mpf", ".nc"}
    assert all(path.stat().st_size < 80_000 for path in bundled_programs().values())


@pytest.mark.parametrize("name", NAMES)
def test_program_is_clean_and_takes_minutes(name: str) -> None:
    program = read_program(bundled_programs()[name])
    trajectory = plan(program)
    assert program.findings == ()
    assert trajectory.remarks == ()
    assert program.understood == 1.0
    assert 60 <= trajectory.duration <= 1200
    assert trajectory.cutting_time > 0.6 * trajectory.duration
    feeds = {move.feed for move in program.moves if move.feed is not None}
    assert min(feeds) >= 100
    assert max(feeds) <= 4000


@pytest.mark.parametrize("name", NAMES)
def test_program_stays_within_the_machine(name: str) -> None:
    setup = Setup()
    for move in read_program(bundled_programs()[name]).moves:
        x, y, z = (place + zero for place, zero in zip(move.end, setup.work_offset))
        assert -365 <= x <= 90.2
        assert -200 <= y <= 224
        assert 152 <= z <= 610


def test_the_bracket_uses_six_tools_and_the_plate_dwells() -> None:
    assert sum(bool(tool) for tool in plan(read_program(program_path("bundled:bracket"))).tools) == 6
    plate = read_program(program_path("bundled:drill_plate"))
    assert sum(isinstance(block, Dwell) for block in plate.blocks) == 160
    assert any(move.per_revolution for move in plate.moves)


def test_names_and_paths() -> None:
    assert program_path("bundled:bracket") == bundled_programs()["bracket"]
    assert program_path("some/part.mpf") == Path("some/part.mpf")
    with pytest.raises(ProgramError, match="bundled:bracket"):
        program_path("bundled:nothing")
