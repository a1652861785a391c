"""The MTConnect device model (`Devices.xml`, the answer to /probe): what each data item measures and in which unit."""

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
    "HERTZ": "Hz",
    "JOULE": "J",
    "KILOWATT": "kW",
    "LITER/SECOND": "L/s",
    "MILLIMETER": "mm",
    "MILLIMETER/SECOND": "mm/s",
    "MILLIMETER/MINUTE": "mm/min",
    "MILLIMETER/SECOND^2": "mm/s^2",
    "NEWTON": "N",
    "NEWTON_METER": "N m",
    "PASCAL": "Pa",
    "PERCENT": "%",
    "REVOLUTION/MINUTE": "rpm",
    "REVOLUTION/SECOND": "revolution/s",
    "SECOND": "s",
    "VOLT": "V",
    "WATT": "W",
}
# The unit in which the standard has values of a type written; used where a model or a stream states none.
STANDARD_UNITS = {
    "LOAD": "PERCENT",
    "TEMPERATURE": "CELSIUS",
    "AMPERAGE": "AMPERE",
    "AMPERAGE_AC": "AMPERE",
    "AMPERAGE_DC": "AMPERE",
    "VOLTAGE": "VOLT",
    "VOLTAGE_AC": "VOLT",
    "VOLTAGE_DC": "VOLT",
    "WATTAGE": "WATT",
    "TORQUE": "NEWTON_METER",
    "LINEAR_FORCE": "NEWTON",
    "PRESSURE": "PASCAL",
    "FLOW": "LITER/SECOND",
    "ROTARY_VELOCITY": "REVOLUTION/MINUTE",
    "SPINDLE_SPEED": "REVOLUTION/MINUTE",
    "ANGULAR_VELOCITY": "DEGREE/SECOND",
    "AXIS_FEEDRATE": "MILLIMETER/SECOND",
    "PATH_FEEDRATE": "MILLIMETER/SECOND",
    "PATH_FEEDRATE_OVERRIDE": "PERCENT",
    "AXIS_FEEDRATE_OVERRIDE": "PERCENT",
    "ROTARY_VELOCITY_OVERRIDE": "PERCENT",
    "SPINDLE_SPEED_OVERRIDE": "PERCENT",
}
DEVICES, STREAMS = "MTConnectDevices", "MTConnectStreams"


@dataclass(frozen=True, slots=True)
class Item:
    """One data item of a device, with the component that it belongs to (`Linear` X, `Rotary` C, `Path` ...)."""

    name: str
    category: str
    type: str
    subtype: str
    unit: str | None
    id: str = ""
    component: str = ""
    component_name: str = ""
    native_unit: str | None = None

    @property
    def owner(self) -> str:
        """The component that it belongs to, in words."""
        return f"{self.component} {self.component_name}".strip() or "the device"


def read_devices(path: Path) -> dict[str, dict[str, Item]]:
    """For every device of the model its items by name."""
    root = read_xml(path, "a device model")
    devices: dict[str, dict[str, Item]] = {}
    for device in root.iter():
        if tag(device) != "Device":
            continue
        items = (_item(element, owner) for element, owner in _data_items(device, device))
        devices[device.get("name") or device.get("id") or ""] = {item.name: item for item in items}
    if not devices:
        raise LogError(f"{path} describes no device.", expected="MTConnect XML with <Device> elements")
    return devices


def read_xml(path: Path, what: str) -> ElementTree.Element:
    """The root of an XML file."""
    try:
        return ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise LogError(f"{path} is not {what}: {error}", expected="MTConnect XML") from error
    except OSError as error:
        raise storage_error("Reading", path, error) from error


def unit_of(item: Item, where: str) -> str:
    """The unit in which an item is written, as a unit name."""
    stated = item.unit or STANDARD_UNITS.get(item.type)
    if stated is None or stated not in UNITS:
        raise LogError(
            f"The item '{item.name}' in {where} has the units '{item.unit}'.",
            expected=f"one of {', '.join(UNITS)}",
            remedy="Declare the unit of this item in Devices.xml, or leave the item out with a mapping.",
        )
    return UNITS[stated]


def tag(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _data_items(
    element: ElementTree.Element, owner: ElementTree.Element
) -> list[tuple[ElementTree.Element, ElementTree.Element]]:
    """Every data item below an element with the component that owns it; an explicit stack, as files may be deep."""
    found, stack = [], [(element, owner)]
    while stack:
        current, holder = stack.pop()
        if tag(current) == "DataItem":
            found.append((current, holder))
            continue
        inner = holder if tag(current) in ("DataItems", "Components", "Description") else current
        stack += [(child, inner) for child in reversed(current)]
    return found


def _item(element: ElementTree.Element, owner: ElementTree.Element) -> Item:
    identity = element.get("id") or ""
    return Item(
        name=element.get("name") or identity,
        category=element.get("category") or "",
        type=element.get("type") or "",
        subtype=element.get("subType") or "",
        unit=element.get("units"),
        id=identity,
        component=tag(owner),
        component_name=owner.get("nativeName") or owner.get("name") or owner.get("id") or "",
        native_unit=element.get("nativeUnits"),
    )
