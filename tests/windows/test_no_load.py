"""What a spindle needs for turning alone is found in its logs, whatever it cut."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.schema import Channel
from crossfeed.windows.augment import NoLoadEffort
from crossfeed.windows.windows import WindowSet
from tests.windows.spindle import SCHEMA, SPEEDS, normaliser, spindle_table, spindle_windows, turning

SCALE = normaliser().sensor_scale[0]


def needs(found: NoLoadEffort, rpm: float) -> float:
    commands = normaliser().transform_commands(np.array([[rpm, 0.0]]))
    return float(found(found.speed(torch.from_numpy(commands).float()))[0, 0]) * SCALE


@pytest.mark.parametrize("rpm", SPEEDS)
def test_cuts_of_any_weight_do_not_hide_what_turning_needs(rpm: float) -> None:
    found = NoLoadEffort(SCHEMA, normaliser(), spindle_windows())
    assert found.sensor_E.tolist() == [0]
    assert needs(found, rpm) == pytest.approx(turning(np.array(rpm)), rel=1e-5)


def test_a_spindle_that_runs_backwards_needs_as_much() -> None:
    table = spindle_table()
    backwards = replace(table, sensors=table.sensors * [-1.0, 1.0], commands=table.commands * [-1.0, 1.0])
    found = NoLoadEffort(SCHEMA, normaliser(), spindle_windows(backwards))
    assert needs(found, -SPEEDS[1]) == pytest.approx(turning(np.array(SPEEDS[1])), rel=1e-5)


def test_speeds_faster_than_any_logged_one_tell_nothing() -> None:
    assert needs(NoLoadEffort(SCHEMA, normaliser(), spindle_windows()), 5000.0) == np.inf


def test_a_spindle_that_never_turned_or_was_never_measured_tells_nothing() -> None:
    table = spindle_table()
    still = replace(table, commands=table.commands * [0.0, 1.0])
    blind = replace(table, sensors=table.sensors * [np.nan, 1.0])
    for silent in (still, blind):
        assert needs(NoLoadEffort(SCHEMA, normaliser(), spindle_windows(silent)), SPEEDS[0]) == np.inf


def test_acceleration_is_not_taken_for_turning() -> None:
    """The first rows after a change of speed need next to nothing here; they are not what turning needs."""
    table = spindle_table()
    changes = np.flatnonzero(np.diff(table.commands[:, 0])) + 1
    sensors = table.sensors.copy()
    for row in changes:
        sensors[row : row + 3, 0] = 0.01
    found = NoLoadEffort(SCHEMA, normaliser(), spindle_windows(replace(table, sensors=sensors)))
    assert needs(found, SPEEDS[1]) == pytest.approx(turning(np.array(SPEEDS[1])), rel=1e-5)


@pytest.mark.parametrize(("rows", "told"), [(22, False), (23, True)])
def test_twenty_rows_tell_a_speed_and_the_first_three_of_a_log_may_still_accelerate(rows: int, told: bool) -> None:
    short = spindle_table(blocks=1, rows=rows)
    found = NoLoadEffort(SCHEMA, normaliser(), spindle_windows(short))
    assert np.isfinite(needs(found, float(short.commands[0, 0]))) == told


def test_an_effort_belongs_to_the_spindle_that_shares_its_name() -> None:
    second = Channel(name="turning_spindle_speed", quantity="rotational speed", unit="rpm")
    load = Channel(name="turning_spindle_load", quantity="load", unit="%")
    schema = SCHEMA.model_copy(update={"sensors": (SCHEMA.sensors[0], load), "commands": (SCHEMA.commands[0], second)})
    table = replace(spindle_table(), schema=schema)
    names = {"sensor_names": schema.sensor_names, "command_names": schema.command_names}
    frame = replace(normaliser(), **names)
    found = NoLoadEffort(schema, frame, WindowSet.build([table], None, frame, context=6, horizons=(1, 2, 4)))
    assert (found.sensor_E.tolist(), found.command_E.tolist()) == ([0, 1], [0, 1])


@given(st.integers(0, 50))
def test_no_steady_row_is_below_a_tenth_of_its_speed(seed: int) -> None:
    table = spindle_table(blocks=12, seed=seed)
    found = NoLoadEffort(SCHEMA, normaliser(), spindle_windows(table))
    for rpm in SPEEDS:
        told = needs(found, rpm)
        power = table.sensors[table.commands[:, 0] == rpm, 0]
        assert told == np.inf or power.min() - 1e-4 <= told <= power.max() + 1e-4


def test_a_tenth_of_the_efforts_at_a_speed_lie_below_what_turning_needs() -> None:
    """The first three rows may still accelerate; of the other 101 ten lie below the eleventh."""
    table = spindle_table(blocks=1, rows=104)
    rising = replace(table, sensors=table.sensors * [0.0, 1.0] + np.arange(104.0)[:, None] * [1.0, 0.0])
    found = NoLoadEffort(SCHEMA, normaliser(), spindle_windows(rising))
    assert needs(found, float(rising.commands[0, 0])) == pytest.approx(13.0, rel=1e-5)
