"""What audits find in a table with one error at a time, held still: how many findings, how severe, their numbers."""

from collections.abc import Callable

import numpy as np
import pytest

from crossfeed.logs.table import Group, Table
from crossfeed.schema import canonical
from crossfeed.windows.audits.run import run_checks
from crossfeed.windows.audits.subject import SEVERITIES
from tests.windows.audits.conftest import case_of, spindle_rows

ROWS, CHECKS = 480, ["units", "swapped", "dead", "commands", "clock", "twins"]
SENSORS = {name: number for number, name in enumerate(canonical().sensor_names)}
COMMANDS = {name: number for number, name in enumerate(canonical().command_names)}
HELD: dict[str, list[float]] = {
    "none": [0, 1, 7, 159.0505],
    "power by 1000": [2, 1, 7, 180.800316],
    "power by 50": [2, 1, 7, 160.012512],
    "power by 3.2": [0, 2, 7, 146.47502],
    "power by 2.5": [0, 1, 7, 159.0505],
    "power by 0.3": [1, 1, 7, 130.957057],
    "power by 0.001": [1, 1, 7, 124.667333],
    "torque by 1000": [2, 1, 7, 152.124636],
    "torque by 100": [1, 1, 7, 126.968252],
    "torque by 10": [1, 1, 7, 128.759845],
    "torque by 0.2": [1, 1, 7, 137.048581],
    "speed by 6": [2, 1, 7, 152.263432],
    "speed by 0.0166667": [1, 1, 7, 143.856271],
    "speed by 0.10472": [1, 1, 7, 138.342635],
    "speed by 100": [1, 2, 7, 155.146238],
    "feed by 0.0166667": [0, 1, 7, 159.0505],
    "feed by 0.001": [0, 2, 7, 139.097343],
    "feed by 60": [0, 2, 7, 158.028849],
    "kelvin": [1, 1, 7, 151.043272],
    "axes exchanged": [1, 1, 7, 127.801609],
    "link and current exchanged": [1, 1, 7, 142.761301],
    "link as a torque": [0, 2, 7, 151.571816],
    "measured speed": [0, 2, 7, 96.8299497],
    "measured feed": [0, 2, 7, 52.8121234],
    "early speed": [0, 2, 7, 53.3094316],
    "late speed": [0, 1, 7, 159.0505],
    "still command": [0, 2, 7, 131.419479],
    "parameter": [0, 3, 7, 131.427865],
    "hole in a command": [0, 2, 7, 146.762784],
    "infinite": [1, 1, 7, 143.767053],
    "backwards": [1, 1, 7, 117.603975],
    "repeated": [2, 1, 7, 81.0094848],
    "gap": [1, 1, 7, 121.762856],
    "uneven": [1, 1, 7, 118.128703],
    "copied": [1, 1, 7, 145.234991],
    "two by 1000": [5, 4, 14, 703.614361],
    "two by 60": [2, 3, 14, 288.708531],
    "two by 12": [1, 2, 14, 256.403533],
    "two by 3": [0, 3, 14, 277.829983],
    "two by 0.02": [2, 2, 14, 189.03015],
}


def mill(machine: str = "mill", seed: int = 0, size: float = 1.0) -> Table:
    """A machine that obeys physics: a spindle, and two axes whose torque turns with their direction."""
    draw, schema = np.random.default_rng(seed), canonical()
    sensors, commands = np.full((ROWS, len(schema.sensors)), np.nan), np.zeros((ROWS, 4))
    for name, values in spindle_rows(ROWS, seed).items():
        into, column = (commands, COMMANDS) if name in COMMANDS else (sensors, SENSORS)
        into[:, column[name]] = size * values if name != "spindle_speed" else values
    for axis in "xy":
        feed = np.repeat(draw.choice([-3000.0, 0.0, 1500.0, 6000.0], ROWS // 8), 8)
        torque = size * np.sign(feed) * (2.0 + 0.2 * draw.standard_normal(ROWS)) + 0.1 * draw.standard_normal(ROWS)
        commands[:, COMMANDS[f"feed_{axis}"]] = feed
        sensors[:, SENSORS[f"{axis}_torque"]] = torque
        sensors[:, SENSORS[f"{axis}_current"]] = 1.3 * torque + 0.05 * draw.standard_normal(ROWS)
    sensors[:, SENSORS["spindle_current"]] = 2.0 * sensors[:, SENSORS["spindle_torque"]] + draw.standard_normal(ROWS)
    sensors[:, SENSORS["spindle_dc_voltage"]] = 565.0 + 2.0 * draw.standard_normal(ROWS)
    sensors[:, SENSORS["z_power"]] = size * 0.1 * np.abs(draw.standard_normal(ROWS))
    sensors[:, SENSORS["spindle_motor_temp"]] = np.linspace(25.0, 60.0, ROWS) + 0.1 * draw.standard_normal(ROWS)
    half = ROWS // 2
    groups = tuple(Group(machine, f"s{n}", f"r{n}", "p", n * half, (n + 1) * half) for n in range(2))
    return Table(schema, groups, np.tile(np.arange(half, dtype=float), 2), sensors, commands, 1.0, {})


def scaled(name: str, factor: float, offset: float = 0.0) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        values, column = (table.sensors, SENSORS) if name in SENSORS else (table.commands, COMMANDS)
        values[:, column[name]] = values[:, column[name]] * factor + offset

    return change


def exchanged(one: str, two: str) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        first, second = SENSORS[one], SENSORS[two]
        table.sensors[:, [first, second]] = table.sensors[:, [second, first]]

    return change


def trembling(name: str, size: float, ahead: int = 0) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        column = COMMANDS[name]
        noise = size * np.random.default_rng(3).standard_normal(ROWS)
        table.commands[:, column] = np.roll(table.commands[:, column] + noise, ahead)

    return change


def put(what: str, rows: slice | int, column: int, value: float) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        getattr(table, what)[(rows, column) if what != "time" else rows] = value

    return change


def late(seconds: float, row: int = 100) -> Callable[[Table], None]:
    def change(table: Table) -> None:
        table.time[row : ROWS // 2] += seconds

    return change


def copied(table: Table) -> None:
    table.sensors[ROWS // 2 :] = table.sensors[: ROWS // 2]


ERRORS: dict[str, Callable[[Table], None]] = {
    "none": lambda table: None,  # noqa: ARG005
    **{f"power by {factor:g}": scaled("spindle_power", factor) for factor in (1e3, 50.0, 3.2, 2.5, 0.3, 0.001)},
    **{f"torque by {factor:g}": scaled("spindle_torque", factor) for factor in (1e3, 100.0, 10.0, 0.2)},
    **{f"speed by {factor:g}": scaled("spindle_speed", factor) for factor in (6.0, 1 / 60.0, 0.10472, 100.0)},
    **{f"feed by {factor:g}": scaled("feed_x", factor) for factor in (1 / 60.0, 1e-3, 60.0)},
    "kelvin": scaled("spindle_motor_temp", 1.0, 273.15),
    "axes exchanged": exchanged("x_torque", "y_torque"),
    "link and current exchanged": exchanged("spindle_dc_voltage", "spindle_current"),
    "link as a torque": scaled("spindle_current", 0.0, 565.0),
    "measured speed": trembling("spindle_speed", 4.0),
    "measured feed": trembling("feed_x", 5.0),
    "early speed": trembling("spindle_speed", 4.0, 2),
    "late speed": trembling("spindle_speed", 0.0, -2),
    "still command": scaled("feed_x", 0.0),
    "parameter": scaled("feed_x", 0.0, 7.0),
    "hole in a command": put("commands", slice(40, 60), 0, np.nan),
    "infinite": put("sensors", 5, 1, np.inf),
    "backwards": late(-3.0),
    "repeated": put("time", 101, 0, 100.0),
    "gap": late(7.0),
    "uneven": late(0.3),
    "copied": copied,
}


def summary(*tables: Table) -> list[float]:
    """How many findings of each severity, and one number in which every number of them shows."""
    findings = run_checks(case_of(*tables), only=CHECKS).findings
    numbers = [float(value) for found in findings for _, value in sorted(found.numbers.items())]
    sizes = np.log(np.abs(numbers) + 1e-6) @ (1.0 + np.arange(len(numbers)) % 7)
    return [*(float(sum(found.severity == each for found in findings)) for each in SEVERITIES), float(sizes)]


def told(name: str) -> list[float]:
    table = mill()
    ERRORS[name](table)
    return summary(table)


def told_of_two(factor: float) -> list[float]:
    """A machine beside a larger one that writes its powers and currents in another unit."""
    other = mill("other", 1, 1.4)
    for name in ("spindle_power", "spindle_current", "feed_y"):
        scaled(name, factor)(other)
    return summary(mill(), other)


@pytest.mark.parametrize("name", [name for name in HELD if name in ERRORS])
def test_an_error_is_found_as_it_was(name: str) -> None:
    assert told(name) == pytest.approx(HELD[name], rel=1e-6)


@pytest.mark.parametrize("factor", [1000.0, 60.0, 12.0, 3.0, 0.02])
def test_machines_that_differ_by_a_factor_are_compared_as_they_were(factor: float) -> None:
    assert told_of_two(factor) == pytest.approx(HELD[f"two by {factor:g}"], rel=1e-6)
