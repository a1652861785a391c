"""How the known kinds of logs are cut into rows and sessions, and how kinds are registered and recognised."""

from dataclasses import replace
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.logs import log_formats
from crossfeed.logs.declaration import Segmentation
from crossfeed.logs.log_formats import detect_log_format, log_format_named, register_log_format

CUT = {
    "thws": (1.0, False, Segmentation({"Program_status": 3.0}, ("MA_JOG_STEP1",), ("Program_path",), 5.0, 64)),
    "joanneum": (1.0, False, Segmentation(boundaries=("part",), gap_s=0.002)),
    "michigan": (0.1, False, Segmentation()),
    "mtconnect": (1.0, True, Segmentation({"execution": "ACTIVE"}, ("",), ("program",), 0.0, min_s=64.0)),
}
USUAL = {
    "michigan": {"current": 500.0, "output_current": 100.0, "dc_voltage": 1e3, "output_voltage": 1e3, "power": 50.0},
    "mtconnect": {"load": 300.0, "temp": 150.0, "speed": 20_000.0, "override": 300.0},
}


@pytest.mark.parametrize("name", CUT)
def test_known_logs_are_cut_as_they_were(name: str) -> None:
    found = log_format_named(name)
    assert (found.period, found.change_driven, found.segmentation) == CUT[name]


@pytest.mark.parametrize("name", USUAL)
def test_what_no_drive_can_show_counts_as_absent(name: str) -> None:
    for column in log_format_named(name).columns:
        whole = column.channel.partition("_")[2]
        detail = whole if whole in USUAL[name] else column.channel.rpartition("_")[2]
        if detail in USUAL[name]:
            assert column.valid is not None, column.channel
            low, high = column.valid
            assert high == USUAL[name][detail], column.channel
            below = {"mtconnect": 1.0 if detail == "temp" else 0.0, "michigan": -high}[name]
            assert low == (0.0 if detail == "dc_voltage" else below), column.channel


def test_a_registered_kind_is_known_by_its_name_and_no_name_is_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_formats, "_REGISTERED", log_formats.log_formats())
    lathe = replace(log_format_named("thws"), name="lathe", title="a lathe")
    register_log_format(lathe)
    assert log_format_named("lathe") is lathe
    assert list(log_formats.log_formats())[-1] == "lathe"
    register_log_format(lathe)
    for name in ("thws", "table"):
        with pytest.raises(ConfigError, match=f"a kind of log named '{name}' already"):
            register_log_format(replace(lathe, name=name))


def test_a_log_is_recognised_by_the_columns_of_its_kind(tmp_path: Path) -> None:
    names = [column.native for column in log_format_named("michigan").columns if column.constant is None]
    (tmp_path / "log.csv").write_text(",".join([*names, "more"]) + "\n" + ",".join("1" for _ in [*names, "more"]))
    detected = detect_log_format(tmp_path)
    assert detected is not None
    assert detected.name == "michigan"
    (tmp_path / "log.csv").write_text(",".join(names[1:]) + "\n" + ",".join("1" for _ in names[1:]))
    assert detect_log_format(tmp_path) is None
    assert detect_log_format(tmp_path / "nothing.csv") is None
