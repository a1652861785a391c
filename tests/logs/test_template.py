"""A mapping written from a log: separator, decimals, clock, columns by name and by what they hold."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from crossfeed.errors import LogError
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.mapped_logs import mapped_format
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.template import template_from


@pytest.fixture
def mill() -> pl.DataFrame:
    """A spindle that obeys physics, with names that say little about some columns."""
    rng = np.random.default_rng(0)
    speed = np.repeat(rng.choice([0.0, 3000.0, 8000.0], 20), 10)
    torque = np.where(speed > 0, 5.0 + rng.normal(0, 1.0, 200), 0.0)
    power = 1.1 * torque * speed * 2 * np.pi / 60
    return pl.DataFrame(
        {
            "Zeit [ms]": np.arange(200) * 100,
            "Drehmoment Spindel": torque,
            "n_soll_Spindel": speed,
            "n_ist_Spindel": speed + rng.normal(0, 5, 200),
            "K17": power,
            "K18": 2.5 * torque + rng.normal(0, 0.1, 200),
            "Status": np.where(speed > 0, 3, 1),
            "Programm": ["O1"] * 200,
        }
    )


def written(path: Path) -> tuple[dict, str]:
    text = template_from(path)
    return yaml.safe_load(text), text


def test_physics_finds_power_and_current_whose_names_say_nothing(mill: pl.DataFrame, tmp_path: Path) -> None:
    mill.write_csv(tmp_path / "log.csv")
    mapping, text = written(tmp_path / "log.csv")
    found = {column["channel"]: column for column in mapping["columns"]}
    assert found["spindle_power"] == {"native": "K17", "channel": "spindle_power", "unit": "W"}
    assert found["spindle_current"]["native"] == "K18"
    assert found["spindle_speed"]["native"] == "n_soll_Spindel"
    assert "follows Drehmoment Spindel" in text
    assert mapping["time"] == {"column": "Zeit [ms]", "unit": "ms"}
    assert mapping["program"] == {"column": "Programm"}
    assert "keep: {Status: 3}" in text
    assert found["feed_y"] == {"constant": 0, "channel": "feed_y"}
    (tmp_path / "mapping.yaml").write_text(text)
    table = ingest(mapped_format(tmp_path / "mapping.yaml"), tmp_path / "log.csv")
    assert (len(table), table.commands[0, 0] == mill["n_soll_Spindel"][0]) == (21, True)


def test_a_log_of_a_known_kind_is_said_to_need_no_mapping(tmp_path: Path) -> None:
    names = [column.native for column in log_format_named("michigan").columns if column.constant is None]
    pl.DataFrame({name: np.linspace(1.0, 2.0, 9) for name in names}).write_csv(tmp_path / "experiment_01.csv")
    text = template_from(tmp_path / "experiment_01.csv")
    assert text.startswith("# Of the kind michigan, which needs no mapping: crossfeed ingest michigan LOGS")


def test_a_feed_along_the_path_was_left_out_and_every_axis_said_to_stand(mill: pl.DataFrame, tmp_path: Path) -> None:
    feed = pl.Series("FeedRate", np.repeat([0.0, 500.0, 1200.0, 800.0], 50))
    measured = (feed + 1.0).alias("FeedRateActual")
    log = mill.with_columns(measured, feed, pl.Series("Last Spindel", 10.0 + mill["K17"] / 300.0))
    log.write_csv(tmp_path / "log.csv")
    mapping, text = written(tmp_path / "log.csv")
    found = {column["channel"]: column for column in mapping["columns"]}
    assert [channel["name"] for channel in mapping["schema"]["commands"]] == ["spindle_speed", "feed_path"]
    assert found["feed_path"] == {"native": "FeedRate", "channel": "feed_path", "unit": "mm/min"}
    assert {"spindle_torque", "spindle_power", "spindle_current", "spindle_load"} <= set(found)
    (tmp_path / "mapping.yaml").write_text(text)
    table = ingest(mapped_format(tmp_path / "mapping.yaml"), tmp_path / "log.csv")
    assert table.schema.command_names == ("spindle_speed", "feed_path")
    assert table.commands[:, 1].max() == 1200.0


def test_feeds_of_axes_come_before_one_along_the_path(mill: pl.DataFrame, tmp_path: Path) -> None:
    zero = pl.Series("v_X_soll", np.arange(200.0))
    mill.with_columns(zero, zero.alias("FeedRate")).write_csv(tmp_path / "log.csv")
    mapping, _ = written(tmp_path / "log.csv")
    assert mapping["schema"] == "canonical"
    assert "v_X_soll" in [column.get("native") for column in mapping["columns"]]


def test_a_log_of_commands_alone_keeps_a_mapping_that_can_be_read(tmp_path: Path) -> None:
    pl.DataFrame({"Zeit [ms]": np.arange(100) * 100, "FeedRate": np.arange(100.0)}).write_csv(tmp_path / "log.csv")
    mapping, text = written(tmp_path / "log.csv")
    assert mapping["schema"] == "canonical"
    assert "without one nothing can be learned" in text


@pytest.mark.parametrize(
    ("stamps", "entries"),
    [
        ([f"2024-03-12T08:00:{i:02d}+01:00" for i in range(60)], {"column": "Zeit [ms]"}),
        ([f"12.03.2024 08:00:{i:02d},5" for i in range(60)], {"column": "Zeit [ms]"}),
        ([1710231390 + i for i in range(60)], {"column": "Zeit [ms]", "unit": "ms"}),
    ],
)
def test_clocks(mill: pl.DataFrame, tmp_path: Path, stamps, entries) -> None:
    mill.head(60).with_columns(pl.Series("Zeit [ms]", stamps)).write_csv(tmp_path / "log.csv", separator=";")
    mapping, _ = written(tmp_path / "log.csv")
    assert (mapping["time"], mapping["separator"]) == (entries, ";")


def test_seconds_since_1970_and_logs_without_a_clock(mill: pl.DataFrame, tmp_path: Path) -> None:
    numbers = mill.rename({"Zeit [ms]": "Stamp"}).with_columns((1710231390000 + pl.col("Stamp")).alias("Stamp"))
    numbers.write_csv(tmp_path / "log.csv")
    assert written(tmp_path / "log.csv")[0]["time"] == {"column": "Stamp", "unit": "ms"}
    mill.drop("Zeit [ms]").write_csv(tmp_path / "log.csv")
    assert "? no column looks like a clock" in written(tmp_path / "log.csv")[1]
    assert written(tmp_path / "log.csv")[0]["time"] == {"every": "1 s"}


def test_a_log_of_loads_alone_gets_a_schema_of_its_own(tmp_path: Path) -> None:
    frame = pl.DataFrame({"Time": np.arange(100.0), "SP LOAD": np.arange(100.0), "SV LOAD X": 1.0, "n_Set": 900.0})
    frame.write_parquet(tmp_path / "log.parquet")
    mapping, text = written(tmp_path / "log.parquet")
    assert [sensor["name"] for sensor in mapping["schema"]["sensors"]] == ["spindle_load", "x_load"]
    (tmp_path / "mapping.yaml").write_text(text)
    table = ingest(mapped_format(tmp_path / "mapping.yaml"), tmp_path / "log.parquet")
    assert table.schema.sensor_names == ("spindle_load", "x_load")


def test_interchanged_columns_of_the_michigan_mill_are_seen(michigan_folder: Path) -> None:
    mapping, text = written(michigan_folder / "experiment_01.csv")
    link = next(column for column in mapping["columns"] if column["channel"] == "spindle_dc_voltage")
    assert link["native"] == "S1_OutputCurrent"
    assert "two names may be interchanged" in text


def test_the_mapping_of_logs_without_a_clock_could_not_read_them(michigan_folder: Path, tmp_path: Path) -> None:
    text = template_from(michigan_folder).replace("every: 1 s", "every: 0.1 s").replace("period: 1 ", "period: 0.1 ")
    (tmp_path / "mapping.yaml").write_text(text)
    mapped, known = (ingest(kind, michigan_folder) for kind in (
        mapped_format(tmp_path / "mapping.yaml"), log_format_named("michigan"),
    ))  # fmt: skip
    np.testing.assert_array_equal(mapped.time, known.time)


def test_the_mapping_written_from_a_device_model_ingests_its_logs(nist_folder: Path, tmp_path: Path) -> None:
    text = template_from(nist_folder / "Devices.xml")
    (tmp_path / "mapping.yaml").write_text(text)
    assert yaml.safe_load(text)["device"] == "Mazak01"
    kind = log_format_named("mtconnect", tmp_path / "mapping.yaml")
    table = ingest(kind, nist_folder / "Mazak01-20161007-20161008.txt.gz")
    assert "spindle_2_load" in table.schema.sensor_names
    assert len(table) > 500


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="nothing at"):
        template_from(tmp_path / "none.csv")
    (tmp_path / "page.xml").write_text("<html/>")
    with pytest.raises(LogError, match="no MTConnect document"):
        template_from(tmp_path / "page.xml")
    (tmp_path / "bare.csv").write_text("Time;Strom\n")
    with pytest.raises(LogError, match="header but no rows"):
        template_from(tmp_path / "bare.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="holds no logs"):
        template_from(tmp_path / "empty")


def test_odd_signs_in_column_names_made_a_template_that_no_mapping_could_be_read_from(tmp_path: Path) -> None:
    odd = ["Strom X [A]\x00\x97", "Drehmoment 'X'", "Leistung\u00a0Spindel", "\x8e"]
    pl.DataFrame({"Time": np.arange(60.0)} | {name: np.arange(60.0) for name in odd}).write_csv(tmp_path / "log.csv")
    mapping, _ = written(tmp_path / "log.csv")
    assert {column.get("native") for column in mapping["columns"]} >= set(odd[:3])


def test_set_points_left_unused_became_commands_that_are_zero(mill: pl.DataFrame, tmp_path: Path) -> None:
    mill.with_columns(Fx_cmd=pl.lit(500.0), table_cmd=pl.col("K17")).write_csv(tmp_path / "log.csv")
    mapping, text = written(tmp_path / "log.csv")
    found = {column["channel"]: column for column in mapping["columns"]}
    assert found["feed_x"] == {"native": "Fx_cmd", "channel": "feed_x", "unit": "mm/s"}
    assert "channel: feed_y}" in text
    assert "is it one of table_cmd?" in text


def test_a_folder_with_the_logs_of_two_machines_was_taken_for_one(mill: pl.DataFrame, tmp_path: Path) -> None:
    for name in ("Fräse A 1", "Fräse A 2"):
        mill.write_csv(tmp_path / f"{name}.csv")
    mapping, text = written(tmp_path)
    assert mapping["machine"] == "Fräse A"
    assert "have other columns" not in text
    mill.rename({"K17": "K99"}).write_csv(tmp_path / "mill_b.csv")
    (tmp_path / "notes.csv").write_text("")
    assert "1 of 4 files have other columns than Fräse A 1.csv: mill_b.csv" in written(tmp_path)[1]


def captured(rows: int = 400) -> pl.DataFrame:
    """Rows in the shape of a Siemens Edge capture: SIGNAL|axis, a count of cycles for a clock."""
    signals = {
        "DES_POS": 1.0,
        "TORQUE_FFW": 0.1,
        "TORQUE": 2.0,
        "CURRENT": 3.0,
        "POWER": 20.0,
        "LOAD": 9.0,
        "CMD_SPEED": 900.0,
    }
    wave = 1.0 + 0.1 * np.sin(np.arange(rows) / 30.0)
    columns = {f"{signal}|{axis}": size * axis * wave for signal, size in signals.items() for axis in (1, 2, 3, 6)}
    return pl.DataFrame({"CYCLE": np.arange(4_814_008, 4_814_008 + rows)} | columns)


def test_the_axes_of_a_siemens_capture_were_all_taken_for_the_spindle(tmp_path: Path) -> None:
    captured().write_csv(tmp_path / "hfdata.csv")
    mapping, text = written(tmp_path / "hfdata.csv")
    natives = {column["channel"]: column.get("native") for column in mapping["columns"]}
    assert natives == {
        "spindle_current": "CURRENT|6", "spindle_torque": "TORQUE|6", "spindle_power": "POWER|6",
        "x_current": "CURRENT|1", "x_torque": "TORQUE|1", "y_current": "CURRENT|2", "y_torque": "TORQUE|2",
        "z_current": "CURRENT|3", "z_torque": "TORQUE|3", "z_power": "POWER|3", "spindle_speed": "CMD_SPEED|6",
        "feed_x": "CMD_SPEED|1", "feed_y": "CMD_SPEED|2", "feed_z": "CMD_SPEED|3",
    }  # fmt: skip
    assert mapping["time"] == {"column": "CYCLE", "unit": "2 ms"}
    assert "LOAD|6 (load)" in text, "nothing said that the loads are left out"


def test_a_capture_as_json_was_refused_as_commas_in_the_wrong_place(tmp_path: Path) -> None:
    (tmp_path / "capture.csv").write_text(
        '{"Header": {"CycleTimeMs": 2},\n "Payload": [{"HFData": [[1, 0.5], [2, 0.7]]}]}\n'
    )
    with pytest.raises(LogError, match="is JSON, not a table"):
        template_from(tmp_path / "capture.csv")


def test_a_power_named_by_its_unit_was_not_seen(tmp_path: Path) -> None:
    wave = np.abs(np.sin(np.arange(100.0)))
    frame = pl.DataFrame({"time": np.arange(100.0), "I_avg_spindle": wave, "kW_spindle": wave, "RPM": 900.0 + wave})
    frame.write_csv(tmp_path / "meter.csv")
    mapping, _ = written(tmp_path / "meter.csv")
    power = next(column for column in mapping["columns"] if column["channel"] == "spindle_power")
    assert (power["native"], power["unit"]) == ("kW_spindle", "kW")


def test_a_line_for_each_reading_became_a_mapping_without_a_sensor(tmp_path: Path) -> None:
    readings = [(0.0, "Spd_ActSpeed_C", "0.0"), (0.0, "LP_Pump_On", "True"), (0.9, "Spd_ActSpeed_C", "-150.8")] * 9
    frame = pl.DataFrame(readings, schema=["time_s", "node", "value"], orient="row")
    frame.write_csv(tmp_path / "opcua.csv")
    with pytest.raises(LogError, match="line for each reading: 'node' names the signal, 'value'") as caught:
        template_from(tmp_path / "opcua.csv")
    assert "index='time_s'" in (caught.value.remedy or "")


def test_a_mapping_without_a_sensor_says_so(tmp_path: Path) -> None:
    pl.DataFrame({"Time": np.arange(60.0), "n_Set": 900.0}).write_csv(tmp_path / "log.csv")
    assert "no column looks like a sensor" in written(tmp_path / "log.csv")[1]


def test_hours_of_being_switched_on_were_taken_for_power(tmp_path: Path) -> None:
    frame = pl.DataFrame({"Time": np.arange(60.0), "M_PowerOnDuration": 46_000.0 + np.arange(60.0), "Speed_C": 900.0})
    frame.write_csv(tmp_path / "log.csv")
    assert "M_PowerOnDuration" not in [column.get("native") for column in written(tmp_path / "log.csv")[0]["columns"]]
