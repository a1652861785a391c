"""Set-points stand still; measured speeds tremble."""

from pathlib import Path

import numpy as np

from crossfeed.logs.table import Group, Table
from crossfeed.windows.audits.commands import check_commands
from crossfeed.windows.audits.load import load_case
from crossfeed.windows.audits.subject import Case, Signal, Subject
from tests.windows.audits.conftest import case_of, spindle_rows


def _spindle(noise: float, lag: int = 0) -> Case:
    columns = spindle_rows(600)
    rng = np.random.default_rng(1)
    speed = columns["spindle_speed"] + noise * rng.normal(size=600)
    current = np.abs(np.diff(columns["spindle_speed"], prepend=0.0)) / 1000.0 + 0.1 * rng.random(600)
    signals = (
        Signal("spindle_speed", "rotational speed", "rpm", "command", np.roll(speed, lag)),
        Signal("spindle_current", "current", "A", "sensor", current),
    )
    return Case((Subject("mill", signals, (Group("mill", "s", "r", "p", 0, 600),), None, None, True),))


def test_set_points_pass() -> None:
    assert not list(check_commands(_spindle(noise=0.0)))


def test_a_trembling_speed_is_a_measured_one() -> None:
    findings = list(check_commands(_spindle(noise=5.0)))
    assert [finding.severity for finding in findings] == ["warning"]
    assert "repeat exactly" in findings[0].measured


def test_a_command_that_comes_after_its_effect_is_a_measured_one() -> None:
    findings = list(check_commands(_spindle(noise=0.0, lag=2)))
    assert findings[0].numbers["lag_rows"] == -2


def test_real_set_points_and_real_measured_speeds_are_told_apart(michigan_folder: Path, tmp_path: Path) -> None:
    text = (michigan_folder / "experiment_01.csv").read_text().splitlines()
    as_logged = load_case([michigan_folder / "experiment_01.csv"])
    assert not list(check_commands(as_logged))
    exchanged = text[0].replace("Command", "#").replace("Actual", "Command").replace("#", "Actual")
    (tmp_path / "exchanged.csv").write_text("\n".join([exchanged, *text[1:]]) + "\n")
    found = {finding.subject for finding in check_commands(load_case([tmp_path / "exchanged.csv"]))}
    assert "exchanged: S1_CommandVelocity" in found
    assert {"exchanged: X1_CommandVelocity", "exchanged: Y1_CommandVelocity"} <= found


def test_simulated_set_points_pass(source: Table) -> None:
    assert not list(check_commands(case_of(source)))


def test_simulated_measured_commands_are_found(tmp_path: Path) -> None:
    from crossfeed.logs.log_formats import log_format_named
    from crossfeed.logs.pipeline import ingest
    from crossfeed.sim import thws
    from crossfeed.sim.physics.production import Order

    order = Order(rows=1_200, sessions=6, raw_rows=2_200, duplicates=3, lost_rows=1)
    thws.export(tmp_path / "thws", order, 1, True)
    found = [f.subject for f in check_commands(case_of(ingest(log_format_named("thws"), tmp_path / "thws")))]
    assert "thws: spindle_speed" in found
