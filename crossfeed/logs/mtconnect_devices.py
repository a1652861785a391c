"""What MTConnect agents and adapters write: the device model, and observations in whatever they were stored in.

The device model (`Devices.xml`, the answer to /probe) says what each data item measures and in which unit. Observations
are adapter lines (SHDR), plain or gzip, or streams documents; all of them become one frame: `stamp`, `item` (its name
in the device model) and `value`.
"""

import gzip
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

import polars as pl

from crossfeed.errors import LogError
from crossfeed.files import storage_error
from crossfeed.logs.proposal import NAMES

# MTConnect's unit words as unit names; an agent writes values in `units`, converted from `nativeUnits`.
UNITS: dict[str, str] = NAMES["mtconnect"]["units"]
# The unit in which the standard has values of a type written; used where a model or a stream states none.
STANDARD_UNITS = {kind: unit for unit, kinds in NAMES["mtconnect"]["standard_units"].items() for kind in kinds}
DEVICES, STREAMS = "MTConnectDevices", "MTConnectStreams"
TEXT_ENDINGS = (".txt", ".txt.gz", ".shdr", ".shdr.gz", ".log", ".log.gz")
_COLUMNS = {"stamp": pl.String, "item": pl.String, "value": pl.String}
# Fields after the key of items that are no plain values: conditions have level, code, severity, qualifier and text.
_CONDITION_FIELDS, _MESSAGE_FIELDS = 5, 2
_MOST_BYTES = 10**9


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


def read_xml(path: Path, what: str) -> Element:
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


def tag(element: Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _data_items(element: Element, owner: Element) -> list[tuple[Element, Element]]:
    """Every data item below an element with the component that owns it; an explicit stack, as files may be deep."""
    items, stack = [], [(element, owner)]
    while stack:
        current, holder = stack.pop()
        if tag(current) == "DataItem":
            items.append((current, holder))
            continue
        inner = holder if tag(current) in ("DataItems", "Components", "Description") else current
        stack += [(child, inner) for child in reversed(current)]
    return items


def _item(element: Element, owner: Element) -> Item:
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


def read_lines(file: Path, items: Mapping[str, Item]) -> pl.DataFrame:
    """The observations of an adapter log: `stamp|item|value`, with any number of items and values in a line."""
    text = _text(file)
    # No control character belongs into these logs, so each line is one cell.
    whole = pl.read_csv(text, separator="\x1f", has_header=False, schema={"line": pl.String}, quote_char=None)
    fields = pl.col("line").str.strip_chars().str.splitn("|", 3).struct.rename_fields(list(_COLUMNS))
    lines = whole.select(fields).unnest("line").with_columns(pl.col("item", "value").str.strip_chars())
    in_several_fields = [item.name for item in items.values() if _fields(item) > 1]
    several = pl.col("value").str.contains("|", literal=True) & ~pl.col("item").is_in(in_several_fields)
    if not lines.select(several.fill_null(False).any()).item():
        return lines
    return _expanded(lines.iter_rows(), items)


def _fields(item: Item) -> int:
    """How many fields follow the key of an item in a line."""
    if item.category == "CONDITION":
        return _CONDITION_FIELDS
    return _MESSAGE_FIELDS if item.type == "MESSAGE" else 1


def _expanded(rows: Iterable[tuple[str | None, str | None, str | None]], items: Mapping[str, Item]) -> pl.DataFrame:
    """One row for each pair of a line."""
    stamps, names, values = [], [], []
    by_name = {key: item for item in items.values() for key in (item.name, item.id)}
    for stamp, first, rest in rows:
        if stamp is None or stamp.startswith("*") or first is None:
            continue
        fields = [first, *(rest or "").split("|")]
        position = 0
        while position < len(fields) - 1:
            key = fields[position].strip().rpartition(":")[2]
            item = by_name.get(key)
            # An item that the model does not know may be written like a condition.
            strange = _CONDITION_FIELDS if len(fields) - position - 1 == _CONDITION_FIELDS else 1
            width = strange if item is None else _fields(item)
            stamps.append(stamp.partition("@")[0])
            names.append(item.name if item is not None else key)
            values.append(fields[position + 1].strip())
            position += 1 + width
    return pl.DataFrame({"stamp": stamps, "item": names, "value": values}, schema=_COLUMNS)


def _text(file: Path) -> bytes:
    """The bytes of a log, unpacked where it is packed, in UTF-8."""
    try:
        raw = _unpacked(file) if file.suffix.lower() == ".gz" else file.read_bytes()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise LogError(f"{file} is not a whole gzip file: {error}", remedy="Fetch the file again.") from error
    except OSError as error:
        raise storage_error("Reading", file, error) from error
    if not raw.strip():
        raise LogError(f"{file} is empty.", expected="lines such as 2016-11-04T14:44:57.65Z|Srpm|5000")
    return raw.replace(b"\x1f", b" ").decode("utf-8", errors="replace").encode()


def _unpacked(file: Path) -> bytes:
    """A gzip file, as long as it fits into memory."""
    chunks, left = [], _MOST_BYTES
    with gzip.open(file) as packed:
        while chunk := packed.read(1 << 22):
            left -= len(chunk)
            if left < 0:
                raise LogError(
                    f"{file} would become more than {_MOST_BYTES / 1e9:g} GB.",
                    expected="logs of one day each",
                    remedy="Divide the log into several files.",
                )
            chunks.append(chunk)
    return b"".join(chunks)


def read_streams(files: Sequence[Path], device: str, items: Mapping[str, Item]) -> pl.DataFrame:
    """The observations of one device in streams documents (answers to /current and /sample), each of them once."""
    names = {item.id: item.name for item in items.values()} | {item.name: item.name for item in items.values()}
    seen: dict[tuple[str, str, str], str] = {}
    for file in files:
        streams = _streams(file)
        of_device = [stream for stream in streams if stream.get("name") == device]
        for stream in of_device or (streams if len(streams) == 1 else []):
            for _, group, element in _observations(stream):
                key = element.get("dataItemId") or element.get("name") or ""
                name = names.get(key) or names.get(element.get("name") or "") or key
                value = "" if group == "Condition" else (element.text or "").strip()
                seen[element.get("timestamp") or "", name, element.get("sequence") or ""] = value
    rows = [(stamp, name, value) for (stamp, name, _), value in seen.items()]
    return pl.DataFrame(rows, schema=_COLUMNS, orient="row")


def items_of_streams(files: Sequence[Path]) -> dict[str, dict[str, Item]]:
    """A device model made from streams documents alone: they tell types and components, units are the standard's."""
    devices: dict[str, dict[str, Item]] = {}
    for file in files:
        for stream in _streams(file):
            items = devices.setdefault(stream.get("name") or stream.get("uuid") or "", {})
            for component, group, element in _observations(stream):
                category = {"Samples": "SAMPLE", "Events": "EVENT"}.get(group, "CONDITION")
                identity = element.get("dataItemId") or ""
                name = element.get("name") or identity
                items[name] = Item(
                    name=name,
                    category=category,
                    type=_upper(tag(element)) if category != "CONDITION" else element.get("type") or "",
                    subtype=element.get("subType") or "",
                    unit=None,
                    id=identity,
                    component=component.get("component") or "",
                    component_name=component.get("name") or component.get("componentId") or "",
                )
    return devices


def is_streams(file: Path) -> bool:
    """Whether an XML file is a streams document."""
    return tag(read_xml(file, "an MTConnect document")) == STREAMS


def _streams(file: Path) -> list[Element]:
    return [element for element in read_xml(file, "a streams document").iter() if tag(element) == "DeviceStream"]


def _observations(stream: Element) -> Iterator[tuple[Element, str, Element]]:
    """Every observation of a device with its component and the name of its group (Samples, Events or Condition)."""
    return ((component, tag(group), element) for component in stream for group in component for element in group)


def _upper(name: str) -> str:
    """`RotaryVelocity` as the data item type `ROTARY_VELOCITY`."""
    return "".join(
        f"_{letter}" if letter.isupper() and number else letter for number, letter in enumerate(name)
    ).upper()
