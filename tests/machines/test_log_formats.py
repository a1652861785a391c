"""How the known kinds of logs are cut into rows and sessions: a figure here decides what every study of them sees."""

import pytest

from crossfeed.machines.declaration import Segmentation
from crossfeed.machines.log_formats import log_format_named

CUT = {
    "thws": (1.0, False, Segmentation({"Program_status": 3.0}, ("MA_JOG_STEP1",), ("Program_path",), 5.0, 64)),
    "joanneum": (1.0, False, Segmentation(boundaries=("@file_part", "part"), gap_s=0.002)),
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
