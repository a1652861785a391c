"""MTConnect of any device: channels by type, subtype and component, in every form in which logs are kept."""

import gzip
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import yaml

from crossfeed.errors import ConfigError, LogError
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.mtconnect import find_source
from crossfeed.logs.mtconnect_channels import propose
from crossfeed.logs.mtconnect_devices import read_devices
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table

# A lathe without a Y axis: its items have the names that its builder liked.
LATHE = """<MTConnectDevices xmlns='urn:mtconnect.org:MTConnectDevices:1.7'><Devices><Device name='Lathe7' id='d'>
<DataItems><DataItem id='av' category='EVENT' type='AVAILABILITY'/></DataItems><Components>
<Axes id='a'><Components>
<Linear id='x' name='X'><DataItems>
  <DataItem id='x1' name='LoadX' category='SAMPLE' type='LOAD' units='PERCENT'/>
  <DataItem id='x2' name='FeedX' category='SAMPLE' type='AXIS_FEEDRATE' subType='ACTUAL' units='MILLIMETER/SECOND'/>
  <DataItem id='x3' name='PosX' category='SAMPLE' type='POSITION' subType='ACTUAL' units='MILLIMETER'/>
</DataItems></Linear>
<Linear id='z' name='Z'><DataItems>
  <DataItem id='z1' name='LoadZ' category='SAMPLE' type='LOAD' units='PERCENT'/>
  <DataItem id='z2' name='FeedZ' category='SAMPLE' type='AXIS_FEEDRATE' units='MILLIMETER/SECOND'/>
</DataItems></Linear>
<Rotary id='s' name='S1'><DataItems>
  <DataItem id='s1' name='nAct' category='SAMPLE' type='ROTARY_VELOCITY' subType='ACTUAL' units='REVOLUTION/MINUTE'/>
  <DataItem id='s2' name='nSet' category='SAMPLE' type='ROTARY_VELOCITY' subType='PROGRAMMED'/>
  <DataItem id='s3' name='Amps' category='SAMPLE' type='AMPERAGE' units='AMPERE'/>
  <DataItem id='s4' name='Watts' category='SAMPLE' type='WATTAGE' units='WATT'/>
  <DataItem id='s5' name='Heat' category='SAMPLE' type='TEMPERATURE' units='CELSIUS'/>
  <DataItem id='s6' name='heat_cond' category='CONDITION' type='TEMPERATURE'/>
</DataItems></Rotary>
<Rotary id='c' name='C'><DataItems>
  <DataItem id='c1' name='FeedC' category='SAMPLE' type='ANGULAR_VELOCITY' units='DEGREE/SECOND'/>
</DataItems></Rotary></Components></Axes>
<Controller id='k'><Components><Path id='p' name='path'><DataItems>
  <DataItem id='p1' name='state' category='EVENT' type='EXECUTION'/>
  <DataItem id='p2' name='sub' category='EVENT' type='PROGRAM' subType='SUB'/>
  <DataItem id='p3' name='part' category='EVENT' type='PROGRAM'/>
  <DataItem id='p4' name='ovr' category='EVENT' type='PATH_FEEDRATE_OVERRIDE' subType='PROGRAMMED'/>
  <DataItem id='p5' name='rapid' category='EVENT' type='PATH_FEEDRATE_OVERRIDE' subType='RAPID'/>
  <DataItem id='p6' name='jog' category='EVENT' type='PATH_FEEDRATE_OVERRIDE' subType='JOG'/>
  <DataItem id='p7' name='Fact' category='SAMPLE' type='PATH_FEEDRATE' subType='ACTUAL' units='MILLIMETER/SECOND'/>
</DataItems></Path></Components></Controller>
</Components></Device></Devices></MTConnectDevices>"""
SENSORS = ("x_load", "z_load", "spindle_current", "spindle_power", "spindle_temp", "spindle_actual_speed")
COMMANDS = ("spindle_speed", "feed_x", "feed_z", "feed_c", "feed_override", "rapid_override")
START = {
    "LoadX": 10, "LoadZ": 20, "Amps": 5, "Watts": 2500, "Heat": 40, "nAct": 1490, "nSet": 1500, "FeedX": 2, "FeedZ": 1,
    "FeedC": 0, "ovr": 100, "rapid": 100, "state": "ACTIVE", "part": "O100",
}  # fmt: skip
CHANGES = [(30, "nSet", 3000), (31, "Watts", 5000), (50, "LoadX", 30)]


def stamp(second: float) -> str:
    return f"2024-03-12T08:{int(second) // 60:02d}:{second % 60:06.3f}Z"


def events() -> list[tuple[float, str, object]]:
    """Everything at the start, some changes, and the end after 100 s."""
    return [*((0.0, name, value) for name, value in START.items()), *CHANGES, (100.0, "state", "READY")]


def lines_of(observations: list[tuple[float, str, object]]) -> str:
    return "".join(f"{stamp(second)}|{name}|{value}\n" for second, name, value in observations)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Devices.xml").write_text(LATHE)
    (tmp_path / "Lathe7-20240312.txt").write_text(lines_of(events()))
    return tmp_path


def read(folder: Path, **mapping: object) -> Table:
    if not mapping:
        return ingest(log_format_named("mtconnect"), folder)
    (folder / "mapping.yaml").write_text(yaml.safe_dump(mapping))
    return ingest(log_format_named("mtconnect", folder / "mapping.yaml"), folder)


def test_a_lathe_without_a_y_axis_simply_has_no_y(folder: Path) -> None:
    table = read(folder)
    assert table.machines() == ("lathe7",)
    assert table.schema.sensor_names == SENSORS
    assert table.schema.command_names == COMMANDS
    assert [(group.run, group.program, len(group)) for group in table.groups] == [("2024-03-12", "O100", 100)]
    at = dict(zip((*SENSORS, *COMMANDS), np.concatenate([table.sensors[40], table.commands[40]]), strict=True))
    assert (at["spindle_speed"], at["spindle_power"], at["feed_x"], at["x_load"]) == (3000.0, 5.0, 120.0, 10.0)
    assert table.sensors[60, 0] == 30.0


def test_commanded_values_come_before_actual_ones_and_reasons_are_given() -> None:
    proposal = propose({item.name: item for item in _items(LATHE)["Lathe7"].values()})
    by_name = {one.channel: one for one in proposal.channels}
    assert by_name["spindle_speed"].native == "nSet"
    assert by_name["spindle_speed"].reason == "commanded speed of Rotary S1"
    assert by_name["feed_x"].reason == "actual feed of Linear X, stands in for the command"
    assert (proposal.execution, proposal.program) == ("state", "part")
    assert [item.name for item in proposal.unused] == ["PosX", "Fact"]


def _items(text: str):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "Devices.xml"
        path.write_text(text)
        return read_devices(path)


def test_two_spindles_whose_components_share_a_name_kept_actual_speeds_as_commands() -> None:
    rotary = """<Rotary id='s{n}' name='S'><DataItems>
  <DataItem id='a{n}' name='S{n}speed' category='SAMPLE' type='ROTARY_VELOCITY' subType='ACTUAL'/>
  <DataItem id='c{n}' name='S{n}cmd' category='SAMPLE' type='ROTARY_VELOCITY' subType='PROGRAMMED'/>
  <DataItem id='o{n}' name='S{n}ovr' category='EVENT' type='ROTARY_VELOCITY_OVERRIDE' subType='PROGRAMMED'/>
  <DataItem id='l{n}' name='S{n}load' category='SAMPLE' type='LOAD' units='PERCENT'/>
</DataItems></Rotary>"""
    tool = rotary.format(n=6).replace("name='S'", "name='SA'")
    axes = rotary.format(n=1) + rotary.format(n=2) + tool
    start = LATHE.index("<Rotary id='s'")
    told = LATHE[:start] + axes + LATHE[LATHE.index("</Components></Axes>") :]
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "Devices.xml"
        file.write_text(told)
        proposal = propose(read_devices(file)["Lathe7"])
    spindles = {one.native: (one.channel, one.command) for one in proposal.channels if one.native.startswith("S")}
    assert spindles == {
        "S1cmd": ("spindle_speed", True), "S1speed": ("spindle_actual_speed", False),
        "S2cmd": ("spindle_2_speed", True), "S2speed": ("spindle_2_actual_speed", False),
        "S6cmd": ("spindle_3_speed", True), "S6speed": ("spindle_3_actual_speed", False),
        "S1load": ("spindle_load", False), "S2load": ("spindle_2_load", False), "S6load": ("spindle_3_load", False),
        "S1ovr": ("spindle_override", True), "S2ovr": ("spindle_2_override", True),
        "S6ovr": ("spindle_3_override", True),
    }  # fmt: skip


def test_a_mapping_renames_and_drops_items(folder: Path) -> None:
    table = read(
        folder,
        machine="turn_2",
        columns=[
            {"native": "watts", "channel": "main_power"},
            {"native": "nSet", "channel": "main_speed"},
            {"native": "FeedX", "channel": "feed_x"},
        ],
    )
    assert (table.machines(), table.schema.sensor_names) == (("turn_2",), ("main_power",))
    assert table.schema.command_names == ("main_speed", "feed_x")
    assert table.sensors[40, 0] == 5.0


def test_an_actual_feed_could_not_be_named_in_place_of_the_commanded_one(folder: Path) -> None:
    log = folder / "Lathe7-20240312.txt"
    log.write_text(log.read_text().replace("|FeedX|", "|Fact|2|FeedX|"))
    columns = [
        {"native": "Watts", "channel": "main_power"},
        {"native": "nSet", "channel": "main_speed"},
        {"native": "Fact", "channel": "feed_path"},
    ]
    table = read(folder, machine="turn_2", columns=columns)
    assert table.schema.command_names == ("main_speed", "feed_path")
    assert set(table.commands[:, 1]) == {120.0}


def test_lines_of_an_adapter_were_read_as_if_an_agent_had_converted_them(folder: Path) -> None:
    model, log = folder / "Devices.xml", folder / "Lathe7-20240312.txt"
    adapted = "units='MILLIMETER/SECOND' nativeUnits='MILLIMETER/MINUTE'/>"
    model.write_text(LATHE.replace("units='MILLIMETER/SECOND'/>", adapted))
    plain = read(folder)
    log.write_text(log.read_text().replace("|FeedX|2", "|FeedX|24000"))
    with pytest.raises(LogError, match=r"FeedX reaches 24,000, beyond belief in mm/s.*FeedZ: unit: mm/min"):
        read(folder)
    assert not [text for text in plain.manifest["findings"] if "nativeUnits" in text]
    columns = [
        {"native": "LoadX", "channel": "x_load"},
        {"native": "nSet", "channel": "spindle_speed"},
        {"native": "FeedX", "channel": "feed_x", "unit": "mm/min"},
    ]
    table = read(folder, machine="lathe7", columns=columns)
    assert set(table.commands[:, 1]) == {24_000.0}
    assert not [text for text in table.manifest["findings"] if "nativeUnits" in text]


def test_a_mapping_to_the_channels_of_another_machine_fills_what_is_missing(folder: Path) -> None:
    table = read(
        folder,
        machine="turn_2",
        schema="canonical",
        columns=[
            {"native": "Watts", "channel": "spindle_power"},
            {"native": "Amps", "channel": "spindle_current"},
            {"native": "nSet", "channel": "spindle_speed"},
            {"native": "FeedX", "channel": "feed_x"},
            {"constant": 0, "channel": "feed_y"},
            {"native": "FeedZ", "channel": "feed_z"},
        ],
    )
    assert table.commands[40].tolist() == [3000.0, 120.0, 0.0, 60.0]
    assert table.sensors[40, 2] == 5.0


def test_mappings_that_do_not_fit_the_device_are_refused(folder: Path) -> None:
    column = {"native": "Watts", "channel": "power"}
    with pytest.raises(LogError, match=r"no column 'Wats' \(did you mean 'Watts'"):
        read(folder, machine="m", columns=[{"native": "Wats", "channel": "power"}])
    with pytest.raises(ConfigError, match="describes no device 'Lathe8'"):
        read(folder, machine="m", device="Lathe8", columns=[column])
    with pytest.raises(ConfigError, match="What 'place' is cannot be told from the data item 'PosX'"):
        read(folder, machine="m", columns=[column, {"native": "PosX", "channel": "place"}])
    with pytest.raises(ConfigError, match="either 'native'"):
        read(folder, machine="m", columns=[{"channel": "power"}])


def test_adapter_lines_with_several_items_conditions_and_ids(folder: Path) -> None:
    wanted = read(folder)
    start = "|".join(f"{name}|{value}" for name, value in START.items() if name not in ("LoadX", "Watts"))
    lines = [
        f"{stamp(0)}|{start}",
        f"{stamp(0)}|heat_cond|WARNING|7|2|HIGH|hot|LoadX|10",
        f"{stamp(0)}|Lathe7:Watts|2500",
    ]
    lines += ["* PING", *(f"{stamp(second)}|{name}|{value}" for second, name, value in CHANGES[:2])]
    lines += [f"{stamp(50)}@1.0|x1|30", f"{stamp(100)}|state|READY"]
    log = folder / "Lathe7-20240312.txt"
    log.unlink()
    (folder / "Lathe7-20240312.shdr.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    table = read(folder)
    assert table.fingerprint() == wanted.fingerprint()


def document(observations: list[tuple[float, str, object]], device: str = "Lathe7") -> str:
    """A streams document as an agent would answer it."""
    items = _items(LATHE)["Lathe7"]
    parts = []
    for number, (second, name, value) in enumerate(observations):
        item = items[name]
        element = "".join(word.capitalize() for word in item.type.split("_"))
        group = "Samples" if item.category == "SAMPLE" else "Events"
        attributes = f"dataItemId='{item.id}' name='{name}' subType='{item.subtype}' timestamp='{stamp(second)}'"
        parts.append(
            f"<ComponentStream component='{item.component}' name='{item.component_name}' componentId='i'><{group}>"
            f"<{element} {attributes} sequence='{second}-{number}'>{value}</{element}></{group}></ComponentStream>"
        )
    return (
        "<MTConnectStreams xmlns='urn:mtconnect.org:MTConnectStreams:1.7'><Header instanceId='1'/><Streams>"
        f"<DeviceStream name='{device}' uuid='u'>{''.join(parts)}</DeviceStream></Streams></MTConnectStreams>"
    )


def test_streams_documents_give_the_same_table_with_and_without_a_device_model(folder: Path) -> None:
    wanted = read(folder)
    (folder / "Lathe7-20240312.txt").unlink()
    (folder / "current.xml").write_text(document(events()[: len(START)]))
    (folder / "sample_1.xml").write_text(document(events()[len(START) :]))
    (folder / "sample_2.xml").write_text(document(events()[len(START) :]))  # overlapping answers repeat observations
    table = read(folder)
    np.testing.assert_array_equal(table.sensors, wanted.sensors)
    np.testing.assert_array_equal(table.commands, wanted.commands)
    (folder / "Devices.xml").unlink()
    alone = read(folder)
    assert sorted(alone.schema.sensor_names) == sorted(SENSORS)
    power = alone.sensors[:, alone.schema.sensor_names.index("spindle_power")]
    np.testing.assert_array_equal(power, wanted.sensors[:, 3])


def test_the_only_device_of_a_streams_document_is_meant_whatever_it_is_called(folder: Path) -> None:
    wanted = read(folder)
    (folder / "Lathe7-20240312.txt").unlink()
    (folder / "sample.xml").write_text(document(events(), device="renamed"))
    np.testing.assert_array_equal(read(folder).sensors, wanted.sensors)


def test_a_sensor_that_is_never_told_is_absent_and_a_command_is_asked_for(folder: Path) -> None:
    log = folder / "Lathe7-20240312.txt"
    log.write_text(lines_of([event for event in events() if event[1] != "Amps"]))
    table = read(folder)
    assert np.isnan(table.sensors[:, 2]).all()
    assert table.manifest["findings"] == ["Lathe7-20240312.txt never mentions Amps: absent there"]
    log.write_text(lines_of([event for event in events() if event[1] != "rapid"]))
    with pytest.raises(LogError, match=r"never mentions rapid[\s\S]*template --from"):
        read(folder)


def test_devices_without_sensors_or_commands_are_refused_in_words(folder: Path) -> None:
    poor = LATHE.replace("type='LOAD'", "type='POSITION'").replace("'AMPERAGE'", "'ANGLE'").replace("'WATTAGE'", "'X'")
    poor = poor.replace("category='SAMPLE' type='TEMPERATURE'", "category='SAMPLE' type='ANGLE'")
    poor = poor.replace("'ROTARY_VELOCITY' subType='PROGRAMMED'", "'ROTARY_VELOCITY' subType='ACTUAL'")
    (folder / "Devices.xml").write_text(poor)
    with pytest.raises(LogError, match="has no sensor"):
        read(folder)


def test_a_unit_that_nobody_knows_is_refused_for_used_items_only(folder: Path) -> None:
    (folder / "Devices.xml").write_text(LATHE.replace("units='WATT'", "units='HORSE'"))
    with pytest.raises(LogError, match=r"'Watts' in Devices\.xml has the units 'HORSE'"):
        read(folder)
    (folder / "Devices.xml").write_text(LATHE.replace("units='MILLIMETER'", "units='FATHOM'"))
    assert len(read(folder)) == 100


def test_the_other_machines_of_the_nist_test_bed_can_be_read(nist_folder: Path, tmp_path: Path) -> None:
    shutil.copy(nist_folder / "Devices.xml", tmp_path / "Devices.xml")
    devices = read_devices(tmp_path / "Devices.xml")
    found = propose(devices["Mazak03"]).schema("Mazak03")
    assert found.sensor_names == (
        "x_load", "z_load", "c_load", "spindle_load", "spindle_temp", "spindle_2_load", "spindle_2_temp"
    )  # fmt: skip
    assert found.command_names == (
        "spindle_speed", "spindle_2_speed", "feed_x", "feed_z", "feed_c", "spindle_override", "rapid_override",
        "feed_override",
    )  # fmt: skip
    for name in ("GFAgie01", "Hurco01"):
        with pytest.raises(LogError, match="has no sensor"):
            propose(devices[name]).schema(name)
    start = {one.native: 10 for one in propose(devices["Mazak03"]).channels} | {
        "execution": "ACTIVE",
        "program": "9",
    }
    lines = lines_of([*((0.0, name, value) for name, value in start.items()), (90.0, "execution", "READY")])
    (tmp_path / "Mazak03-20161104.txt").write_text(lines)
    table = ingest(log_format_named("mtconnect"), tmp_path)
    assert (len(table), table.schema.sensor_names) == (90, found.sensor_names)


def test_the_real_mazak_through_a_mapping_of_fewer_channels(nist_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mapping.yaml").write_text(
        "machine: integrex\ncolumns:\n  - {native: Xload, channel: x_load}\n  - {native: Xfrt, channel: feed_x}\n"
    )
    logs = nist_folder / "Mazak01-20161007-20161008.txt.gz"
    table = ingest(log_format_named("mtconnect", tmp_path / "mapping.yaml"), logs)
    whole = ingest(log_format_named("mtconnect"), logs)
    assert table.machines() == ("integrex",)
    assert len(table) >= len(whole)
    assert find_source(logs).device == "Mazak01"


def test_a_control_character_in_a_line_is_no_separator(folder: Path) -> None:
    log = folder / "Lathe7-20240312.txt"
    log.write_text(log.read_text() + f"{stamp(99)}|Heat\x1f\x1f|4\x1f1\n")
    assert len(read(folder)) == 100
