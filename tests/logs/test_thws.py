"""THWS logs: jog, status, gaps, duplicates and short sessions as the data set has them."""

import numpy as np
import polars as pl
import pytest

from crossfeed.errors import LogError
from crossfeed.logs.data_sets import THWS, base_name
from crossfeed.logs.pipeline import ingest

OPENER = "/_N_MPF_DIR/_N_OPENER_MPF"
JOG = "/_N_MPF_DIR/_N_MA_JOG_STEP1_MPF"


def test_program_names_are_the_last_element_without_the_controllers_marks() -> None:
    paths = [OPENER, JOG, "//NC:/WKS.DIR/KEY.WPD/KEYCHAIN", "/_N_WKS_DIR/", None]
    assert pl.select(base_name(pl.lit(pl.Series(paths)))).to_series().to_list() == [
        "OPENER",
        "MA_JOG_STEP1",
        "KEYCHAIN",
        "WKS_DIR",
        None,
    ]


def test_segmentation_follows_status_jog_path_gap_and_length(make_thws_log) -> None:
    rows = [(t, 3, OPENER) for t in range(100)]
    rows += [(100 + t, 2, OPENER) for t in range(20)]
    rows += [(120 + t, 3, OPENER) for t in range(70)]
    rows += [(190 + t, 3, JOG) for t in range(80)]
    rows += [(270 + t, 3, "/_N_MPF_DIR/_N_KEY_MPF") for t in range(64)]
    rows += [(400 + t, 3, OPENER) for t in range(63)]
    rows += [(120, 3, OPENER)]
    table = ingest(THWS, make_thws_log(rows))
    assert [(g.run, g.program, len(g)) for g in table.groups] == [
        ("2024-03-12", "OPENER", 100),
        ("2024-03-12", "OPENER", 70),
        ("2024-03-12", "KEY", 64),
    ]
    counts = table.manifest["counts"]
    assert (counts["rows_read"], counts["duplicates_dropped"]) == (len(rows), 1)
    assert counts["raw_rows"] == counts["kept_rows"] + sum(counts["dropped_rows"].values())
    assert counts["kept_rows"] == 234
    assert counts["dropped_rows"] == {
        "Program_status is not 3": 20,
        "program MA_JOG_STEP1": 80,
        "session shorter than 64 rows": 63,
    }
    assert table.manifest["repairs"] == {"clock ran backwards, rows sorted by time": 1}


def test_all_17_sensors_and_4_commands_are_there_in_canonical_order(make_thws_log) -> None:
    path = make_thws_log([(t, 3, OPENER) for t in range(70)])
    table = ingest(THWS, path)
    raw = pl.read_csv(path)
    assert table.present().all()
    np.testing.assert_allclose(table.sensors[:, 14], raw["Spindle_smoothed_intermediate_circuit_Voltage"].to_numpy())
    np.testing.assert_allclose(table.commands[:, 3], raw["Z-axis_feed"].to_numpy())


def test_jitter_leaves_bins_empty_or_doubled_but_never_looks_ahead(make_thws_log) -> None:
    seconds = [t + (0.4 if t % 7 == 3 else -0.4 if t % 7 == 4 else 0.0) for t in range(80)]
    path = make_thws_log([(second, 3, OPENER) for second in seconds])
    table = ingest(THWS, path)
    values = pl.read_csv(path)["Spindle_smoothed_current"].to_numpy()
    assert len(table) == 80
    assert table.sensors[2, 0] == values[2]
    # Second 3 was logged at 3.4 and second 4 at 3.6: the bin (2, 3] is empty and (3, 4] holds two samples.
    assert table.sensors[3, 0] == values[2]
    assert table.sensors[4, 0] == pytest.approx(values[3:5].mean())
    assert table.manifest["counts"]["empty_bins"] == 11


def test_a_renamed_column_is_named_with_the_nearest_one(make_thws_log) -> None:
    path = make_thws_log([(t, 3, OPENER) for t in range(70)])
    path.write_text(path.read_text().replace("Spindle_smoothed_torque", "Spindle_smooth_torque"))
    with pytest.raises(LogError, match=r"'Spindle_smoothed_torque' \(did you mean 'Spindle_smooth_torque'\?\)"):
        ingest(THWS, path)


def test_times_that_cannot_be_read_are_dropped_and_counted(make_thws_log) -> None:
    path = make_thws_log([(t, 3, OPENER) for t in range(70)])
    path.write_text(path.read_text().replace("2024-03-12 08:16:35.000", "yesterday"))
    assert ingest(THWS, path).manifest["counts"]["dropped_rows"] == {"no readable time": 1}


def test_a_folder_without_exactly_one_log_is_refused(tmp_path, make_thws_log) -> None:
    with pytest.raises(LogError, match="holds 0 files"):
        ingest(THWS, tmp_path)
    make_thws_log([(0, 3, OPENER)], name="data_1.csv")
    path = make_thws_log([(0, 3, OPENER)], name="data_2.csv")
    with pytest.raises(LogError, match=r"data_1\.csv, data_2\.csv"):
        ingest(THWS, path.parent)


def test_a_log_without_a_running_program_says_why_nothing_is_left(make_thws_log) -> None:
    with pytest.raises(LogError, match="70 rows: Program_status is not 3"):
        ingest(THWS, make_thws_log([(t, 5, OPENER) for t in range(70)]))
