"""Fleets and single programs: logs with mappings that ingest reads, and the command line over all of it."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import MachineError, ProgramError, StorageError
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.programs.parse import parse_program
from crossfeed.sim.physics.catalogue import machine_named, random_machine
from crossfeed.sim.physics.cutting import material_named
from crossfeed.sim.physics.jobs import motion_limits, play, prepare
from crossfeed.sim.physics.rollout import SimulatedMachine
from crossfeed.sim.simulate import related, simulate_fleet, simulate_program

PROGRAM = """; Material: steel
G17 G90 G94
T="SCHAFT_D10_N_AP30"
M6
G0 X0 Y0 Z5 S3000 M3
G1 Z-1 F300
X40 F500
Y20
G0 Z50
M5
M30
"""


@pytest.fixture
def nc_file(tmp_path: Path) -> Path:
    path = tmp_path / "slot.mpf"
    path.write_text(PROGRAM)
    return path


def test_a_fleet_can_be_ingested_through_its_mappings(tmp_path: Path) -> None:
    for summary in simulate_fleet(tmp_path, 2, seed=3):
        log, mapping = summary.files
        table = ingest(log_format_named("table", mapping), log)
        assert table.machines() == (summary.machine,)
        expected = random_machine(int(summary.machine.removeprefix("fleet_"))).logging.sensors
        present = [name for name, there in zip(table.schema.sensor_names, table.present()) if there]
        assert set(present) >= set(expected)
        assert len(table.groups) == summary.sessions
        low, high = (summary.ranges["spindle_speed"][side] for side in ("low", "high"))
        speeds = table.commands[:, 0]
        assert low - 1 <= speeds.min()
        assert 0.9 * high <= speeds.max() <= high + 1


@pytest.mark.parametrize("seed", range(20))
def test_two_machines_of_a_fleet_share_enough_sensors_to_be_a_pair(seed: int) -> None:
    first, *others = (
        set(machine.logging.sensors) for machine in related([random_machine(10_000 * seed + i) for i in range(3)])
    )
    assert len(first) >= 11
    for other in others:
        assert len(first & other) >= 8
        assert "spindle_power" in first & other


def test_a_fleet_needs_a_machine(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"1 to 10,000 machines"):
        simulate_fleet(tmp_path, 10**20)
    with pytest.raises(MachineError, match="fleet of 0"):
        simulate_fleet(tmp_path, 0)


def test_a_users_program_gives_a_log_a_mapping_and_a_sheet(nc_file: Path, tmp_path: Path) -> None:
    summary = simulate_program(tmp_path / "out", str(nc_file), "spinner_620")
    assert [path.name for path in summary.files] == ["log.csv", "mapping.yaml", "sheet.png"]
    assert summary.files[2].read_bytes().startswith(b"\x89PNG")
    assert not summary.remarks
    table = ingest(log_format_named("table", summary.files[1]), summary.files[0].parent)
    assert table.groups[0].program == "slot"
    assert summary.ranges["spindle_speed"]["high"] == 3000


def test_steel_needs_more_torque_than_aluminium_and_pla() -> None:
    machine = SimulatedMachine(machine_named("spinner_620"))
    job = prepare(parse_program(PROGRAM), motion_limits(machine.parameters))
    torques = []
    for material in ("pla", "aluminium", "steel"):
        played = play(job, material_named(material), machine.time_step)
        trace, _ = machine.run(played.inputs, machine.rest())
        torques.append(float(np.median(trace["spindle_torque"][played.inputs.depth > 0])))
    assert torques[0] < torques[1] < torques[2]


def test_what_had_to_be_assumed_is_said(tmp_path: Path) -> None:
    path = tmp_path / "plain.nc"
    path.write_text("G90 G94\nT7 M6\nS2000 M3\nG0 X0 Y0 Z5\nG1 Z1 F200\nG77 X3\nX30\nM30\n")
    remarks = " | ".join(simulate_program(tmp_path / "out", str(path)).remarks)
    assert "material is not named" in remarks
    assert "nothing is cut" in remarks
    assert "line 6" in remarks


def test_programs_that_cannot_be_run_are_refused(tmp_path: Path, nc_file: Path) -> None:
    binary = tmp_path / "binary.mpf"
    binary.write_bytes(bytes(range(256)) * 10)
    with pytest.raises(ProgramError, match="binary"):
        simulate_program(tmp_path / "out", str(binary))
    with pytest.raises(StorageError):
        simulate_program(tmp_path / "out", str(tmp_path / "missing.mpf"))
    with pytest.raises(MachineError, match="no material 'wood'"):
        simulate_program(tmp_path / "out", str(nc_file), material="wood")
    with pytest.raises(MachineError, match="no machine 'lathe'"):
        simulate_program(tmp_path / "out", str(nc_file), "lathe")
    with pytest.raises(MachineError, match="no place"):
        simulate_program(tmp_path / "out", str(nc_file), stock_top=float("nan"))
    assert not (tmp_path / "out").exists()


def test_the_command_line_prints_a_summary_and_json(nc_file: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    arguments = ["simulate", str(tmp_path / "out"), "--program", str(nc_file), "--machine", "random:4"]
    plain = runner.invoke(app, arguments)
    assert plain.exit_code == 0
    assert "fleet_004" in plain.stdout
    machine = runner.invoke(app, [*arguments, "--json"])
    summary = json.loads(machine.stdout)[0]
    assert summary["machine"] == "fleet_004"
    assert summary["ranges"]["spindle_speed"]["high"] == 3000
    assert runner.invoke(app, [*arguments, "--fleet", "2"]).exit_code == 2
    assert "Example" in runner.invoke(app, ["simulate", "--help"]).stdout
