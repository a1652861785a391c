"""From logs to a table as a whole: the manifest tells the truth, the same logs give the same table."""

import hashlib
import json

import numpy as np
import pytest

from crossfeed.logs.data_sets import JOANNEUM, THWS
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table

PROGRAM = "/_N_MPF_DIR/_N_OPENER_MPF"


@pytest.fixture
def thws_log(make_thws_log):
    return make_thws_log([(t, 3, PROGRAM) for t in range(100)])


def test_the_manifest_counts_describes_and_can_be_written(thws_log) -> None:
    table = ingest(THWS, thws_log)
    manifest = table.manifest
    assert json.loads(json.dumps(manifest, allow_nan=False)) == manifest
    assert manifest["files"] == [
        {
            "name": "data_v1_0_1.csv",
            "bytes": thws_log.stat().st_size,
            "sha256": hashlib.sha256(thws_log.read_bytes()).hexdigest(),
        }
    ]
    assert manifest["rules"]["segmentation"]["gap_s"] == 5.0
    assert set(manifest["versions"]) == {"crossfeed", "polars"}
    for index, name in enumerate(table.schema.sensor_names):
        entry, values = manifest["channels"][name], table.sensors[:, index]
        assert entry["count"] == np.isfinite(values).sum()
        assert entry["mean"] == pytest.approx(np.nanmean(values))
        assert entry["std"] == pytest.approx(np.nanstd(values))
        assert (entry["min"], entry["max"]) == (np.nanmin(values), np.nanmax(values))
        assert entry["quantiles"]["0.5"] == pytest.approx(np.nanmedian(values))


def test_a_channel_without_any_value_has_no_statistics_but_a_count_of_zero(make_joanneum_log) -> None:
    path = make_joanneum_log("Enerman_Alu_full.csv", range(1, 1001))
    entry = ingest(JOANNEUM, path).manifest["channels"]["ambient_temp"]
    assert (entry["count"], entry["null_share"]) == (0, 1.0)
    assert "mean" not in entry
    assert "native" not in entry


def test_the_same_logs_give_the_same_bytes(thws_log, tmp_path) -> None:
    for name in ("a", "b"):
        ingest(THWS, thws_log).write(tmp_path / name / "t.parquet")
    assert (tmp_path / "a/t.parquet").read_bytes() == (tmp_path / "b/t.parquet").read_bytes()
    assert (tmp_path / "a/t.manifest.json").read_bytes() == (tmp_path / "b/t.manifest.json").read_bytes()


def test_everything_survives_the_way_through_the_file(thws_log, tmp_path) -> None:
    table = ingest(THWS, thws_log, deviation=True, machine="mill_9")
    table.write(tmp_path / "t.parquet")
    back = Table.read(tmp_path / "t.parquet")
    assert back.fingerprint() == table.fingerprint()
    assert back.manifest == table.manifest
    assert back.machines() == ("mill_9",)
    assert set(back.extras) == {f"{name}__std" for name in table.schema.sensor_names}


def test_changing_the_log_after_t_changes_no_row_up_to_t(make_thws_log) -> None:
    path = make_thws_log([(t + 0.3 * (t % 3), 3, PROGRAM) for t in range(200)])
    full = ingest(THWS, path)
    lines = path.read_text().splitlines()
    late = [",".join([*line.split(",")[:4], *("77.0",) * 21]) for line in lines[121:]]
    path.write_text("\n".join([*lines[:121], *late]) + "\n")
    other = ingest(THWS, path)
    # Line 120 is the sample of second 119 (+ 0.6 s), so everything up to second 119 must be the same.
    until = int(np.searchsorted(full.time, full.time[0] + 119, side="right"))
    assert not np.allclose(full.sensors[until + 2 :], other.sensors[until + 2 :])
    np.testing.assert_array_equal(full.sensors[:until], other.sensors[:until])
    np.testing.assert_array_equal(full.commands[:until], other.commands[:until])


def test_infinities_and_text_become_absent_and_are_counted_by_channel(thws_log) -> None:
    lines = thws_log.read_text().splitlines()
    for number, word in ((10, "inf"), (11, "inf"), (20, "broken")):
        cells = lines[number].split(",")
        cells[4] = word
        lines[number] = ",".join(cells)
    thws_log.write_text("\n".join(lines) + "\n")
    repairs = ingest(THWS, thws_log).manifest["repairs"]
    assert repairs == {"spindle_current: text in a numeric column": 1, "spindle_current: infinite": 2}
