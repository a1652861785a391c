"""A machine's own frame: zero stays zero, size does not matter, short histories lean on what is usual."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.logs.table import Group, Table
from crossfeed.schema import Channel, Schema
from crossfeed.windows.frame import FAR, FINEST, first_rows, fit_frame, framed, placeholder_frame, usual_scales

SCHEMA = Schema(
    name="one drive",
    sensors=(
        Channel(name="spindle_power", quantity="power", unit="W"),
        Channel(name="spindle_motor_temp", quantity="temperature", unit="degC"),
        Channel(name="spindle_dc_voltage", quantity="voltage", unit="V"),
    ),
    commands=(
        Channel(name="feed_x", quantity="feed", unit="mm/min"),
        Channel(name="feed_y", quantity="feed", unit="mm/s"),
    ),
)


def rows(count: int = 400, size: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    power = size * np.abs(chance.normal(size=count)) * 1000.0
    sensors = np.stack([power, 40.0 + chance.normal(size=count), 600.0 + 3.0 * chance.normal(size=count)], axis=1)
    feed = np.where(chance.random(count) < 0.5, 0.0, 600.0)
    return sensors, np.stack([feed, feed / 60.0], axis=1)


@given(st.floats(1e-3, 1e3))
def test_a_machine_of_any_size_looks_alike_in_its_own_frame(size: float) -> None:
    one, other = fit_frame(SCHEMA, *rows()), fit_frame(SCHEMA, *rows(size=size))
    np.testing.assert_allclose(
        one.transform_sensors(rows()[0])[:, 0], other.transform_sensors(rows(size=size)[0])[:, 0], rtol=1e-9
    )


def test_zero_stays_zero_where_it_means_a_standstill() -> None:
    frame = fit_frame(SCHEMA, *rows())
    assert frame.transform_sensors(np.zeros((1, 3)))[0, 0] == 0.0
    assert (frame.transform_commands(np.zeros((1, 2))) == 0.0).all()
    assert frame.sensor_location[1] == pytest.approx(40.0, abs=0.3), "a temperature is seen from its mean"
    assert frame.sensor_scale[2] == pytest.approx(3.0, rel=0.2), "and so is the voltage of a DC link"


def test_commands_of_one_quantity_share_a_scale_whatever_their_units() -> None:
    scale = fit_frame(SCHEMA, *rows()).command_scale
    assert scale[0] == pytest.approx(60.0 * scale[1])
    assert scale[0] == pytest.approx(600.0 * np.sqrt(2.0)), "the path speed of the rows that move, in mm/min"


@given(st.integers(1, 5000))
def test_the_more_rows_the_less_counts_what_is_usual(count: int) -> None:
    seen, usual = fit_frame(SCHEMA, *rows(count)), {"power spindle": 50.0}  # kW
    blended = fit_frame(SCHEMA, *rows(count), usual)
    part = np.log(blended.sensor_scale[0] / seen.sensor_scale[0]) / np.log(50_000.0 / seen.sensor_scale[0])
    at_work = int((rows(count)[1] != 0.0).any(axis=1).sum())
    assert part == pytest.approx(32.0 / (32.0 + at_work)) or not at_work


def test_a_sensor_that_never_moved_takes_what_is_usual() -> None:
    sensors, commands = rows()
    sensors[:, 0], commands[:] = 0.0, 0.0
    frame = fit_frame(SCHEMA, sensors, commands, {"power spindle": 2.0, "feed": 1000.0})
    assert frame.sensor_scale[0] == pytest.approx(2000.0), "2 kW in the watts of this machine"
    assert frame.command_scale == pytest.approx([1000.0, 1000.0 / 60.0])


def test_idle_hours_do_not_change_a_frame() -> None:
    sensors, commands = rows()
    idle = (
        np.concatenate([sensors, np.full((5000, 3), [3.0, 40.0, 600.0])]),
        np.concatenate([commands, np.zeros((5000, 2))]),
    )
    assert fit_frame(SCHEMA, *idle).sensor_scale[0] == fit_frame(SCHEMA, sensors, commands).sensor_scale[0]


def test_an_absent_sensor_is_unseen_and_harmless() -> None:
    sensors, commands = rows()
    sensors[:, 1] = np.nan
    frame = fit_frame(SCHEMA, sensors, commands)
    assert frame.unseen == ("spindle_motor_temp",)
    assert np.isfinite(frame.sensor_scale).all()


SPINDLE = Schema(
    name="spindle and axis",
    sensors=(
        Channel(name="spindle_actual_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="x_power", quantity="power", unit="W"),
        Channel(name="hum", quantity="noise", unit="1"),
    ),
    commands=(
        Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_x", quantity="feed", unit="mm/min"),
    ),
    quantities={"noise": "1"},
)


@given(st.integers(20, 2000), st.integers(0, 1), st.floats(1e-3, 1.0))
def test_a_drive_that_never_moved_has_shown_nothing_but_its_noise(count: int, turned: int, noise: float) -> None:
    """The speed of a spindle that stood in the first rows was measured by its noise: forecasts missed by 500 scales."""
    chance = np.random.default_rng(count)
    sensors = np.stack([noise * chance.normal(size=count), np.full(count, 300.0), chance.normal(size=count)], axis=1)
    commands = np.stack([np.zeros(count), np.full(count, 600.0)], axis=1)
    commands[0, 0] = 3000.0 * turned
    usual = {"rotational speed spindle": 2000.0, "power x": 0.001}
    scale = fit_frame(SPINDLE, sensors, commands, usual).sensor_scale
    size = float(np.sqrt(np.mean(sensors[:, 0] ** 2)))
    rows = count if turned else count / 64  # at rest a drive shows its noise alone
    assert np.log(scale[0]) == pytest.approx((rows * np.log(size) + 32.0 * np.log(2000.0)) / (rows + 32.0))
    assert scale[1] == pytest.approx(np.exp((count * np.log(300.0) + 32.0 * np.log(1.0)) / (count + 32.0))), "X moved"
    assert fit_frame(SPINDLE, sensors, commands).sensor_scale[0] == pytest.approx(size), "where nothing is usual"


def test_a_drive_that_never_moved_but_shows_more_than_is_usual_is_believed() -> None:
    sensors, commands = np.tile([5000.0, 1.0, 0.1], (100, 1)), np.tile([0.0, 600.0], (100, 1))
    usual = {"rotational speed spindle": 2000.0}
    believed = np.exp((100 * np.log(5000.0) + 32.0 * np.log(2000.0)) / 132.0)
    assert fit_frame(SPINDLE, sensors, commands, usual).sensor_scale[0] == pytest.approx(believed)


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e2), st.integers(0, 1000))
def test_a_quantity_nobody_knows_is_seen_from_its_mean_where_zero_is_far(
    level: float, spread: float, seed: int
) -> None:
    """A number that stays at 0.36 within 0.0002 was measured by 0.36, and forecast 25 times worse than by its last."""
    values = level + spread * np.random.default_rng(seed).normal(size=200)
    sensors = np.stack([np.full(200, 3000.0), np.full(200, 300.0), values], axis=1)
    frame = fit_frame(SPINDLE, sensors, np.full((200, 2), 600.0))
    mean, found = values.mean(), values.std()
    if abs(mean) > FAR * found:
        assert frame.sensor_location[2] == pytest.approx(mean)
        assert frame.sensor_scale[2] == pytest.approx(max(found, FINEST * abs(mean)))
        assert abs(frame.sensor_zero[2]) > FAR, "its zero means nothing to the network"
    else:
        assert frame.sensor_location[2] == 0.0
        assert frame.sensor_scale[2] == pytest.approx(np.sqrt(np.mean(values**2)))
    usual = usual_scales(SPINDLE, [frame])
    assert ("noise" in usual) == (frame.sensor_location[2] == 0.0), "a spread is no size"


def with_further_commands(idle: int) -> tuple[Schema, np.ndarray, np.ndarray]:
    """The same machine with two spindles and an override, and some rows in which nothing moves."""
    further = (
        Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="turning_spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_override", quantity="override", unit="%"),
    )
    sensors, commands = rows()
    at_work = (commands != 0.0).any(axis=1)
    more = np.stack([8000.0 * at_work, 300.0 * at_work, np.full(len(commands), 80.0)], axis=1)
    commands = np.concatenate([commands, more], axis=1)
    sensors = np.concatenate([sensors, np.full((idle, 3), [3.0, 40.0, 600.0])])
    commands = np.concatenate([commands, np.tile([0.0, 0.0, 0.0, 0.0, 80.0], (idle, 1))])
    return SCHEMA.model_copy(update={"commands": (*SCHEMA.commands, *further)}), sensors, commands


@pytest.mark.parametrize("idle", [0, 5000])
def test_an_override_that_stands_at_80_percent_is_no_work(idle: int) -> None:
    """It is never zero: hours in which nothing moved counted as work, and every sensor looked smaller."""
    schema, sensors, commands = with_further_commands(idle)
    plain = fit_frame(SCHEMA, sensors[:400], commands[:400, :2])
    frame = fit_frame(schema, sensors, commands)
    assert frame.sensor_scale[0] == plain.sensor_scale[0]
    assert frame.command_scale[:2] == pytest.approx(plain.command_scale), "what was known is seen as before"
    assert frame.command_scale[4] == pytest.approx(80.0)


def test_two_spindles_are_each_measured_by_themselves() -> None:
    """A slow turning spindle shared the scale of the fast milling spindle and could hardly be told from standing."""
    frame = fit_frame(*with_further_commands(0))
    assert frame.command_scale[2:4] == pytest.approx([8000.0, 300.0])


def test_a_machine_without_any_speed_is_at_work_while_it_is_commanded() -> None:
    press = Schema(
        name="press",
        sensors=SCHEMA.sensors[:1],
        commands=(Channel(name="ram_pressure", quantity="pressure", unit="bar"),),
    )
    frame = fit_frame(press, np.array([[100.0], [4.0], [100.0]]), np.array([[5.0], [0.0], [5.0]]))
    assert frame.sensor_scale == pytest.approx([100.0])


def two_machines() -> Table:
    (small, one), (large, two) = rows(), rows(size=100.0, seed=1)
    groups = (Group("small", "s0", "r0", "p", 0, 400), Group("large", "s1", "r1", "p", 400, 800))
    time = np.concatenate([np.arange(400), np.arange(400)]) * 0.1
    return Table(SCHEMA, groups, time, np.concatenate([small, large]), np.concatenate([one, two]), 0.1, {})


def test_machines_of_one_table_are_each_measured_by_themselves_and_time_counts_rows() -> None:
    table = two_machines()
    parts = {group.machine: slice(group.start, group.stop) for group in table.groups}
    frames = {name: fit_frame(SCHEMA, table.sensors[part], table.commands[part]) for name, part in parts.items()}
    seen = framed(table, frames)
    for group in seen.groups:
        part = slice(group.start, group.stop)
        at_work = (seen.commands[part] != 0.0).any(axis=1)
        assert np.sqrt(np.mean(seen.sensors[part, 0][at_work] ** 2)) == pytest.approx(1.0)
    assert seen.period == 1.0
    assert np.diff(seen.time[:400]) == pytest.approx(np.ones(399))
    usual = usual_scales(SCHEMA, list(frames.values()))
    geometric = np.sqrt(np.prod([frame.sensor_scale[0] for frame in frames.values()])) / 1000.0
    assert usual["power spindle"] == pytest.approx(geometric), "in kW, the unit of the quantity"
    assert usual["feed"] == pytest.approx(600.0 * np.sqrt(2.0)), "in mm/min, whatever the unit of each axis"


def test_the_first_rows_are_a_tenth_of_each_run_but_at_least_32_where_there_are_as_many() -> None:
    sizes = (20, 32, 100, 1000)
    stops = np.cumsum(sizes)
    groups = [
        Group("m", f"s{n}", "r", "p", int(stop) - size, int(stop))
        for n, (stop, size) in enumerate(zip(stops, sizes, strict=True))
    ]
    found = first_rows(groups)
    wanted = [range(20), range(20, 52), range(52, 84), range(152, 252)]
    assert found.tolist() == [row for part in wanted for row in part]
    assert len(first_rows(groups, 0.5)) == 20 + 32 + 50 + 500


def test_a_frame_knows_whether_it_has_met_a_machine() -> None:
    assert placeholder_frame(SCHEMA).is_placeholder
    frame = fit_frame(SCHEMA, *rows())
    assert not frame.is_placeholder
    assert not replace(placeholder_frame(SCHEMA), method="zscore").is_placeholder
