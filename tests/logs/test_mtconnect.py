"""MTConnect change logs: held values, sessions while active, units from the device model, real days."""

import gzip
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from crossfeed.errors import LogError
from crossfeed.logs.mtconnect import LOG_FORMAT
from crossfeed.logs.mtconnect_devices import read_devices, read_lines
from crossfeed.logs.pipeline import ingest

UNITS = {"%": "PERCENT", "degC": "CELSIUS", "rpm": "REVOLUTION/MINUTE", "mm/s": "MILLIMETER/SECOND"}
MODEL = """<?xml version='1.0'?>
<MTConnectDevices xmlns='urn:mtconnect.org:MTConnectDevices:1.3'><Devices>
<Device name='Other01' id='o'><DataItems><DataItem name='Xload' category='SAMPLE' type='LOAD'/></DataItems></Device>
<Device name='Mazak01' id='m'><DataItems>{items}
<DataItem name='execution' category='EVENT' type='EXECUTION'/><DataItem name='program' category='EVENT' type='PROGRAM'/>
</DataItems></Device></Devices></MTConnectDevices>"""


def stamp(second: float) -> str:
    return f"2016-11-04T{int(second) // 3600 + 8:02d}:{int(second) // 60 % 60:02d}:{second % 60:09.6f}Z"


@pytest.fixture
def day(tmp_path):
    """Two active stretches of 100 s, one of 30 s, with changes, an outlier and a flickering temperature."""
    items = "".join(
        f"<DataItem name='{c.native}' category='SAMPLE' type='X' units='{UNITS[c.unit]}' nativeUnits='FOOT'/>"
        for c in LOG_FORMAT.columns
    )
    folder = tmp_path / "mazak"
    folder.mkdir()
    (folder / "Devices.xml").write_text(MODEL.format(items=items))
    lines = [(0, column.native, "50") for column in LOG_FORMAT.columns]
    lines += [(0, "execution", "READY"), (0, "program", "167"), (0, "servo_cond", "Normal||||")]
    for begin, end in ((10, 110), (200, 230), (300, 400)):
        lines += [(begin, "execution", "ACTIVE"), (end, "execution", "READY")]
    lines += [(20, "Xload", "80"), (20.5, "Xload", "60"), (30, "Xfrt", "10"), (40, "Xfrt", "70000"), (41, "Xfrt", "10")]
    lines += [(50, "Stemp", "0"), (51, "Stemp", "50"), (60, "Stemp", "0"), (70, "Stemp", "51"), (80, "Zload", "what")]
    lines += [(340, "program", "168"), (500, "execution", "UNAVAILABLE")]
    path = folder / "Mazak01-20161104-20161105.txt"
    path.write_text("\n".join(f"{stamp(t)}|{item}|{value}" for t, item, value in sorted(lines, key=lambda e: e[0])))
    return path


def column_of(table, name: str) -> np.ndarray:
    names = table.schema.sensor_names
    if name in names:
        return table.sensors[:100, names.index(name)]
    return table.commands[:100, table.schema.command_names.index(name)]


def test_a_session_is_one_program_while_active_and_long_enough(day) -> None:
    table = ingest(LOG_FORMAT, day)
    assert [(g.run, g.session, g.program, len(g)) for g in table.groups] == [
        ("2016-11-04", "2016-11-04-001", "167", 100)
    ]
    assert table.manifest["counts"]["dropped_sessions"] == {"shorter than 64 s": 3}


def test_values_hold_until_they_change(day) -> None:
    table = ingest(LOG_FORMAT, day)
    load = column_of(table, "x_load")
    assert load[:10].tolist() == [50.0] * 10
    assert load[10] == pytest.approx(70.0)
    assert load[11:].tolist() == [60.0] * 89


def test_outliers_and_invalid_temperatures_are_handled_by_their_ranges(day) -> None:
    table = ingest(LOG_FORMAT, day)
    assert column_of(table, "feed_x")[25:35].tolist() == [600.0] * 10
    temperature = column_of(table, "spindle_temp")
    # One bad reading is bridged; ten seconds of them are absent after two.
    assert temperature[40:42].tolist() == [50.0, 50.0]
    assert np.isnan(temperature[50:60]).tolist() == [False, False, *(True,) * 8]
    repairs = table.manifest["repairs"]
    assert repairs["z_load: text in a numeric column"] == 1
    assert repairs["feed_x: outside 0 to 1000 mm/s"] == 1
    assert repairs["spindle_temp: outside 1 to 150 degC"] == 2


def test_units_come_from_the_device_model_and_not_from_the_native_units(day) -> None:
    model = day.parent / "Devices.xml"
    seconds = ingest(LOG_FORMAT, day)
    model.write_text(model.read_text().replace("MILLIMETER/SECOND", "MILLIMETER/MINUTE"))
    minutes = ingest(LOG_FORMAT, day)
    assert column_of(seconds, "feed_x")[0] == pytest.approx(60 * column_of(minutes, "feed_x")[0])
    assert minutes.manifest["channels"]["feed_x"]["native_unit"] == "mm/min"
    assert minutes.manifest["files"][0]["name"] == "Devices.xml"


def test_gzip_and_folder_give_the_same_table(day) -> None:
    wanted = ingest(LOG_FORMAT, day).fingerprint()
    packed = day.with_name(f"{day.name}.gz")
    packed.write_bytes(gzip.compress(day.read_bytes()))
    day.unlink()
    assert ingest(LOG_FORMAT, packed).fingerprint() == wanted
    assert ingest(LOG_FORMAT, packed.parent).fingerprint() == wanted


def test_damaged_missing_and_foreign_files_are_refused(day) -> None:
    packed = day.with_name(f"{day.name}.gz")
    packed.write_bytes(gzip.compress(day.read_bytes())[:-20])
    with pytest.raises(LogError, match="not a whole gzip"):
        ingest(LOG_FORMAT, packed)
    day.write_text("")
    with pytest.raises(LogError, match="is empty"):
        ingest(LOG_FORMAT, day)
    other = day.with_name("Hurco02-20161104.txt")
    day.rename(other)
    with pytest.raises(LogError, match="named after none of them"):
        ingest(LOG_FORMAT, other)
    (day.parent / "Devices.xml").write_text("<not xml")
    with pytest.raises(LogError, match="not a device model"):
        ingest(LOG_FORMAT, other)
    (day.parent / "Devices.xml").unlink()
    with pytest.raises(LogError, match=r"no Devices\.xml"):
        ingest(LOG_FORMAT, other)


def test_a_log_that_never_mentions_an_item_is_refused(day) -> None:
    day.write_text("\n".join(line for line in day.read_text().splitlines() if "|Sovr|" not in line))
    with pytest.raises(LogError, match="never mentions Sovr"):
        ingest(LOG_FORMAT, day)


def test_lines_out_of_order_are_sorted_and_counted(day) -> None:
    wanted = ingest(LOG_FORMAT, day).fingerprint()
    lines = day.read_text().splitlines()
    day.write_text("\n".join([*lines[30:], *lines[:30]]))
    table = ingest(LOG_FORMAT, day)
    assert table.fingerprint() == wanted
    assert table.manifest["repairs"]["clock ran backwards, lines sorted by time"] == 1


def test_the_real_device_model_has_the_units_we_declare(nist_folder) -> None:
    items = read_devices(nist_folder / "Devices.xml")["Mazak01"]
    assert {column.native: items[column.native].unit for column in LOG_FORMAT.columns} == {
        column.native: UNITS[column.unit] for column in LOG_FORMAT.columns
    }


def test_real_days_ingest(nist_folder) -> None:
    table = ingest(LOG_FORMAT, nist_folder / "Mazak01-201610*.txt.gz")
    assert table.manifest["counts"]["raw_rows"] == 72557
    assert len(table.groups) == 28
    temperatures = table.sensors[:, 5:7]
    assert np.nanmin(temperatures) >= 1
    assert np.nanmax(temperatures) <= 150
    assert table.manifest["repairs"]["spindle_temp: outside 1 to 150 degC"] > 500
    assert table.commands[:, 4].max() < 60 * 1000
    assert np.isfinite(table.commands).all()


class Chunk(bytes):
    """A few bytes that count as many."""

    def __len__(self) -> int:
        return 500_000_000


def test_a_packed_log_of_more_than_a_gigabyte_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch) -> None:
    for chunks, fits in ((2, True), (3, False)):
        packed = iter([Chunk(b"2016|x|1\n")] * chunks + [b""])
        monkeypatch.setattr(
            gzip, "open", lambda _, packed=packed: nullcontext(SimpleNamespace(read=lambda _: next(packed)))
        )
        if fits:
            assert read_lines(tmp_path / "day.txt.gz", {}).rows() == [("2016", "x", "1")] * 2
        else:
            with pytest.raises(LogError, match="would become more than 1 GB"):
                read_lines(tmp_path / "day.txt.gz", {})
