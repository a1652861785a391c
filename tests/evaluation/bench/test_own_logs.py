"""What is judged, what is learned from, and how a short log is cut."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import TableError
from crossfeed.evaluation.bench.own_logs import FIRST_ROWS, JudgedWindows, OwnLogs, sensors_left_out, sides
from crossfeed.evaluation.bench.result import ALL
from crossfeed.logs.table import Group, Table
from crossfeed.windows.split_tables import DataConfig
from tests.evaluation.bench.conftest import CONTEXT, HORIZONS, WINDOW, own_table


@pytest.fixture
def logs(own: Table) -> OwnLogs:
    return OwnLogs.of(own, DataConfig())


def test_judged_sessions_are_never_learned_from(logs: OwnLogs) -> None:
    judged = {row for group in logs.test for row in range(group.start, group.stop)}
    learned = {row for group in logs.first(ALL) for row in range(group.start, group.stop)}
    assert judged
    assert learned
    assert not judged & learned
    assert len(judged) + len(learned) == len(logs.table)


def test_the_first_minutes_are_the_beginning_cut_where_time_is_up(logs: OwnLogs) -> None:
    groups = logs.first(2.5)
    assert sum(map(len, groups)) == 150
    assert [len(group) for group in groups] == [100, 50]
    assert groups[0] == logs.own[0]
    assert groups[1].start == logs.own[1].start


@pytest.mark.parametrize("period", [1.0, 0.1])
def test_the_own_logs_are_as_long_as_their_rows_last(own: Table, period: float) -> None:
    logs = OwnLogs.of(replace(own, period=period), DataConfig())
    assert logs.minutes == pytest.approx(sum(len(group) for group in logs.own) * period / 60.0)
    assert sum(len(group) for group in logs.first(logs.minutes / 2.0)) == sum(len(group) for group in logs.own) // 2


def test_a_log_of_three_of_the_shortest_pieces_is_cut_into_three() -> None:
    """Pieces of the usual length would have been two, and two are too few to learn and to validate."""
    window = 20
    rows = 3 * (window + 7)
    cut = sides([Group("m", "s", "r", "p", 0, rows)], window)
    assert [(piece.session, piece.start, piece.stop) for piece in cut] == [
        ("train/0000", 0, rows * 2 // 3),
        ("validation/0001", rows * 2 // 3, rows),
    ]


def test_more_minutes_contain_fewer(logs: OwnLogs) -> None:
    def rows(minutes: float) -> set[int]:
        return {row for group in logs.first(minutes) for row in range(group.start, group.stop)}

    assert rows(0) == set()
    assert rows(0.5) < rows(3) < rows(ALL)


def test_sessions_with_dates_are_taken_in_the_order_of_time(own: Table) -> None:
    starts = {group.start: 1.7e9 - 1000.0 * number for number, group in enumerate(own.groups)}
    time = np.concatenate([starts[group.start] + np.arange(len(group)) for group in own.groups])
    logs = OwnLogs.of(replace(own, time=time), DataConfig())
    assert [group.start for group in logs.own] == sorted((group.start for group in logs.own), reverse=True)


def test_two_machines_are_refused(own: Table) -> None:
    groups = (replace(own.groups[0], machine="other"), *own.groups[1:])
    with pytest.raises(TableError, match="2 machines"):
        OwnLogs.of(replace(own, groups=groups), DataConfig())


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(5, 60))
def test_pieces_cover_all_rows_once_and_validate_a_fifth_or_less(lengths: list[int], window: int) -> None:
    stops = np.cumsum(lengths)
    groups = [Group("m", f"s{n}", "r", "p", int(stop) - lengths[n], int(stop)) for n, stop in enumerate(stops)]
    cut = sides(groups, window)
    shortest = window + 7
    if sum(length // shortest for length in lengths) < 3:
        assert cut == []
    if not cut:
        return
    assert [row for piece in cut for row in range(piece.start, piece.stop)] == list(range(sum(lengths)))
    validation = [piece for piece in cut if piece.session.startswith("validation/")]
    assert validation
    assert all(len(piece) >= shortest for piece in validation)
    assert any(piece.session.startswith("train/") for piece in cut)
    assert len({piece.session for piece in cut}) == len(cut)
    edges = {group.start for group in groups}
    for before, after in itertools.pairwise(cut):  # a cut stands only where a session ends or the side changes
        assert after.start in edges or before.session.split("/")[0] != after.session.split("/")[0]


def test_the_space_is_that_of_all_own_logs_whatever_was_learned_from(logs: OwnLogs) -> None:
    rows = logs.table.laid_out(logs.own).sensors
    np.testing.assert_allclose(logs.space().sensor_location, rows.mean(0))
    np.testing.assert_allclose(logs.space().sensor_scale, rows.std(0))


def test_sensors_that_come_late_or_stand_still_are_not_judged(own: Table) -> None:
    table = replace(own, sensors=own.sensors.copy())
    logs = OwnLogs.of(table, DataConfig())
    first = logs.own[0]
    table.sensors[first.start : first.stop, 1] = np.nan
    table.sensors[:, 2] = 4.0
    table.sensors[:, 3] = np.nan
    assert list(sensors_left_out(logs, WINDOW)) == ["current_1", "current_2"]


def test_no_judged_window_ends_inside_the_rows_known_at_zero_minutes(logs: OwnLogs) -> None:
    judged = JudgedWindows.of(logs, CONTEXT, HORIZONS, 10_000, "cpu")
    assert set(judged.ends) == {group.session for group in logs.test}
    for ends in judged.ends.values():
        assert ends.min() == FIRST_ROWS - 1
        assert ends.max() == 100 - HORIZONS[-1] - 1
    few = JudgedWindows.of(logs, CONTEXT, HORIZONS, 5, "cpu")
    assert len(few) == 5


def test_judged_sessions_that_are_too_short_are_an_error_with_the_length_needed() -> None:
    logs = OwnLogs.of(own_table(rows=FIRST_ROWS + HORIZONS[-1] - 1), DataConfig())
    with pytest.raises(TableError, match="No window is left to judge by") as error:
        JudgedWindows.of(logs, CONTEXT, HORIZONS, 100, "cpu")
    assert f"at least {FIRST_ROWS + HORIZONS[-1]} rows" in str(error.value)
