"""The MTConnect device model (`Devices.xml`): what each data item measures and in which unit it is written."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from crossfeed.atomic import storage_error
from crossfeed.errors import LogError

# MTConnect's unit words as unit names; an agent writes values in `units`, converted from `nativeUnits`.
UNITS = {
    "AMPERE": "A",
    "CELSIUS": "degC",
    "DEGREE": "deg",
    "DEGREE/SECOND": "deg/s",
    "DEGREE/MINUTE": "deg/min",
    "KILOWATT": "kW",
    "MILLIMETER": "mm",
    "MILLIMETER/SECOND": "mm/s",
    "MILLIMETER/MINUTE": "mm/min",
    "MILLIMETER/SECOND^2": "mm/s^2",
    "NEWTON": "N",
    "NEWTON_METER": "N m",
    "PASCAL": "Pa",
    "PERCENT": "%",
    "REVOLUTION/MINUTE": "rpm",
    "SECOND": "s",
    "VOLT": "V",
    "WATT": "W",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One data item of a device."""

    name: str
    category: str
    type: str
    subtype: str
    unit: str | None


def read_devices(path: Path) -> dict[str, dict[str, Item]]:
    """For every device of the model its items by name."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise LogError(f"{path} is not a device model: {error}", expected="MTConnect XML") from error
    except OSError as error:
        raise storage_error("Reading", path, error) from error
    devices: dict[str, dict[str, Item]] = {}
    for device in root.iter():
        if _tag(device) != "Device":
            continue
        items = (_item(element) for element in device.iter() if _tag(element) == "DataItem")
        devices[device.get("name") or device.get("id") or ""] = {item.name: item for item in items}
    if not devices:
        raise LogError(f"{path} describes no device.", expected="MTConnect XML with <Device> elements")
    return devices


def unit_of(item: Item, where: str) -> str:
    """The unit in which an item is written, as a unit name."""
    if item.unit is None or item.unit not in UNITS:
        raise LogError(
            f"The item '{item.name}' in {where} has the units '{item.unit}'.",
            expected=f"one of {', '.join(UNITS)}",
            remedy="Declare the unit of this item in Devices.xml.",
        )
    return UNITS[item.unit]


def _item(element: ElementTree.Element) -> Item:
    return Item(
        name=element.get("name") or element.get("id") or "",
        category=element.get("category") or "",
        type=element.get("type") or "",
        subtype=element.get("subType") or "",
        unit=element.get("units"),
    )


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
