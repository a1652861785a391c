"""The examples in docs/data.md are complete and work."""

import re
from pathlib import Path

import pytest

from crossfeed.logs.declaration import Segmentation
from crossfeed.logs.log_formats import log_formats
from crossfeed.logs.mapped_logs import mapped_format
from crossfeed.logs.mapping import Mapping
from crossfeed.logs.mtconnect import mapped_device
from crossfeed.schema import QUANTITIES, conversion

DOCUMENT = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    return re.findall(rf"```yaml {name}\n(.+?)```", DOCUMENT, re.DOTALL)[0]


def test_the_mapping_and_the_schema_of_the_page_fit_together(tmp_path) -> None:
    (tmp_path / "lathe.yaml").write_text(block("schema"), encoding="utf-8")
    (tmp_path / "mapping.yaml").write_text(block("mapping"), encoding="utf-8")
    kind = mapped_format(tmp_path / "mapping.yaml")
    assert kind.schema.sensor_names == ("z_load", "spindle_power", "spindle_temp", "coolant_level")
    assert kind.segmentation == Segmentation({"State": 3.0}, (), ("Program",), 5.0, 64)


def test_every_key_of_a_mapping_is_on_the_page() -> None:
    assert all(f"{field.alias or name}:" in DOCUMENT for name, field in Mapping.model_fields.items())


def test_every_quantity_is_in_the_table_and_every_unit_beside_it_is_understood() -> None:
    rows = re.findall(r"^\| ([a-z ,]+) \| ([^|]+) \| ([^|]+) \|$", DOCUMENT, re.MULTILINE)
    found = {}
    for quantities, usual, _ in rows:
        found |= dict(zip(quantities.split(", "), usual.split(", "), strict=False))
    assert {name: found[name] for name in QUANTITIES} == QUANTITIES


@pytest.mark.parametrize(
    ("natives", "wanted"),
    [
        ("Nm|N cm", "N m"),
        ("W|MW", "kW"),
        ("J", "kWh"),
        ("degF|kelvin|°C", "degC"),
        ("deg/s|revolution/s|rad/s|1/min", "rpm"),
        ("mm/s|m/min|inch/min", "mm/min"),
        ("m/s^2", "mm/s^2"),
        ("rad", "deg"),
        ("1", "%"),
        ("Pa", "bar"),
        ("m^3/h", "L/min"),
    ],
)
def test_the_other_units_of_the_page_convert(natives, wanted) -> None:
    for native in natives.split("|"):
        assert native in DOCUMENT
        assert conversion(native, wanted).scale > 0


def test_every_kind_is_on_the_page() -> None:
    assert all(f"| `{name}` |" in DOCUMENT for name in (*log_formats(), "table"))


def test_the_device_mapping_of_the_page_is_one(tmp_path) -> None:
    (tmp_path / "mapping.yaml").write_text(block("device"), encoding="utf-8")
    assert mapped_device(tmp_path / "mapping.yaml").machine == "lathe_7"
