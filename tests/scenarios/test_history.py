from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossfeed.errors import TableError
from crossfeed.front.fitted_model import load
from crossfeed.logs.table import Table
from crossfeed.scenarios.history import read_history
from crossfeed.scenarios.measures import warnings_about
from crossfeed.schema import Channel, Schema
from tests.evaluation.small_machine import CONTEXT, SCHEMA, small_table
from tests.scenarios.conftest import Place, make_model


def test_the_default_is_the_end_of_the_last_session(place: Place) -> None:
    history = read_history(place.table, place.opened.model)
    assert history.group.session == "session5"
    assert history.at == 59.0
    assert len(history.sensors) == 60
    assert len(history.following_commands) == 0
    assert history.fingerprint == place.table.fingerprint()


def test_a_moment_divides_a_session_into_known_and_following_rows(place: Place) -> None:
    history = read_history(place.table, place.opened.model, session="session1", at=20.0)
    rows = slice(60, 81)
    np.testing.assert_array_equal(history.sensors, place.table.sensors[rows])
    np.testing.assert_array_equal(history.following_commands, place.table.commands[81:120])
    assert history.file is None
    between = read_history(place.table, place.opened.model, session="mill/run1/session1", at=20.7)
    assert between.at == 20.0


@pytest.mark.parametrize(
    ("session", "at", "said"),
    [
        ("session9", None, "There is no session 'session9'"),
        ("session1", 3.0, f"at least {CONTEXT}, the context"),
        ("session1", 75.0, "no moment at 75 s"),
        ("session1", -1.0, "no moment at -1 s"),
        ("session1", 0.0, "has 1 rows up to 0 s"),
    ],
)
def test_a_moment_that_cannot_be_used_is_named(place: Place, session: str, at: float | None, said: str) -> None:
    with pytest.raises(TableError, match=said):
        read_history(place.table, place.opened.model, session, at)


def test_two_sessions_of_one_name_must_be_told_apart(place: Place) -> None:
    groups = tuple(replace(group, session="same") for group in place.table.groups)
    table = replace(place.table, groups=groups)
    with pytest.raises(TableError, match="6 sessions of the table are called 'same'") as found:
        read_history(table, place.opened.model, "same")
    assert "mill/run2/same" in str(found.value)
    assert read_history(table, place.opened.model, "mill/run2/same").group.run == "run2"


def test_a_gap_in_the_clock_cuts_the_history(place: Place) -> None:
    time = place.table.time.copy()
    time[300 + 40 :] += 5.0
    table = replace(place.table, time=time)
    with pytest.raises(TableError, match="3 of them after the last gap"):
        read_history(table, place.opened.model, at=47.0)
    assert len(read_history(table, place.opened.model).sensors) == 20
    assert len(read_history(table, place.opened.model, at=30.0).following_commands) == 9
    # The last row before the gap belongs to what came before it.
    assert read_history(table, place.opened.model, at=39.0).at == 39.0


def test_a_session_ends_with_the_period_of_its_last_row(place: Place) -> None:
    assert read_history(place.table, place.opened.model, "session1", at=59.5).at == 59.0
    with pytest.raises(TableError, match="no moment at 60 s"):
        read_history(place.table, place.opened.model, "session1", at=60.0)


def test_no_shared_sensor_is_an_error_that_lists_the_models(place: Place) -> None:
    with pytest.raises(TableError, match="at least one of current, power, temperature"):
        read_history(place.table.without(SCHEMA.sensor_names), place.opened.model)


def test_a_command_the_machine_does_not_have_stands_still_and_is_told(place: Place) -> None:
    other = Schema(name="other", sensors=SCHEMA.sensors, commands=SCHEMA.commands[:1])
    table = replace(place.table, schema=other, commands=place.table.commands[:, :1])
    history = read_history(table, place.opened.model)
    assert (history.commands[:, 1] == 0.0).all()
    assert warnings_about(history, {}) == ["the history has no feed_x; it is taken as 0 throughout"]


def test_other_units_and_orders_are_converted_by_name(place: Place) -> None:
    power = Channel(name="power", quantity="power", unit="W")
    other = Schema(name="watts", sensors=(power, SCHEMA.sensors[0]), commands=SCHEMA.commands)
    sensors = place.table.sensors[:, [1, 0]] * [1000.0, 1.0]
    history = read_history(replace(place.table, schema=other, sensors=sensors), place.opened.model)
    np.testing.assert_allclose(history.sensors[:, :2], place.table.sensors[300:, :2])
    assert np.isnan(history.sensors[:, 2]).all()


def test_missing_commands_and_impossible_values_are_refused(place: Place) -> None:
    commands = place.table.commands.copy()
    commands[-2, 1] = np.nan
    with pytest.raises(TableError, match="lacks values of feed_x"):
        read_history(replace(place.table, commands=commands), place.opened.model)
    sensors = place.table.sensors.copy()
    sensors[-1, 0] = 1e12
    with pytest.raises(TableError, match="standard deviations away from all that was trained on"):
        read_history(replace(place.table, sensors=sensors), place.opened.model)


def test_a_sensor_the_model_never_saw_counts_as_absent() -> None:
    table = small_table(runs=6, rows=60)
    blind = make_model(table.without(["temperature"]))
    assert np.isnan(read_history(table, blind).sensors[:, 2]).all()


def test_a_file_that_is_none_is_an_error(place: Place, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"nothing")
    for path in (tmp_path / "broken.parquet", tmp_path / "nowhere.parquet"):
        with pytest.raises(TableError):
            Table.read(path)
        with pytest.raises(TableError):
            load(place.model, "cpu").forecast(path, "table")


def test_a_row_may_be_early_or_late_by_a_hundredth_of_a_period(place: Place) -> None:
    for off, cut in ((0.009, False), (0.011, True), (-0.009, False), (-0.011, True)):
        time = place.table.time.copy()
        time[320:] += off
        history = read_history(replace(place.table, time=time), place.opened.model)
        assert len(history.sensors) == (40 if cut else 60)
    early = read_history(place.table, place.opened.model, at=29.991)
    assert early.at == 30.0
    assert read_history(place.table, place.opened.model, at=29.989).at == 29.0
    assert read_history(place.table, place.opened.model, at=59.98).at == 59.0
    with pytest.raises(TableError, match="no moment"):
        read_history(place.table, place.opened.model, at=59.995)


def test_of_many_sessions_twelve_are_named(place: Place) -> None:
    for runs, words in ((12, "session11"), (13, "session11 and 1 more")):
        with pytest.raises(TableError) as found:
            read_history(small_table(runs=runs, rows=60), place.opened.model, "session99")
        assert words in str(found.value)
        assert ("more" in str(found.value)) == (runs == 13)


def test_a_session_as_long_as_the_context_is_enough(place: Place) -> None:
    assert len(read_history(place.table, place.opened.model, at=CONTEXT - 1.0).sensors) == CONTEXT
    with pytest.raises(TableError, match=f"has {CONTEXT - 1} rows up to {CONTEXT - 2} s"):
        read_history(place.table, place.opened.model, at=CONTEXT - 2.0)
