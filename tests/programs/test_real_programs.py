"""Three NC programs from a real production: all of their motion is understood, and the sums are right."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from crossfeed.programs.blocks import Setup
from crossfeed.programs.parse import read_program
from crossfeed.programs.plan import plan

FILES = (
    "Bottle_opener_Flaschenoeffner.txt",
    "Coordinate_system_representation_Achskreuz.mpf",
    "Keychain_Schluesselanhaenger.mpf",
)
_WORD = re.compile(r"([A-Z]+)=?(-?[\d.]+)")


@pytest.fixture(params=FILES)
def path(request: pytest.FixtureRequest, thws_meta_folder: Path) -> Path:
    return thws_meta_folder / "nc" / request.param


def summed_by_hand(path: Path) -> tuple[float, float, float]:
    """Path length, cutting length and cutting time, added up by a reader that knows these three programs only.

    In the tilted operations the frame lies along the machine axes again, so the programmed numbers can be taken as
    they stand; moves home are brought to the work zero with the default offset.
    """
    offset, home = (
        Setup().work_offset,
        {"_X_HOME": "-365", "_Y_HOME": "224", "_Z_HOME": "610", "_B_HOME": "0", "_C_HOME": "0"},
    )
    place = [machine - zero for machine, zero in zip(Setup().home, offset)]
    code, feed, turning = 0, 0.0, False
    total = cutting = seconds = 0.0
    for text in path.read_text().splitlines():
        text = re.sub(r"^N\d+ ", "", text).split(";")[0]
        if re.match(r"DEF|_|TRANS|AROT|MSG|CYCLE|MCALL|T=|COMPOF|TRA", text):
            continue
        for name, value in home.items():
            text = text.replace(name, value)
        words = _WORD.findall(text)
        for address, value in words:
            if address == "G" and value in ("0", "1", "2", "3"):
                code = int(value)
            elif address == "F":
                feed = float(value)
            elif address == "M" and value in ("3", "5", "6"):
                turning = value == "3"
        axes = {address: float(value) for address, value in words if address in ("X", "Y", "Z", "I", "J")}
        target = [
            axes.get(axis, here + zero * ("SUPA" in text)) - zero * ("SUPA" in text)
            for axis, here, zero in zip("XYZ", place, offset)
        ]
        length = math.dist(place, target)
        if code in (2, 3) and ("I" in axes or "J" in axes):
            spoke = (-axes.get("I", 0.0), -axes.get("J", 0.0))
            other = (target[0] - place[0] + spoke[0], target[1] - place[1] + spoke[1])
            cross, dot = spoke[0] * other[1] - spoke[1] * other[0], spoke[0] * other[0] + spoke[1] * other[1]
            angle = math.atan2(cross if code == 3 else -cross, dot)
            angle = angle if angle > 1e-12 else angle + 2 * math.pi
            length = math.hypot(angle * math.hypot(*spoke), target[2] - place[2])
        place = target
        total += length
        if code and turning:
            cutting += length
            seconds += length / feed * 60.0
    return total, cutting, seconds


def test_motion_lines_are_understood(path: Path) -> None:
    program = read_program(path)
    assert program.motion_lines > 500
    assert program.understood >= 0.99
    assert program.skipped_calls["CYCLE832"] >= 4
    assert all(finding.severity != "error" for finding in program.findings)


def test_length_and_cutting_time_match_an_independent_sum(path: Path) -> None:
    program, (total, cutting, seconds) = read_program(path), summed_by_hand(path)
    cuts = [move for move in program.moves if move.feed is not None and move.spindle]
    assert sum(move.length for move in program.moves) == pytest.approx(total, rel=0.001)
    assert sum(move.length for move in cuts) == pytest.approx(cutting, rel=0.001)
    assert program.programmed_cutting_time == pytest.approx(seconds, rel=0.001)
    # Planned cuts lose a little at corners and on short moves; the bottle opener has 15 m/min links of 2 mm.
    assert seconds <= plan(program).cutting_time <= seconds * (1.04 if "Bottle" in path.name else 1.01)


def test_path_closes_and_stays_within_the_machine(path: Path) -> None:
    program = read_program(path)
    trace = plan(program).sample(10, "mean")
    machine = trace.position + np.array(Setup().work_offset)
    low, high = np.array([-365.0, -200.0, 152.0]), np.array([90.2, 224.1, 610.1])
    assert ((machine >= low - 1e-9) & (machine <= high)).all()
    assert np.allclose(machine[-1], Setup().home)
    for before, after in zip(program.moves, program.moves[1:]):
        assert np.allclose(before.end, after.start, atol=1e-9)


def test_only_the_drilling_cycle_of_the_keychain_is_left_out(thws_meta_folder: Path) -> None:
    program = read_program(thws_meta_folder / "nc" / FILES[2])
    assert program.skipped_calls["CYCLE81"] == 1
    assert [finding.line for finding in program.findings] == [632]


def test_tools_and_speeds(thws_meta_folder: Path) -> None:
    program = read_program(thws_meta_folder / "nc" / FILES[0])
    trajectory = plan(program)
    assert trajectory.tools == ("SCHAFT_D8_N_AP20", "SCHAFT_D4_N_AP20", "ENTFRAESER_D8_90GRAD", "")
    assert {move.spindle for move in program.moves if move.feed} == {20000.0, 43768.0}
    assert "43768 rpm is above the spindle's 20000 rpm" in trajectory.remarks[0].reason
