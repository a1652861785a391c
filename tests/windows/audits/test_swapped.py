"""Interchanged columns are found by what they hold."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossfeed.logs.table import Table
from crossfeed.windows.audits.commands import check_swapped
from crossfeed.windows.audits.load import load_case
from crossfeed.windows.audits.run import audit, run_checks
from tests.windows.audits.conftest import case_of


def test_the_michigan_header_trap_is_found(michigan_folder: Path) -> None:
    report = audit([michigan_folder / "experiment_01.csv"], only=["swapped"])
    assert report.exit_code == 1
    assert [finding.subject for finding in report.of("violation")] == [
        f"experiment_01: {drive}_DCBusVoltage and {drive}_OutputCurrent" for drive in ("X1", "Y1", "S1")
    ]
    assert all("OutputPower is" in finding.measured for finding in report.of("violation"))


def _drive(tmp_path: Path, *, swapped: bool) -> Path:
    rng = np.random.default_rng(0)
    current = np.abs(rng.normal(scale=3.0, size=200))
    bus = 565.0 + rng.normal(scale=2.0, size=200)
    columns = (current, bus) if swapped else (bus, current)
    lines = ["DCBusVoltage_X1,Current_X1"] + [f"{a:.4f},{b:.4f}" for a, b in zip(*columns, strict=True)]
    (tmp_path / "drive.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "drive.csv"


@pytest.mark.parametrize("swapped", [True, False])
def test_a_current_that_stands_like_a_dc_link(tmp_path: Path, swapped: bool) -> None:
    findings = list(check_swapped(load_case([_drive(tmp_path, swapped=swapped)])))
    assert [finding.severity for finding in findings] == (["violation"] if swapped else [])


def test_interchanged_axes_are_found(source: Table) -> None:
    names = source.schema.sensor_names
    x, y = names.index("x_torque"), names.index("y_torque")
    sensors = source.sensors.copy()
    sensors[:, [x, y]] = sensors[:, [y, x]]
    assert not list(check_swapped(case_of(source)))
    findings = run_checks(case_of(replace(source, sensors=sensors)), only=["swapped"]).of("violation")
    assert len(findings) == 1
    assert "x_torque and" in findings[0].subject
    assert "y_torque" in findings[0].subject
