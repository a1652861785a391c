"""Parts: programs that our own parser understands and that cut something; Kienzle's turning force as a milling cut."""

import numpy as np
import pytest

from crossfeed.programs.parse import parse_program
from crossfeed.sim.factory.draw import FleetMachine, draw_machine
from crossfeed.sim.factory.motors import dice
from crossfeed.sim.factory.operations import OPERATIONS, Area, NcText, ToolUse
from crossfeed.sim.factory.parts import draw_piece
from crossfeed.sim.physics.cutting import torque
from crossfeed.sim.physics.jobs import play


def machine_of(kind: str) -> FleetMachine:
    return next(machine for number in range(100) if (machine := draw_machine(0, number)).kind.name == kind)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_operation_is_understood_and_as_long_as_asked(name: str) -> None:
    text = NcText(["G21 G17 G90 G94", "S3000 M3"])
    OPERATIONS[name].write(
        text, dice(0, 0, "parts"), ToolUse(8.0, 3000.0, 900.0, 1.0, 3.0), Area(10.0, 5.0, 60.0, 40.0, 0.0), 1500.0
    )
    program = parse_program("\n".join(text.lines))
    assert program.understood == 1.0
    assert not [finding for finding in program.findings if finding.severity == "error"]
    cutting = sum(move.length for move in program.moves if move.feed is not None)
    assert 100 < cutting < 4500


@pytest.mark.parametrize("kind", ["bench", "mill", "lathe"])
def test_a_piece_is_cut_out_of_its_stock(kind: str) -> None:
    machine = machine_of(kind)
    for item in range(3):
        job = draw_piece(machine, dice(0, 7, "parts", item)).job
        engaged = job.engagement.depth > 0
        assert 0.02 < engaged.mean() < 1
        assert not engaged[~job.cutting].any()
        assert np.abs(job.spindle_speed).max() <= machine.parameters.spindle.speed_limit
        assert 10 < job.seconds < 3000


def test_turning_takes_the_force_of_turning() -> None:
    """F = k_c a_p f^(1 - m_c); the material of a turned piece carries what the milling formula leaves out."""
    machine = machine_of("lathe")
    piece = draw_piece(machine, dice(0, 7, "parts"))
    inputs = play(piece.job, piece.material, 0.02).inputs
    at = np.flatnonzero(inputs.depth > 0)[:1]
    feed = 0.2  # mm per turn
    gain = torque(*(getattr(inputs, name)[at] for name in ("specific_force", "exponent", "depth", "width", "diameter")),
                  inputs.teeth[at])  # fmt: skip
    found = float(2000 * gain[0] * feed ** (1 - inputs.exponent[at][0]) / inputs.diameter[at][0])
    exponent = piece.material.exponent
    own_force = piece.material.specific_force / (np.pi * (2 / np.pi) ** exponent)
    assert found == pytest.approx(own_force * inputs.depth[at][0] * feed ** (1 - exponent))
