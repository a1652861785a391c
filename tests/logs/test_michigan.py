"""Michigan runs: the interchanged header, the drive that was not measured, real files."""

import numpy as np
import polars as pl
import pytest

from crossfeed.errors import LogError
from crossfeed.logs.data_sets import MICHIGAN
from crossfeed.logs.pipeline import ingest


@pytest.fixture
def run(tmp_path):
    """A small run in the data set's format: header as published, with bus voltage and output current interchanged."""
    rows = 40
    generator = np.random.default_rng(0)
    frame = {"": np.arange(rows)}
    for column in MICHIGAN.columns:
        scale, level = (1.0, 325.0) if column.channel.endswith("dc_voltage") else (0.05, 0.1)
        frame[column.native] = level + scale * generator.random(rows)
        if column.native.startswith("Z1") and "Velocity" not in column.native:
            frame[column.native] = np.zeros(rows)
    path = tmp_path / "michigan" / "experiment_01.csv"
    path.parent.mkdir()
    pl.DataFrame(frame).write_csv(path)
    return path


def values_of(table, name: str) -> np.ndarray:
    return table.sensors[:, table.schema.sensor_names.index(name)]


def test_the_bus_carries_hundreds_of_volts_whatever_the_header_says(run) -> None:
    published = ingest(MICHIGAN, run)
    assert values_of(published, "x_dc_voltage").min() > 300
    assert "interchanged (x, y, spindle)" in published.manifest["findings"][0]
    header, rest = run.read_text().split("\n", 1)
    header = header.replace("DCBusVoltage", "?").replace("OutputCurrent", "DCBusVoltage").replace("?", "OutputCurrent")
    run.write_text(header + "\n" + rest)
    corrected = ingest(MICHIGAN, run)
    assert "are right (x, y, spindle)" in corrected.manifest["findings"][0]
    np.testing.assert_array_equal(corrected.sensors, published.sensors)


def test_the_z_drive_was_not_measured(run) -> None:
    table = ingest(MICHIGAN, run)
    absent = {name for name, present in zip(table.schema.sensor_names, table.present(), strict=True) if not present}
    assert absent == {"z_current", "z_output_current", "z_dc_voltage", "z_output_voltage"}
    assert table.manifest["repairs"]["z_current: zero throughout a run, not measured"] == 40


def test_ten_rows_a_second_and_commands_in_schema_units(run) -> None:
    raw = pl.read_csv(run)
    table = ingest(MICHIGAN, run)
    assert table.period == 0.1
    np.testing.assert_allclose(table.time, np.arange(40) / 10)
    np.testing.assert_allclose(table.commands[:, 0], raw["S1_CommandVelocity"].to_numpy() * 60)
    np.testing.assert_allclose(table.commands[:, 1], raw["X1_CommandVelocity"].to_numpy() * 60)
    slow = ingest(MICHIGAN, run, period=1.0)
    assert values_of(slow, "x_current")[1] == pytest.approx(raw["X1_CurrentFeedback"][1:11].mean())


def test_other_files_are_no_runs(tmp_path) -> None:
    (tmp_path / "train.csv").write_text("No,material\n1,wax\n")
    with pytest.raises(LogError, match="no Michigan log"):
        ingest(MICHIGAN, tmp_path)


def test_real_runs_ingest(michigan_folder) -> None:
    table = ingest(MICHIGAN, michigan_folder / "experiment_0[1-3].csv")
    assert [(group.run, len(group)) for group in table.groups] == [
        ("experiment_01", 1055),
        ("experiment_02", 1668),
        ("experiment_03", 1521),
    ]
    assert 300 < np.median(values_of(table, "spindle_dc_voltage")) < 340
    # Three-phase power of the spindle agrees with its voltage and current only if the columns are told apart.
    apparent = np.sqrt(3) * values_of(table, "spindle_output_voltage") * values_of(table, "spindle_output_current")
    cutting = values_of(table, "spindle_power") > 0.1
    assert np.median(apparent[cutting] / 1000 / values_of(table, "spindle_power")[cutting]) == pytest.approx(
        1.0, abs=0.2
    )
    assert table.commands[:, 0].max() == pytest.approx(3198, abs=5)
