"""Machines of the fleet: physical, different from each other, the same for the same seed."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import MachineError
from crossfeed.sim.factory.draw import KINDS, NEIGHBOURS, draw_machine, period_of
from crossfeed.sim.factory.generate import MachineLog, _sessions, draw_log, draw_table
from crossfeed.sim.factory.habits import FEWEST, HIGHEST_LOAD, draw_habits
from crossfeed.sim.factory.motors import dice, fleet_schema
from crossfeed.sim.factory.people import Stint
from crossfeed.sim.physics.catalogue import machine_named

NUMBERS = st.sampled_from(range(18))
SENSORS = fleet_schema().sensor_names


@cache
def log(number: int) -> MachineLog:
    return draw_log(3, number, minutes=3)


def column(of: MachineLog, name: str) -> np.ndarray:
    return of.sensors[:, SENSORS.index(name)]


@settings(max_examples=18, deadline=None)
@given(NUMBERS)
def test_every_machine_shows_enough_and_nothing_but_numbers(number: int) -> None:
    made = log(number)
    shown = np.isfinite(made.sensors).any(axis=0)
    names = [name for name, present in zip(SENSORS, shown, strict=True) if present]
    assert len(names) >= FEWEST
    assert any(name.startswith("spindle_") for name in names)
    assert not np.isinf(made.sensors).any()
    assert np.isfinite(made.sensors[:, shown]).mean() > 0.9  # gaps are short
    assert np.isfinite(made.commands).all()
    assert made.commands.shape == (round(180 / made.period), 4)


@settings(max_examples=18, deadline=None)
@given(NUMBERS)
def test_values_stay_where_machines_have_them(number: int) -> None:
    made, machine = log(number), draw_machine(3, number)
    top, rapid = machine.parameters.spindle.speed_limit, max(axis.feed_limit for axis in machine.parameters.axes)
    assert np.abs(made.commands[:, 0]).max() <= 1.25 * top
    assert np.abs(made.commands[:, 1:]).max() <= 1.25 * rapid
    for name in SENSORS:
        values = column(made, name)
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        if name.endswith("_load"):
            assert values.min() >= 0
            assert values.max() <= HIGHEST_LOAD
        if name.endswith("_temp"):
            assert values.min() > 0
            assert values.max() < 160
        if name.endswith("_power"):
            assert np.abs(values).max() < 150
        if name.endswith(("_output_current", "_output_voltage", "_dc_voltage", "_mod_depth")):
            assert values.min() >= 0


@settings(max_examples=18, deadline=None)
@given(NUMBERS)
def test_a_spindle_takes_no_more_than_it_was_built_for(number: int) -> None:
    """Power over a log is at least zero and stays below what drive and losses can take."""
    power = column(log(number), "spindle_power")
    power = power[np.isfinite(power)]
    if len(power):
        machine = draw_machine(3, number)
        limit = machine.parameters.spindle.power_limit / 1000
        assert power.mean() > -0.05 * limit
        assert power.max() < 2.0 * limit + 0.05


@settings(max_examples=18, deadline=None)
@given(NUMBERS)
def test_a_lathe_has_no_y(number: int) -> None:
    made = log(number)
    if made.facts["kind"] == "lathe":
        assert not made.commands[:, 2].any()
        assert not any(np.isfinite(column(made, name)).any() for name in SENSORS if name.startswith("y_"))


def test_the_same_seed_draws_the_same_machine_and_others_draw_others() -> None:
    first, again, other = draw_log(5, 2, 2.5), draw_log(5, 2, 2.5), draw_log(6, 2, 2.5)
    np.testing.assert_array_equal(first.sensors, again.sensors)
    np.testing.assert_array_equal(first.commands, again.commands)
    assert first.name != other.name
    assert first.facts != other.facts


def test_the_fleet_is_mixed() -> None:
    machines = [draw_machine(0, number) for number in range(300)]
    assert {machine.kind.name for machine in machines} == set(KINDS)
    assert {period_of(0, number) for number in range(0, 60 * NEIGHBOURS, NEIGHBOURS)} == {0.1, 0.2, 0.5, 1.0}
    powers = [machine.spindle_power for machine in machines]
    assert min(powers) < 400
    assert max(powers) > 30_000
    habits = [draw_habits(machine, dice(0, number, "habits")) for number, machine in enumerate(machines)]
    assert any(habit.measured_commands for habit in habits)
    assert any(habit.unsigned_feeds for habit in habits)
    assert {dial.delay for habit in habits for dial in habit.dials.values()} == {0, 1, 2}


def test_the_judged_machines_are_not_in_the_fleet() -> None:
    judged = {machine_named(name).spindle.inertia for name in ("spinner_620", "spinner_630")}
    assert judged.isdisjoint(draw_machine(0, number).parameters.spindle.inertia for number in range(200))


def test_an_unnamed_sensor_repeats_a_known_one() -> None:
    for number in range(200):
        machine = draw_machine(3, number)
        habits = draw_habits(machine, dice(3, number, "habits"))
        repeated = [(other, *source) for other, source in habits.others.items() if source[0] not in habits.hidden]
        if repeated and not habits.gaps:
            other, source, factor = repeated[0]
            made = log(number)
            np.testing.assert_allclose(column(made, other), column(made, source) * factor, rtol=1e-12)
            return
    pytest.fail("no machine repeats a sensor")


def test_tables_hold_one_period_each_and_name_their_machines() -> None:
    numbers = [0, 1, NEIGHBOURS * 3, NEIGHBOURS * 9]
    tables = draw_table(0, numbers, 2)
    assert sorted(table.period for table in tables) == sorted({period_of(0, number) for number in numbers})
    assert sorted(name for table in tables for name in table.machines()) == sorted(
        draw_machine(0, number).name for number in numbers
    )
    for table in tables:
        assert set(table.manifest["machines"]) == set(table.machines())


def test_impossible_logs_are_refused() -> None:
    with pytest.raises(MachineError, match="minutes"):
        draw_table(0, [0], 0.1)
    with pytest.raises(MachineError, match="begin at 0"):
        draw_table(0, [], 5)


def test_generating_needs_no_frame_library() -> None:
    """A machine that only trains generates its own fleet: numpy, scipy, pyarrow, pydantic and PyYAML are enough."""
    heavy = ("polars", "pandas", "torch", "typer", "rich", "pint")
    code = (
        "import sys; from crossfeed.sim.factory.generate import draw_table; draw_table(0, [1], 2);"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


STINTS = (Stint("a", 0, 40), Stint("", 40, 60), Stint("b", 60, 170), Stint("", 170, 200), Stint("c", 200, 260))


def test_a_log_is_cut_where_a_stretch_ends_once_it_is_long_enough() -> None:
    """Ten inner steps a row: rows 0-4 a, 4-6 nothing, 6-17 b, 17-20 nothing, 20-26 c, of which 24 were logged."""
    assert _sessions(STINTS, 10, 24, 10, only_running=False) == (("run_01", "a", 0, 17), ("run_02", "c", 17, 24))
    assert _sessions(STINTS, 10, 24, 5, only_running=False) == (
        ("run_01", "a", 0, 6),
        ("run_02", "b", 6, 17),
        ("run_03", "c", 17, 24),
    )
    assert _sessions((Stint("", 0, 50),), 10, 5, 99, only_running=False) == (("run_01", "standing", 0, 5),)
