"""The two native formats, read back with nothing but the facts about them."""

import csv
import hashlib
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from crossfeed.errors import MachineError, StorageError
from crossfeed.logs.data_sets import JOANNEUM, THWS
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.resample import values_ahead
from crossfeed.logs.table import Table
from crossfeed.sim import thws
from crossfeed.sim.log_files import LogSummary, write_csv
from crossfeed.sim.physics.production import Order
from crossfeed.sim.simulate import Scale, simulate_pair
from crossfeed.windows.split_tables import count_windows

SCALE = Scale(Order(rows=1_500, sessions=6, raw_rows=3_600, duplicates=7, lost_rows=2), cycles=325_000)
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LogSummary, LogSummary]:
    out = tmp_path_factory.mktemp("pair")
    source, target = simulate_pair(out, SCALE, seed=5)
    return out, source, target


@pytest.fixture(scope="module")
def documented() -> dict[str, tuple[float, float]]:
    """The value ranges that the authors of the THWS data publish, by lower-case column name."""
    folder = Path(os.environ.get("CROSSFEED_THWS_META", ROOT.parent / "shared" / "data" / "thws_meta"))
    if not (folder / "features.csv").exists():
        pytest.skip("the feature list of the THWS data is not on this machine")
    ranges = {}
    with (folder / "features.csv").open(encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            numbers = [part.strip(" .…") for part in row["Value range"].split(",")]
            numbers = [number for number in numbers if number.lstrip("-").replace(".", "", 1).isdigit()]
            if len(numbers) >= 2:
                ranges[row["Feature Name"].lower()] = (float(numbers[0]), float(numbers[-1]))
    return ranges


def thws_sessions(log: Path) -> pl.DataFrame:
    """The segmentation of the THWS log, word by word as the facts about it state it."""
    rows = pl.read_csv(log, infer_schema_length=None).with_columns(pl.col("time").str.to_datetime())
    rows = rows.sort("time", maintain_order=True).unique("time", keep="first", maintain_order=True)
    name = pl.col("Program_path").str.split("/").list.last().str.strip_prefix("_N_").str.strip_suffix("_MPF")
    rows = rows.filter(pl.col("Program_status") == 3).with_columns(name.alias("program"))
    rows = rows.filter(pl.col("program") != "MA_JOG_STEP1")
    begins = (pl.col("time").diff().dt.total_seconds() > 5) | (pl.col("Program_path") != pl.col("Program_path").shift())
    rows = rows.with_columns(begins.fill_null(True).cum_sum().alias("session"))
    return rows.filter(pl.len().over("session") >= 64)


def test_the_thws_log_keeps_exactly_the_ordered_rows(pair: tuple[Path, LogSummary, LogSummary]) -> None:
    out, source, _ = pair
    log = out / "thws" / "data_v1_0_1.csv"
    kept = thws_sessions(log)
    assert (kept.height, kept["session"].n_unique()) == (1_500, 6)
    raw = pl.read_csv(log, infer_schema_length=None)
    assert raw.height == source.raw_rows == 3_600
    assert raw.height - raw["time"].n_unique() == 7
    assert source.files == (log,)


def test_the_thws_log_looks_like_a_real_one(pair: tuple[Path, LogSummary, LogSummary]) -> None:
    log = pair[0] / "thws" / "data_v1_0_1.csv"
    header = log.read_text().split("\n", 1)[0]
    assert header.startswith(",time,")
    raw = pl.read_csv(log, infer_schema_length=None)
    assert {column.native for column in THWS.columns} < set(raw.columns)
    index = raw[""].to_numpy()
    assert (index == 0).sum() == 3
    assert set(np.diff(index)) <= {1, *(-index[np.flatnonzero(np.diff(index) != 1)])}
    days = raw["time"].str.slice(0, 10).unique(maintain_order=True).to_list()
    assert days == ["2024-03-12", "2024-03-20", "2024-03-22"]
    assert set(raw["Program_status"].unique()) <= {1.0, 2.0, 3.0, 5.0}
    assert raw["Program_path"].str.contains("MA_JOG_STEP1").any()
    assert raw["Program_path"].str.starts_with("/_N_").all()
    sensors = [column.native for column in THWS.columns]
    assert 0 < sum(raw[name].null_count() for name in sensors) < 0.005 * raw.height * len(sensors)
    assert raw["Feed_override"].n_unique() > 3


def test_idle_and_cutting_can_be_told_apart(pair: tuple[Path, LogSummary, LogSummary]) -> None:
    raw = pl.read_csv(pair[0] / "thws" / "data_v1_0_1.csv", infer_schema_length=None)
    idle = raw.filter((pl.col("Program_status") == 5) & (pl.col("Spindle_speed") == 0))
    running = raw.filter((pl.col("Program_status") == 3) & (pl.col("Spindle_speed") > 1000))
    assert abs(float(np.median(idle["Spindle_smoothed_torque"].drop_nulls()))) < 0.1
    assert float(np.median(running["Spindle_smoothed_torque"].drop_nulls())) > 0.4
    assert float(running["Spindle_smoothed_active_power"].quantile(0.9) or 0) > 1.0


def test_simulated_ranges_lie_within_the_documented_ones_and_use_them(
    pair: tuple[Path, LogSummary, LogSummary], documented: dict[str, tuple[float, float]]
) -> None:
    native = {column.channel: column.native.lower() for column in THWS.columns}
    for channel, span in pair[1].ranges.items():
        low, high = span["low"], span["high"]
        lowest, highest = documented[native[channel]]
        assert lowest <= low <= high <= highest, channel
        assert high - low > 0.25 * (highest - lowest), channel


def test_the_joanneum_files_hold_exactly_the_ordered_cycles(pair: tuple[Path, LogSummary, LogSummary]) -> None:
    out, _, target = pair
    names = sorted(path.relative_to(out / "joanneum").as_posix() for path in target.files)
    runs = [f"WG_{side}_{material}" for side in ("Vorderseite", "Rueckseite") for material in ("Alu", "PLA")]
    full = [f"{run}/{run}_full.csv" for run in ("Enerman_Alu", "Enerman_PLA", "Enerman_Part2")]
    assert names == sorted([*full, *(f"{run}/{run}_part{part}.csv" for run in runs for part in (1, 2))])
    rows, lengths, doubled = 0, [], 0
    for path in target.files:
        frame = pl.read_csv(path, columns=["Cycle", "part"])
        cycles = frame["Cycle"].unique().sort().to_numpy()
        rows += len(cycles)
        doubled += frame.height - len(cycles)
        breaks = np.flatnonzero(np.diff(cycles) > 1)
        lengths += [len(part) for part in np.split(cycles, breaks + 1)]
        assert frame["part"].unique().to_list() == [2 if path.stem.endswith("part2") else 1]
    assert rows == 325_000
    assert len(lengths) == 13
    assert sum(length * 0.002 < 48 for length in lengths) == 1
    assert doubled > 0
    assert rows + doubled == target.raw_rows
    assert len(list((out / "joanneum").rglob("*_chunk*.csv"))) == 2


def test_part_two_begins_one_cycle_after_part_one(pair: tuple[Path, LogSummary, LogSummary]) -> None:
    for run in ("WG_Vorderseite_Alu", "WG_Rueckseite_PLA"):
        first, second = (
            pl.read_csv(pair[0] / "joanneum" / run / f"{run}_part{part}.csv", columns=["Cycle"])["Cycle"]
            for part in (1, 2)
        )
        assert second.min() == int(first.to_numpy().max()) + 1


def test_joanneum_units_are_those_of_the_controller(pair: tuple[Path, LogSummary, LogSummary]) -> None:
    path = pair[0] / "joanneum" / "Enerman_Part2" / "Enerman_Part2_full.csv"
    frame = pl.read_csv(path).unique("Cycle").sort("Cycle")
    # mm/s and degrees per second follow from the positions; watts from torque times speed.
    speed = np.diff(frame["Position_X1"].to_numpy()) / 0.002
    steady = np.abs(np.diff(frame["CommandedSpeed_X1"].to_numpy())) < 1e-3
    moving = steady & (np.abs(speed) > 5)
    assert np.median(frame["CommandedSpeed_X1"].to_numpy()[1:][moving] / speed[moving]) == pytest.approx(1, rel=0.02)
    turning = frame.filter((pl.col("CommandedSpeed_SP1") > 6 * 5000) & (pl.col("Torque_SP1") > 0.8))
    mechanical = turning["Torque_SP1"] * turning["CommandedSpeed_SP1"].to_numpy() * np.pi / 180
    assert 0.95 < float(np.median(turning["Power_SP1"] / mechanical)) < 1.6
    assert {"Current_SP1", "Torque_Z1", "Power_Z1", "part", "block", "Cycle"} < set(frame.columns)


def digests(folder: Path) -> dict[str, str]:
    files = sorted(folder.rglob("*.csv"))
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes(pair: tuple[Path, LogSummary, LogSummary], tmp_path: Path) -> None:
    simulate_pair(tmp_path, SCALE, seed=5)
    again = digests(tmp_path)
    assert again == digests(pair[0])
    assert len(again) == 14


def test_measured_commands_lag_behind_the_set_points(pair: tuple[Path, LogSummary, LogSummary], tmp_path: Path) -> None:
    simulate_pair(tmp_path, SCALE, seed=5, measured_commands=True)
    run = Path("joanneum") / "Enerman_Part2" / "Enerman_Part2_full.csv"
    wanted, got = (pl.read_csv(folder / run) for folder in (pair[0], tmp_path))
    assert wanted["Torque_SP1"].equals(got["Torque_SP1"])
    set_point, measured = (frame["CommandedSpeed_SP1"].to_numpy() for frame in (wanted, got))
    first = int(np.argmax(set_point > 0))
    reached = int(np.argmax(measured >= 0.98 * set_point[first]))
    assert 0.1 < (reached - first) * 0.002 < 5
    log = Path("thws") / "data_v1_0_1.csv"
    set_points, actual = (pl.read_csv(folder / log)["Spindle_speed"].n_unique() for folder in (pair[0], tmp_path))
    assert actual > 5 * set_points


def test_another_seed_gives_another_log(pair: tuple[Path, LogSummary, LogSummary], tmp_path: Path) -> None:
    thws.export(tmp_path, SCALE.thws, seed=6)
    log = "data_v1_0_1.csv"
    assert digests(tmp_path)[log] != digests(pair[0] / "thws")[log]
    assert thws_sessions(tmp_path / log).height == 1_500


def test_unknown_scales_and_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no scale 'huge'"):
        simulate_pair(tmp_path, "huge")
    with pytest.raises(MachineError, match="seed"):
        simulate_pair(tmp_path, "demo", seed=-1)
    assert not list(tmp_path.iterdir())


def test_another_length_of_the_2_ms_log_can_be_asked_for(tmp_path: Path) -> None:
    _, target = simulate_pair(tmp_path, SCALE, seed=5, cycles=SCALE.cycles + 5_000)
    assert target.rows == SCALE.cycles + 5_000


def test_a_log_too_short_for_its_sessions_was_refused_after_the_other_log_had_been_written(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="0 cycles are too few"):
        simulate_pair(tmp_path, SCALE, cycles=0)
    assert not list(tmp_path.iterdir())


def test_an_output_folder_that_is_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Not a directory"):
        write_csv(tmp_path / "file" / "thws" / "log.csv", {"a": [1.0]})


def test_a_full_disk_is_a_storage_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device (os error 28)")

    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        simulate_pair(tmp_path, SCALE)
    assert "Free some disk space" in caught.value.remedy
    assert not list(tmp_path.rglob("*.csv*"))


def windows_of(table: Table) -> int:
    (part,) = count_windows(table, None)
    return int(part.to_dict()["windows"])


def test_the_papers_counts_of_rows_and_windows_follow_from_its_rule(
    pair: tuple[Path, LogSummary, LogSummary],
) -> None:
    """As 26,879 source windows are 29,785 rows and 8 lost ones in 62 sessions, each of which gives 47 less."""
    out, source, target = pair
    table = ingest(THWS, out / "thws", rule="paper")
    counts = table.manifest["counts"]
    assert (counts["kept_rows"], counts["sessions"], counts["empty_bins"]) == (source.rows, 6, 2)
    assert counts["rows"] == len(table) == source.rows + 2
    assert windows_of(table) == len(table) - 6 * 47
    assert np.isfinite(table.sensors).all(), "every gap is filled, from whichever side"
    runs = ingest(JOANNEUM, out / "joanneum", rule="paper")
    counts = runs.manifest["counts"]
    assert (counts["kept_rows"], counts["runs"], counts["sessions"]) == (target.rows, 7, 13)
    assert values_ahead(runs.manifest) == 0
    lengths = [len(group) for group in runs.groups]
    assert sum(length < 48 for length in lengths) == 1
    assert windows_of(runs) == sum(max(0, length - 47) for length in lengths)
