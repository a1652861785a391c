"""Logs as a workshop would bring them: other names, decimal commas, local time, pauses, remarks before the header."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import yaml

from crossfeed.sim.simulate import simulate_fleet

BERLIN = ZoneInfo("Europe/Berlin")
# The night in which Berlin puts its clocks back: the log goes through the repeated hour.
START = datetime(2024, 10, 27, 0, 50, tzinfo=UTC)
GERMAN = {
    "spindle_current": "Spindelstrom [A]",
    "spindle_torque": "Spindel Drehmoment [Nm]",
    "spindle_power": "Wirkleistung Spindel [kW]",
    "x_current": "Strom X-Achse [A]",
    "x_torque": "Drehmoment X-Achse [Nm]",
    "y_current": "Strom Y-Achse [A]",
    "y_torque": "Drehmoment Y-Achse [Nm]",
    "z_current": "Strom Z-Achse [A]",
    "z_torque": "Drehmoment Z-Achse [Nm]",
    "z_power": "Leistung Z-Achse [kW]",
    "spindle_motor_temp": "Motortemperatur Spindel [°C]",
    "x_motor_temp": "Motortemperatur X [°C]",
    "y_motor_temp": "Motortemperatur Y [°C]",
    "z_motor_temp": "Motortemperatur Z [°C]",
    "spindle_dc_voltage": "Zwischenkreisspannung [V]",
    "spindle_mod_depth": "Aussteuergrad [%]",
    "ambient_temp": "Umgebungstemperatur [°C]",
    "spindle_speed": "Drehzahl Soll [1/min]",
    "feed_x": "Vorschub X Soll [mm/min]",
    "feed_y": "Vorschub Y Soll [mm/min]",
    "feed_z": "Vorschub Z Soll [mm/min]",
}
ENGLISH = {
    name: name.replace("spindle", "SP1").replace("feed_", "CmdVelocity_").replace("SP1_speed", "SP1_CmdSpeed").title()
    for name in GERMAN
}


def write_own_logs(folder: Path, seed: int = 0) -> dict[str, Path]:
    """Folders `a` (German, as a spreadsheet exports it) and `b` (English, another unit, offsets) with several files."""
    first, second = simulate_fleet(folder / "simulated", 2, seed)
    places = {"a": folder / "logs" / "a", "b": folder / "logs" / "b"}
    for summary, place, write in ((first, places["a"], _german), (second, places["b"], _english)):
        log, mapping = summary.files
        columns = {c["native"]: (c["channel"], c["unit"]) for c in yaml.safe_load(mapping.read_text())["columns"]}
        frame = pl.read_csv(log)
        place.mkdir(parents=True)
        for number, part in enumerate(frame.partition_by("run", maintain_order=True), start=1):
            write(place / f"log_{number}.csv", part, columns)
    return places


def _in_units(frame: pl.DataFrame, columns: dict[str, tuple[str, str]]) -> pl.DataFrame:
    """The canonical units, whatever the simulated control wrote."""
    factors = {"W": 1e-3, "mm/s": 60.0, "deg/s": 1 / 6}
    return frame.select(
        "time", "program", *((pl.col(n) * factors.get(unit, 1.0)).alias(name) for n, (name, unit) in columns.items())
    )


def _german(path: Path, frame: pl.DataFrame, columns: dict[str, tuple[str, str]]) -> None:
    """Semicolons, decimal commas with dots between thousands, day and time of day apart, local time, a pause."""
    values = _in_units(frame, columns)
    names = [name for name in values.columns if name in GERMAN]
    lines = ["sep=;", ";".join(["Datum", "Uhrzeit", "NC-Programm", *(GERMAN[name] for name in names)])]
    for number, row in enumerate(values.iter_rows(named=True)):
        pause = 1500 if number > values.height // 2 else 0
        moment = (START + timedelta(seconds=row["time"] + pause)).astimezone(BERLIN)
        cells = [
            moment.strftime("%d.%m.%Y"),
            moment.strftime("%H:%M:%S,") + f"{moment.microsecond // 1000:03d}",
            row["program"],
        ]
        cells += [f"{row[name]:,.3f}".translate(str.maketrans(",.", ".,")) for name in names]
        lines.append(";".join(cells))
    path.write_text("\r\n".join(lines) + "\r\n", encoding="latin-1")


def _english(path: Path, frame: pl.DataFrame, columns: dict[str, tuple[str, str]]) -> None:
    """Tabs, stamps with an offset, watts, a remark before the header and words among the numbers."""
    values = _in_units(frame, columns)
    names = [name for name in values.columns if name in ENGLISH]
    lines = ["Exported by the cell controller", "\t".join(["Timestamp", "Program", *(ENGLISH[name] for name in names)])]
    for number, row in enumerate(values.iter_rows(named=True)):
        moment = (START + timedelta(seconds=row["time"])).astimezone(BERLIN).isoformat(timespec="milliseconds")
        cells = [f"{row[name] * (1000 if name.endswith('power') else 1):.3f}" for name in names]
        if number == 20:
            cells[0] = "NO SIGNAL"
        lines.append("\t".join([moment, row["program"], *cells]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
