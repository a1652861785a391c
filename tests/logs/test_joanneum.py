"""JOANNEUM traces: runs in parts, chunks to ignore, cycles to trust, archives to unpack."""

import shutil
import zipfile

import numpy as np
import pytest

from crossfeed.errors import LogError
from crossfeed.logs.data_sets import JOANNEUM, with_cycle
from crossfeed.logs.pipeline import ingest


@pytest.fixture
def folder(make_joanneum_log):
    """Two runs in three files; the full one has a hole, so there are four sessions."""
    make_joanneum_log("Enerman_Alu_full.csv", [*range(1, 2001), *range(2501, 4501)], folder="joanneum/Enerman_Alu")
    make_joanneum_log("WG_Vorderseite_PLA_part1.csv", range(1001, 3001))
    make_joanneum_log("WG_Vorderseite_PLA_part2.csv", range(3001, 4751), part=2)
    chunk = make_joanneum_log("WG_Vorderseite_PLA_chunk1.csv", range(1001, 1501))
    (chunk.parent / "WG_Vorderseite_PLA.zip").write_bytes(b"not looked at")
    return chunk.parent


def test_runs_sessions_and_rows(folder) -> None:
    table = ingest(JOANNEUM, folder)
    assert [(g.run, g.session, g.program, len(g)) for g in table.groups] == [
        ("Enerman_Alu", "Enerman_Alu-001", "Enerman", 4),
        ("Enerman_Alu", "Enerman_Alu-002", "Enerman", 4),
        ("WG_Vorderseite_PLA", "WG_Vorderseite_PLA-001", "WG_Vorderseite", 4),
        ("WG_Vorderseite_PLA", "WG_Vorderseite_PLA-002", "WG_Vorderseite", 4),
    ]
    counts = table.manifest["counts"]
    assert (counts["raw_rows"], counts["kept_rows"], counts["runs"], counts["sessions"]) == (7750, 7750, 2, 4)
    assert table.manifest["findings"] == []
    assert [file["name"] for file in table.manifest["files"]] == [
        "Enerman_Alu_full.csv",
        "WG_Vorderseite_PLA_part1.csv",
        "WG_Vorderseite_PLA_part2.csv",
    ]


@pytest.mark.parametrize("rule", ["crossfeed", "paper"])
def test_cycles_that_go_on_in_the_next_file_were_cut_at_the_file(folder, make_joanneum_log, rule) -> None:
    make_joanneum_log("WG_Vorderseite_PLA_part2.csv", range(3001, 4751), part=1)
    table = ingest(JOANNEUM, folder, rule=rule)
    assert [group.session for group in table.groups if group.run == "WG_Vorderseite_PLA"] == ["WG_Vorderseite_PLA-001"]
    make_joanneum_log("WG_Vorderseite_PLA_part2.csv", range(3002, 4751), part=1)
    assert ingest(JOANNEUM, folder, rule=rule).manifest["counts"]["sessions"] == 4, "one cycle is missing"


def test_values_are_bin_means_in_canonical_units(folder) -> None:
    table = ingest(JOANNEUM, folder)
    cycle = np.arange(501, 1001)
    index = table.schema.sensor_names.index("spindle_power")
    power = np.sin(0.001 * cycle + 15)
    assert table.sensors[1, index] == pytest.approx(power.mean() * 1e-3, rel=1e-6)
    # 6000 deg/s are 1000 rpm; the set-point is 12000 in cycles 501 to 999 and 6000 in cycle 1000.
    assert table.commands[1, 0] == pytest.approx((499 * 2000 + 1000) / 500, rel=1e-9)
    # By the paper's rule the bin is that of cycles 500 to 999, and the last one decides.
    assert ingest(JOANNEUM, folder, rule="paper").commands[1, 0] == pytest.approx(2000.0)


def test_another_length_of_the_cycle_stretches_time_and_cuts_nothing_else(folder) -> None:
    usual, longer = ingest(JOANNEUM, folder), ingest(with_cycle("4 ms"), folder)
    assert [group.session for group in longer.groups] == [group.session for group in usual.groups]
    assert [len(group) for group in longer.groups] == [8, 8, 8, 7], "1,750 cycles are 7 s now, not 3.5"
    assert ingest(with_cycle("2 ms"), folder).fingerprint() == usual.fingerprint()


def test_absent_channels_stay_absent(folder) -> None:
    table = ingest(JOANNEUM, folder)
    assert table.present().sum() == 10
    assert np.isnan(table.sensors[:, ~table.present()]).all()
    assert np.isfinite(table.commands).all()


def test_a_zip_gives_the_same_table_as_the_folder(folder, tmp_path) -> None:
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for file in folder.rglob("*.*"):
            if file.is_file():
                out.write(file, f"CNC Machining Data Repository/{file.relative_to(folder)}")
    table = ingest(JOANNEUM, archive)
    assert table.fingerprint() == ingest(JOANNEUM, folder).fingerprint()
    assert [file["name"] for file in table.manifest["files"]] == ["all.zip"]


def test_duplicated_and_shuffled_cycles_are_repaired_and_counted(folder, make_joanneum_log) -> None:
    wanted = ingest(JOANNEUM, folder)
    cycles = [*range(1, 2001), *range(2501, 4501)]
    shuffled = [*cycles[2000:], *cycles[:2000], *cycles[500:600]]
    make_joanneum_log("Enerman_Alu_full.csv", shuffled, folder="joanneum/Enerman_Alu")
    table = ingest(JOANNEUM, folder)
    assert table.fingerprint() == wanted.fingerprint()
    assert table.manifest["counts"]["duplicates_dropped"] == 100
    assert table.manifest["repairs"] == {"clock ran backwards, rows sorted by time": 2}


def test_a_second_part_that_begins_late_is_a_finding_and_one_that_overlaps_is_refused(
    folder, make_joanneum_log
) -> None:
    make_joanneum_log("WG_Vorderseite_PLA_part2.csv", range(3011, 4751), part=2)
    assert ingest(JOANNEUM, folder).manifest["findings"] == [
        "WG_Vorderseite_PLA: part 2 begins 10 cycles after the end of part 1"
    ]
    make_joanneum_log("WG_Vorderseite_PLA_part2.csv", range(1, 1751), part=2)
    with pytest.raises(LogError, match="begins at cycle 1, inside part 1"):
        ingest(JOANNEUM, folder)


def test_missing_parts_doubled_runs_and_empty_folders_are_refused(folder, tmp_path) -> None:
    shutil.copytree(folder, tmp_path / "copy" / "again")
    shutil.copytree(folder, tmp_path / "copy" / "once")
    with pytest.raises(LogError, match="comes twice"):
        ingest(JOANNEUM, tmp_path / "copy")
    (folder / "WG_Vorderseite_PLA_part1.csv").unlink()
    with pytest.raises(LogError, match="not complete"):
        ingest(JOANNEUM, folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="no JOANNEUM log"):
        ingest(JOANNEUM, tmp_path / "empty")


def test_column_names_in_another_case_and_without_part_column(folder) -> None:
    wanted = ingest(JOANNEUM, folder)
    for file in folder.rglob("*_full.csv"):
        header, rest = file.read_text().split("\n", 1)
        file.write_text(header.upper().replace("PART", "piece") + "\n" + rest)
    assert ingest(JOANNEUM, folder).fingerprint() == wanted.fingerprint()
