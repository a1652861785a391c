"""Rows of a source in the channels and units of the model: converted, in order, and only those of one session."""

import pytest

from crossfeed.errors import TableError
from crossfeed.live.snapshot import MachineRows, Row
from crossfeed.schema import Channel, Schema

SPEED = Channel(name="speed", quantity="rotational speed", unit="rpm")
MODEL = Schema(
    name="model",
    sensors=(
        Channel(name="power", quantity="power", unit="kW"),
        Channel(name="temp", quantity="temperature", unit="degC"),
        Channel(name="torque", quantity="torque", unit="N m"),
    ),
    commands=(
        SPEED,
        Channel(name="feed", quantity="feed", unit="mm/min"),
        Channel(name="knob", quantity="override", unit="%"),
        Channel(name="share", quantity="override", unit="1"),
    ),
)
SOURCE = Schema(
    name="source",
    sensors=(
        Channel(name="power", quantity="power", unit="W"),
        Channel(name="temp", quantity="temperature", unit="kelvin"),
    ),
    commands=(SPEED,),
)


def row(time: float, begins: bool = False, power: float | None = 1500.0) -> Row:
    return Row(time, {"power": power, "temp": 300.15, "speed": 900.0}, begins)


def test_values_are_converted_and_what_the_machine_lacks_is_absent_or_idle() -> None:
    rows = MachineRows(SOURCE, MODEL, 4)
    rows.take([row(1.0, True)])
    assert rows.newest is not None
    assert rows.newest.values == pytest.approx(
        {"power": 1.5, "temp": 27.0, "torque": None, "speed": 900.0, "feed": 0.0, "knob": 100.0, "share": 1.0}
    )
    rows.take([row(2.0, power=None)])
    assert rows.newest.values["power"] is None
    with pytest.raises(TableError, match="tells no command of the model"):
        MachineRows(SOURCE.model_copy(update={"commands": ()}), MODEL, 4)


def test_rows_are_kept_in_order_and_a_changed_one_is_told() -> None:
    rows = MachineRows(SOURCE, MODEL, 4)
    assert rows.newest is None
    assert rows.take([row(1.0, True)])
    assert not rows.take([row(2.0), row(3.0)])
    assert rows.take([row(2.0, power=2000.0)]), "an earlier row was told anew"
    assert [(each.time, each.values["power"]) for each in rows] == [(1.0, 1.5), (2.0, 2.0), (3.0, 1.5)]
    assert rows.take([row(3.0)]), "the newest was told anew"
    assert rows.take([row(2.5)]), "one came late"
    assert [each.time for each in rows] == [1.0, 2.0, 2.5, 3.0]
    assert not rows.take([row(4.0)])
    assert [each.time for each in rows] == [2.0, 2.5, 3.0, 4.0]


def test_a_session_runs_from_the_row_with_which_it_began() -> None:
    rows = MachineRows(SOURCE, MODEL, 9)
    rows.take([row(1.0, True), row(2.0), row(5.0, True), row(6.0), row(7.0)])
    assert [each.time for each in rows.running()] == [5.0, 6.0, 7.0]
    assert rows.take([row(8.0, True)])
    assert [each.time for each in rows.running()] == [8.0]
