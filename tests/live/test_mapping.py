"""What the names of a live source mean, read from a mapping and written to one."""

from pathlib import Path

import pytest
import yaml

from crossfeed.errors import SchemaError
from crossfeed.live.mapping import LiveMapping, MappingProposal, SourceNode, propose_mapping
from crossfeed.live.source import CONNECTED, LINE, OVERRIDES
from crossfeed.logs.declaration import PROGRAM
from crossfeed.schema import canonical

TEXT = """
machine: mill
columns:
  - {native: "ns=2;s=P", channel: spindle_power, unit: W, valid: [0, 9000]}
  - {native: n, channel: spindle_speed, unit: 1/min}
  - {constant: 0.5, channel: feed_z}
  - {constant: 0, channel: feed_x}
  - {constant: 0, channel: feed_y}
states: {program: "prog", line: "block", feed_override: "ovr"}
"""


def read(folder: Path, text: str = TEXT) -> LiveMapping:
    (folder / "live.yaml").write_text(text, encoding="utf-8")
    return LiveMapping.from_yaml(folder / "live.yaml")


def test_columns_and_states_are_listened_to_under_their_own_names(tmp_path: Path) -> None:
    mapping = read(tmp_path)
    assert mapping.names() == {
        "ns=2;s=P": "spindle_power", "n": "spindle_speed",
        "prog": PROGRAM, "block": LINE, "ovr": OVERRIDES["feed_override"],
    }  # fmt: skip


def test_a_source_is_heard_until_it_is_silent_for_ten_seconds(tmp_path: Path) -> None:
    mapping = read(tmp_path)
    assert (mapping.period, mapping.sampling_ms, mapping.publishing_ms, mapping.gap_s) == (1.0, 100.0, 250.0, 10.0)
    found = mapping.log_format("a mill")
    assert (found.machine, found.period, found.change_driven) == ("mill", 1.0, True)
    assert found.segmentation.gap_s == 10.0
    assert found.segmentation.keep == {CONNECTED.removeprefix("@"): 1.0}
    power, speed, feed, *_ = found.columns
    assert (power.channel, power.unit, power.valid, power.constant) == ("spindle_power", "W", (0.0, 9000.0), None)
    assert (speed.native, speed.unit) == ("n", "1/min")
    assert (feed.native, feed.unit, feed.constant) == ("", canonical().channel("feed_z").unit, 0.5)


@pytest.mark.parametrize("field", ["period", "sampling_ms", "publishing_ms", "gap_s"])
def test_no_time_is_nought(tmp_path: Path, field: str) -> None:
    assert getattr(read(tmp_path, f"{TEXT}{field}: 0.5\n"), field) == 0.5
    with pytest.raises(Exception, match=field):
        read(tmp_path, f"{TEXT}{field}: 0\n")


def test_a_mapping_that_was_written_can_be_read(tmp_path: Path) -> None:
    mapping = read(tmp_path)
    text = MappingProposal(mapping, {"spindle_power": "it says so"}, ["spare"]).to_yaml()
    assert "# it says so" in text
    assert "# not used: spare" in text
    again = read(tmp_path, text)
    assert again.names() == mapping.names()
    assert yaml.safe_load(text)["columns"][2] == {"constant": 0.5, "channel": "feed_z"}


def test_a_schema_in_a_file_of_its_own_lies_beside_the_mapping(tmp_path: Path) -> None:
    own = canonical().model_copy(update={"name": "own"})
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own.model_dump(mode="json")), encoding="utf-8")
    assert read(tmp_path, f"{TEXT}schema: own.yaml\n").schema_.name == "own"
    assert read(tmp_path).schema_ == canonical()


def test_nodes_of_a_server_become_channels_with_states_units_and_reasons() -> None:
    def node(path: str, unit: str | None = None, numeric: bool = True) -> SourceNode:
        return SourceNode(f"id:{path}", tuple(path.split("/")), unit, numeric)

    nodes = [
        node("Axes/X1/ActCurrent", "A"), node("Spindles/S1/CmdSpeed"), node("Spindles/S1/ActSpeed"),
        node("Spindles/S1/ActPower", "W"), node("Spindles/S1/ActTorque", "furlong"), node("Hydraulics/Power", "kW"),
        node("Spindles/Spindle/CmdOverride"), node("Channel/ActProgramName", numeric=False), node("Folder/Name"),
        node("Spindles/S1/Label_Power", numeric=False), node("Channel/FeedOverride"), node("Rapid/FeedOverride"),
    ]  # fmt: skip
    proposal = propose_mapping("mill", nodes)
    channels = {c.channel: (c.native, c.unit) for c in proposal.mapping.columns if c.native}
    assert channels == {
        "spindle_power": ("id:Spindles/S1/ActPower", "W"),
        "spindle_torque": ("id:Spindles/S1/ActTorque", "N m"),
        "x_current": ("id:Axes/X1/ActCurrent", "A"),
        "spindle_speed": ("id:Spindles/S1/CmdSpeed", "rpm"),
    }
    assert proposal.remarks["spindle_power"] == "Spindles/S1/ActPower: the source states the unit"
    assert proposal.remarks["spindle_torque"] == "Spindles/S1/ActTorque: no unit is stated, check it"
    assert [c.channel for c in proposal.mapping.columns if c.constant == 0.0] == ["feed_x", "feed_y", "feed_z"]
    assert {name: value for name, value in proposal.mapping.states.model_dump().items() if value} == {
        "program": "id:Channel/ActProgramName",
        "feed_override": "id:Channel/FeedOverride",
        "spindle_override": "id:Spindles/Spindle/CmdOverride",
    }
    assert proposal.unused == [
        "Spindles/S1/ActSpeed", "Hydraulics/Power", "Folder/Name", "Spindles/S1/Label_Power", "Rapid/FeedOverride",
    ]  # fmt: skip
    with pytest.raises(
        SchemaError, match="None of the variables of the source is a canonical sensor: Hydraulics/Power"
    ):
        propose_mapping("mill", nodes[5:7])
