"""A model of many machines meets one: any list of sensors, commands by quantity and place, the machine's own frame."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.table import Group, Table
from crossfeed.model.new_machine import add_sensors, fit_to_machine, readable_schema
from crossfeed.model.sensors.model import SensorModel
from crossfeed.schema import Channel, Schema
from crossfeed.windows.frame import FEWEST_ROWS, first_rows, placeholder_frame
from tests.model.sensors.small import CONTEXT, HORIZONS, SCHEMA, config, fresh, normaliser

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
    return SensorModel(config(identity="described"), SCHEMA, placeholder_frame(SCHEMA)).eval()


def table(machines: int = 1, rows: int = 60) -> Table:
    chance = np.random.default_rng(0)
    sensors = np.abs(chance.normal(size=(machines * rows, 3))) * [30.0, 4000.0, 1.0]
    commands = np.abs(chance.normal(size=(machines * rows, 3))) * [10.0, 3000.0, 100.0]
    groups = tuple(Group(f"m{n}", "s", "r", "p", n * rows, (n + 1) * rows) for n in range(machines))
    return Table(OTHER, groups, np.tile(np.arange(float(rows)), machines), sensors, commands, 1.0, {})


def test_commands_are_found_by_quantity_and_place_and_others_are_not_read() -> None:
    schema = readable_schema(OTHER, SCHEMA)
    assert schema.command_names == ("spindle_set", "x_set_feed", "feed_y"), "the missing axis keeps the model's name"
    assert schema.sensor_names == OTHER.sensor_names


def test_further_commands_come_after_those_of_the_model_where_they_are_asked_for() -> None:
    schema = readable_schema(OTHER, SCHEMA, further=True)
    assert schema.command_names == ("spindle_set", "x_set_feed", "feed_y", "rapid_override")
    assert readable_schema(SCHEMA, SCHEMA, further=True).commands == SCHEMA.commands


def test_the_feed_along_the_path_was_not_read_where_no_axis_told_its_own() -> None:
    names = ("path_feed_programmed", "feed_path", "spindle_set")
    path = [Channel(name=name, quantity="feed", unit="mm/s") for name in names[:2]]
    commands = (*path, Channel(name=names[2], quantity="rotational speed", unit="rpm"))
    own = OTHER.model_copy(update={"commands": commands})
    assert readable_schema(own, SCHEMA).command_names == ("spindle_set", "feed_path", "feed_y")
    axis = Channel(name="y_set_feed", quantity="feed", unit="mm/s")
    by_axis = OTHER.model_copy(update={"commands": (*commands, axis)})
    assert readable_schema(by_axis, SCHEMA).command_names == ("spindle_set", "feed_x", "y_set_feed")


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
    schema = readable_schema(found, SCHEMA, further=True)
    assert schema.command_names[:3] == (meant, "x_set_feed", "y_set_feed")
    assert set(schema.command_names) == set(order)


def test_a_model_of_two_spindles_finds_each_of_them() -> None:
    known = SCHEMA.model_copy(update={"commands": (*SCHEMA.commands, speed("turning_spindle_speed"))})
    lathe = OTHER.model_copy(update={"commands": (speed("turning_spindle_rpm"), OTHER.commands[0])})
    assert readable_schema(lathe, known).command_names == (
        "spindle_speed", "x_set_feed", "feed_y", "turning_spindle_rpm",
    ), "the only spindle there is turns the work"  # fmt: skip


def test_the_weights_fit_any_list_of_sensors() -> None:
    model = of_many()
    met = fit_to_machine(model, table(), {})
    assert met.schema.sensor_names == OTHER.sensor_names
    assert not met.normaliser.is_placeholder
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(met.state_dict()[name], tensor)
    said = met.forecast(np.concatenate([table().sensors, table().commands[:, [1, 0]], np.zeros((60, 1))], 1)[:CONTEXT],
                        np.zeros((HORIZONS[-1], 3)))  # fmt: skip
    assert np.isfinite(said.mean).all()


def test_the_frame_comes_from_the_beginning_of_each_run_alone() -> None:
    known, later = table(), table()
    later.sensors[FEWEST_ROWS:] *= 50.0
    model = of_many()
    one, two = (fit_to_machine(model, rows, {}, share=0.1) for rows in (known, later))
    np.testing.assert_array_equal(one.normaliser.sensor_scale, two.normaliser.sensor_scale)
    assert len(first_rows(known.groups, 0.1)) == FEWEST_ROWS, "at least what tells something"
    assert len(first_rows(known.groups, 0.9)) == 54


def test_several_machines_in_one_table_are_refused() -> None:
    with pytest.raises(TableError, match="holds 2 machines"):
        fit_to_machine(of_many(), table(machines=2), {})


def test_a_model_that_knows_its_sensors_by_name_cannot_meet_another_list() -> None:
    with pytest.raises(ConfigError, match="by name"):
        fit_to_machine(fresh().float(), table(), {})


def test_a_sensor_that_moves_is_read_whatever_it_is_called() -> None:
    model, rows = of_many(), table()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    met = fit_to_machine(model, rows, {})
    history = np.concatenate([rows.sensors[:CONTEXT], rows.commands[:CONTEXT, [1, 0]], np.zeros((CONTEXT, 1))], 1)
    louder = history.copy()
    louder[-3:, 2] *= 4.0
    plan = np.zeros((HORIZONS[-1], 3))
    assert not np.allclose(met.forecast(history, plan).mean, met.forecast(louder, plan).mean)


MORE = SCHEMA.model_copy(update={"sensors": (*SCHEMA.sensors[1:], Channel(name="hum", quantity="noise", unit="1")),
                                 "quantities": {"noise": "1"}})  # fmt: skip


def with_a_hum(rows: int = 60) -> Table:
    """A machine that lacks the first sensor of the model and has one that the model never met."""
    chance = np.random.default_rng(1)
    sensors = np.abs(chance.normal(size=(rows, 4))) * [2.0, 40.0, 22.0, 7.0]
    commands = np.abs(chance.normal(size=(rows, 3))) * [3000.0, 400.0, 400.0]
    group = Group("other", "s", "r", "p", 0, rows)
    return Table(MORE, (group,), np.arange(float(rows)), sensors, commands, 1.0, {})


def of_one(identity: str = "described", unseen: tuple[str, ...] = ()) -> SensorModel:
    """A model that has learned one machine, with a head that moves."""
    torch.manual_seed(0)
    model = SensorModel(config(identity=identity), SCHEMA, replace(normaliser(), unseen=unseen)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return model


def test_a_sensor_that_the_model_never_met_is_taken_in_and_the_others_stay() -> None:
    model, table = of_one(), with_a_hum()
    wider = add_sensors(model, table, {})
    assert wider.schema.sensor_names == (*SCHEMA.sensor_names, "hum")
    np.testing.assert_array_equal(wider.normaliser.sensor_scale[:-1], model.normaliser.sensor_scale)
    np.testing.assert_array_equal(wider.normaliser.sensor_location[:-1], model.normaliser.sensor_location)
    np.testing.assert_array_equal(wider.normaliser.command_scale, model.normaliser.command_scale)
    first = table.sensors[:FEWEST_ROWS, -1]
    assert wider.normaliser.sensor_scale[-1] == pytest.approx(np.sqrt(np.mean(first**2)))
    assert wider.normaliser.fitted_on != model.normaliser.fitted_on
    again = add_sensors(wider, table, {})
    assert again is wider, "it is met only once"


def test_where_the_new_sensor_is_absent_nothing_else_changes() -> None:
    model = of_one()
    wider = add_sensors(model, with_a_hum(), {})
    rows = np.random.default_rng(2).normal(size=(CONTEXT, 4)) * [4.0, 2.0, 2.0, 0.5] + [4.0, 1.0, 40.0, 22.0]
    commands = np.abs(np.random.default_rng(3).normal(size=(CONTEXT, 3))) * [3000.0, 400.0, 400.0]
    plan = commands[: HORIZONS[-1]]
    before = model.forecast(np.concatenate([rows, commands], 1), plan)
    silent = np.concatenate([rows, np.full((CONTEXT, 1), np.nan), commands], 1)
    np.testing.assert_allclose(wider.forecast(silent, plan).mean[..., :4], before.mean, rtol=1e-5, atol=1e-5)
    heard = silent.copy()
    heard[:, 4] = np.linspace(3.0, 9.0, CONTEXT)
    said = wider.forecast(heard, plan)
    assert np.isfinite(said.quantile(0.9)).all()
    assert not np.allclose(said.mean[..., :4], before.mean, rtol=1e-5), "what is heard is read"


def test_a_channel_that_the_source_had_a_name_for_but_never_showed_is_taken_in() -> None:
    model = of_one(unseen=("x_current", "spindle_current"))
    wider = add_sensors(model, with_a_hum(), {})
    assert wider.normaliser.unseen == ("spindle_current",), "nobody shows it here either"
    place = SCHEMA.sensor_names.index("x_current")
    assert wider.normaliser.sensor_scale[place] != model.normaliser.sensor_scale[place]


def test_a_network_that_knows_names_and_a_machine_without_news_leave_the_model_as_it_is() -> None:
    named, model, table = of_one("named"), of_one(), with_a_hum()
    assert add_sensors(named, table, {}) is named
    nothing_new = replace(
        table, schema=MORE.model_copy(update={"sensors": MORE.sensors[:3]}), sensors=table.sensors[:, :3]
    )
    assert add_sensors(model, nothing_new, {}) is model
    silent = replace(table, sensors=np.concatenate([table.sensors[:, :3], np.full((len(table), 1), np.nan)], 1))
    assert add_sensors(model, silent, {}) is model
