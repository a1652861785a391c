"""A model of many machines meets one: any list of sensors, commands by quantity and place, the machine's own frame."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import ConfigError, TableError
from crossfeed.ingest.table import Group, Table
from crossfeed.model.meeting import meet, readable
from crossfeed.model.sensors.model import SensorModel
from crossfeed.schema import Channel, Schema
from crossfeed.windows.frame import FEWEST_ROWS, first_rows, unmet
from tests.model.sensors.small import CONTEXT, HORIZONS, SCHEMA, config, fresh

OTHER = Schema(
    name="lathe",
    sensors=(
        Channel(name="x_load", quantity="load", unit="%"),
        Channel(name="spindle_power", quantity="power", unit="W"),
        Channel(name="hum", quantity="noise", unit="1"),
    ),
    commands=(
        Channel(name="x_set_feed", quantity="feed", unit="mm/s"),
        Channel(name="spindle_set", quantity="rotational speed", unit="rpm"),
        Channel(name="rapid_override", quantity="override", unit="%"),
    ),
    quantities={"noise": "1"},
)


def of_many() -> SensorModel:
    torch.manual_seed(0)
    return SensorModel(config(identity="described"), SCHEMA, unmet(SCHEMA)).eval()


def table(machines: int = 1, rows: int = 60) -> Table:
    chance = np.random.default_rng(0)
    sensors = np.abs(chance.normal(size=(machines * rows, 3))) * [30.0, 4000.0, 1.0]
    commands = np.abs(chance.normal(size=(machines * rows, 3))) * [10.0, 3000.0, 100.0]
    groups = tuple(Group(f"m{n}", "s", "r", "p", n * rows, (n + 1) * rows) for n in range(machines))
    return Table(OTHER, groups, np.tile(np.arange(float(rows)), machines), sensors, commands, 1.0, {})


def test_commands_are_found_by_quantity_and_place_and_others_are_not_read() -> None:
    schema = readable(OTHER, SCHEMA)
    assert schema.command_names == ("spindle_set", "x_set_feed", "feed_y"), "the missing axis keeps the model's name"
    assert schema.sensor_names == OTHER.sensor_names


def test_further_commands_come_after_those_of_the_model_where_they_are_asked_for() -> None:
    schema = readable(OTHER, SCHEMA, further=True)
    assert schema.command_names == ("spindle_set", "x_set_feed", "feed_y", "rapid_override")
    assert readable(SCHEMA, SCHEMA, further=True).commands == SCHEMA.commands


def speed(name: str) -> Channel:
    return Channel(name=name, quantity="rotational speed", unit="rpm")


@given(
    st.sampled_from([
        ("spindle_speed", "turning_spindle_speed"), ("spindle_rpm", "turning_spindle_speed"),
        ("main_spindle_set", "turning_spindle_set"), ("spindle_set", "sub_spindle_set"), ("spindle_1", "spindle_2"),
    ]).flatmap(lambda pair: st.tuples(st.just(pair[0]), st.permutations([*pair, "x_set_feed", "y_set_feed"]))),
)  # fmt: skip
def test_of_two_spindles_the_one_without_a_further_word_is_the_spindle(drawn: tuple[str, list[str]]) -> None:
    """A turning spindle that the table named first was taken for the spindle."""
    meant, order = drawn
    feeds = {name: Channel(name=name, quantity="feed", unit="mm/s") for name in ("x_set_feed", "y_set_feed")}
    commands = tuple(feeds.get(name) or speed(name) for name in order)
    found = Schema(name="mill-turn", sensors=OTHER.sensors, commands=commands, quantities=OTHER.quantities)
    schema = readable(found, SCHEMA, further=True)
    assert schema.command_names[:3] == (meant, "x_set_feed", "y_set_feed")
    assert set(schema.command_names) == set(order)


def test_a_model_of_two_spindles_finds_each_of_them() -> None:
    known = SCHEMA.model_copy(update={"commands": (*SCHEMA.commands, speed("turning_spindle_speed"))})
    lathe = OTHER.model_copy(update={"commands": (speed("turning_spindle_rpm"), OTHER.commands[0])})
    assert readable(lathe, known).command_names == (
        "spindle_speed", "x_set_feed", "feed_y", "turning_spindle_rpm",
    ), "the only spindle there is turns the work"  # fmt: skip


def test_the_weights_fit_any_list_of_sensors() -> None:
    model = of_many()
    met = meet(model, table(), {})
    assert met.schema.sensor_names == OTHER.sensor_names
    assert not met.normaliser.met_nobody
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(met.state_dict()[name], tensor)
    said = met.forecast(np.concatenate([table().sensors, table().commands[:, [1, 0]], np.zeros((60, 1))], 1)[:CONTEXT],
                        np.zeros((HORIZONS[-1], 3)))  # fmt: skip
    assert np.isfinite(said.mean).all()


def test_the_frame_comes_from_the_beginning_of_each_run_alone() -> None:
    known, later = table(), table()
    later.sensors[FEWEST_ROWS:] *= 50.0
    model = of_many()
    one, two = (meet(model, rows, {}, share=0.1) for rows in (known, later))
    np.testing.assert_array_equal(one.normaliser.sensor_scale, two.normaliser.sensor_scale)
    assert len(first_rows(known.groups, 0.1)) == FEWEST_ROWS, "at least what tells something"
    assert len(first_rows(known.groups, 0.9)) == 54


def test_several_machines_in_one_table_are_refused() -> None:
    with pytest.raises(TableError, match="holds 2 machines"):
        meet(of_many(), table(machines=2), {})


def test_a_model_that_knows_its_sensors_by_name_cannot_meet_another_list() -> None:
    with pytest.raises(ConfigError, match="by name"):
        meet(fresh().float(), table(), {})


def test_a_sensor_that_moves_is_read_whatever_it_is_called() -> None:
    model, rows = of_many(), table()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    met = meet(model, rows, {})
    history = np.concatenate([rows.sensors[:CONTEXT], rows.commands[:CONTEXT, [1, 0]], np.zeros((CONTEXT, 1))], 1)
    louder = history.copy()
    louder[-3:, 2] *= 4.0
    plan = np.zeros((HORIZONS[-1], 3))
    assert not np.allclose(met.forecast(history, plan).mean, met.forecast(louder, plan).mean)
