"""Windows lie inside one group, and a batch is what a naive loop over the table would collect."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.table import Group, Table
from crossfeed.windows.listing import GroupCount
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from crossfeed.windows.windows import WindowSet
from tests.windows.tables import random_table, study_table

shapes = st.tuples(
    st.integers(1, 8),
    st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True).map(sorted),
    st.integers(1, 4),
)


def _normaliser(table: Table) -> Normaliser:
    return Normaliser.fit(split_table(table).train_rows(table))


def _naive_ends(table: Table, context: int, horizons: list[int], stride: int) -> list[int]:
    """Rows at which a window ends, by trying every row."""
    ends = []
    for group in table.groups:
        candidates = range(group.start + context - 1, group.stop - horizons[-1])
        ends += list(candidates)[::stride]
    return ends


@given(st.lists(st.integers(1, 25), min_size=6, max_size=12), shapes)
@settings(max_examples=40)
def test_windows_are_those_of_a_naive_enumeration(lengths: list[int], shape: tuple[int, list[int], int]) -> None:
    context, horizons, stride = shape
    table = random_table(lengths)
    expected = _naive_ends(table, context, horizons, stride)
    if not expected:
        with pytest.raises(TableError, match="No window fits"):
            WindowSet.build(table, None, _normaliser(table), context, horizons, stride)
        return
    windows = WindowSet.build(table, None, _normaliser(table), context, horizons, stride)
    assert windows.origin_N2[windows.last_W.numpy(), 1].tolist() == expected
    assert sum(count.windows for count in windows.counts) == len(windows) == len(expected)


def _naive_layout(
    pairs: list[tuple[Table, Group]], normaliser: Normaliser, context: int, horizons: list[int], stride: int
) -> dict[str, list[np.ndarray]]:
    """What a set of windows holds, group by group and window by window, in the arithmetic that it promises."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("x", "m", "a", "mean", "last", "lost")}
    begin = 0
    for table, group in pairs:
        rows, lost = slice(group.start, group.stop), [0, 0]
        x, time = normaliser.transform_sensors(table.sensors[rows]), table.time[rows]
        a = normaliser.transform_commands(table.commands[rows])
        running = np.concatenate([np.zeros((1, a.shape[1])), np.cumsum(np.nan_to_num(a), axis=0)])
        for last in range(context - 1, len(group) - horizons[-1], stride):
            covered = slice(last - context + 1, last + horizons[-1] + 1)
            if not np.isfinite(a[covered]).all():
                lost[0] += 1
            elif (np.abs(np.diff(time[covered]) - table.period) > 0.1 * table.period).any():
                lost[1] += 1
            else:
                means = [(running[last + 1 + horizon] - running[last + 1]) / horizon for horizon in horizons]
                parts["mean"].append(np.stack(means).astype(np.float32))
                parts["last"].append(np.array(begin + last))
        parts["x"].append(np.nan_to_num(x).astype(np.float32))
        parts["m"].append(np.isfinite(x))
        parts["a"].append(np.nan_to_num(a).astype(np.float32))
        parts["lost"].append(np.array(lost))
        begin += len(group)
    return parts


@given(st.integers(0, 1000), shapes, st.lists(st.integers(1, 30), min_size=6, max_size=9))
@settings(max_examples=25, deadline=None)
def test_columns_over_all_groups_give_what_a_loop_over_groups_gives_bit_for_bit(
    seed: int, shape: tuple[int, list[int], int], lengths: list[int]
) -> None:
    context, horizons, stride = shape
    rng = np.random.default_rng(seed)
    tables = [random_table(lengths, seed, absent=0.2), random_table(lengths[::-1], seed + 1, machine="lathe")]
    for table in tables:
        table.commands[rng.random(len(table)) < 0.03] = np.nan
        table.time[:] += np.cumsum(rng.random(len(table)) < 0.03) * 3.0
    normaliser = _normaliser(random_table([40] * 6, seed))
    groups = [list(rng.permutation(np.array(table.groups, dtype=object))) for table in tables]
    pairs = [(table, group) for table, chosen in zip(tables, groups, strict=True) for group in chosen]
    expected = _naive_layout(pairs, normaliser, context, horizons, stride)
    if not expected["last"]:
        with pytest.raises(TableError, match="No window fits"):
            WindowSet.build(tables, groups, normaliser, context, horizons, stride)
        return
    windows = WindowSet.build(tables, groups, normaliser, context, horizons, stride)
    for values, name in ((windows.x_NC, "x"), (windows.m_NC, "m"), (windows.a_NA, "a")):
        np.testing.assert_array_equal(values.numpy(), np.concatenate(expected[name]))
    np.testing.assert_array_equal(windows.mean_a_WHA.numpy(), np.stack(expected["mean"]))
    assert windows.last_W.tolist() == [int(last) for last in expected["last"]]
    lost = [[count.lost_to_commands, count.lost_to_gaps] for count in windows.counts]
    assert lost == np.stack(expected["lost"]).tolist()
    rows = [(number, row) for number, part in enumerate(groups) for g in part for row in range(g.start, g.stop)]
    assert [tuple(origin) for origin in windows.origin_N2.tolist()] == rows


@given(st.integers(0, 1000), shapes)
@settings(max_examples=25)
def test_a_batch_equals_a_naive_loop(seed: int, shape: tuple[int, list[int], int]) -> None:
    context, horizons, stride = shape
    table = random_table([40, 25, 30, 22, 28, 31], seed, absent=0.2)
    normaliser = _normaliser(table)
    windows = WindowSet.build(table, None, normaliser, context, horizons, stride)
    batch = windows.batch(torch.arange(len(windows)))
    x = normaliser.transform_sensors(table.sensors)
    a = normaliser.transform_commands(table.commands)
    for number, row in enumerate(windows.origin_N2[windows.last_W.numpy(), 1]):
        past = slice(row - context + 1, row + 1)
        np.testing.assert_allclose(batch.x_BKC[number], np.nan_to_num(x[past]), rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(batch.m_BKC[number], np.isfinite(x[past]))
        np.testing.assert_allclose(batch.a_BKA[number], a[past], rtol=1e-6, atol=1e-6)
        for slot, horizon in enumerate(horizons):
            np.testing.assert_allclose(
                batch.future_x_BHC[number, slot], np.nan_to_num(x[row + horizon]), rtol=1e-6, atol=1e-6
            )
            np.testing.assert_array_equal(batch.future_m_BHC[number, slot], np.isfinite(x[row + horizon]))
            mean = sum(a[row + step] for step in range(1, horizon + 1)) / horizon
            np.testing.assert_allclose(batch.mean_a_BHA[number, slot], mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(
            batch.future_a_BTA[number], a[row + 1 : row + 1 + horizons[-1]], rtol=1e-6, atol=1e-6
        )


def test_mean_commands_know_nothing_of_other_groups() -> None:
    """One running sum over all rows would lose every digit behind an outlier in an earlier group."""
    table = random_table([60] * 8)
    normaliser = _normaliser(table)
    before = WindowSet.build(table, None, normaliser)
    table.commands[:60] = 1e25
    after = WindowSet.build(table, None, normaliser)
    elsewhere = before.group_of_window > 0
    assert torch.equal(before.mean_a_WHA[elsewhere], after.mean_a_WHA[elsewhere])


@given(st.integers(0, 500))
@settings(max_examples=20)
def test_the_future_never_reaches_a_context(seed: int) -> None:
    table = random_table([60] * 8, seed, absent=0.1)
    normaliser = _normaliser(table)
    moment = int(np.random.default_rng(seed).integers(10, 50))
    before = WindowSet.build(table, None, normaliser, 8, (1, 2, 4))
    row = table.groups[0].start + moment
    table.sensors[row + 1 : 60] = -1e6
    table.commands[row + 1 : 60] = 1e6
    after = WindowSet.build(table, None, normaliser, 8, (1, 2, 4))
    known = torch.nonzero((before.last_W <= row) & (before.group_of_window == 0))[:, 0]
    one, two = before.batch(known), after.batch(known)
    for name in ("x_BKC", "m_BKC", "a_BKA"):
        assert torch.equal(getattr(one, name), getattr(two, name))


def test_absent_entries_are_stored_as_zero_under_mask_zero() -> None:
    table = random_table([60] * 8, absent=0.3)
    table.sensors[:, 1] = np.nan
    batch = (windows := WindowSet.build(table, None, _normaliser(table), 8, (1, 2))).batch(torch.arange(len(windows)))
    assert (batch.x_BKC[~batch.m_BKC] == 0).all()
    assert not batch.m_BKC[..., 1].any()
    assert not batch.future_m_BHC[..., 1].any()


def test_hidden_sensors_are_absent_in_context_and_targets() -> None:
    table = random_table([60] * 8)
    normaliser = _normaliser(table)
    hidden = WindowSet.build(table, None, normaliser, 8, (1, 2), hidden=["s1"])
    without = WindowSet.build(table.without(["s1"]), None, normaliser, 8, (1, 2))
    assert torch.equal(hidden.x_NC, without.x_NC)
    assert torch.equal(hidden.m_NC, without.m_NC)
    with pytest.raises(TableError, match="unknown sensors: s9"):
        WindowSet.build(table, None, normaliser, hidden=["s9"])


def test_windows_that_touch_a_missing_command_are_counted_and_not_offered() -> None:
    table = random_table([60] * 8)
    normaliser = _normaliser(table)
    table.commands[30, 1] = np.nan
    windows = WindowSet.build(table, table.groups[:1], normaliser, 8, (1, 4))
    ends = windows.last_W.tolist()
    assert ends == [end for end in range(7, 56) if not end - 7 <= 30 <= end + 4]
    assert windows.listing.summary()["lost_to_commands"] == 49 - len(ends)


def test_windows_do_not_jump_over_a_gap_in_the_clock() -> None:
    table = random_table([60] * 8)
    table.time[30:60] += 5.0
    windows = WindowSet.build(table, table.groups[:1], _normaliser(table), 8, (1, 4))
    assert windows.last_W.tolist() == [end for end in range(7, 56) if not end - 7 < 30 <= end + 4]
    assert windows.counts[0].lost_to_gaps == 11


def test_a_gap_is_measured_in_periods_not_in_seconds() -> None:
    table = random_table([60] * 8)
    quick = replace(table, time=0.1 * table.time, period=0.1)
    quick.time[30:60] += 0.1
    windows = WindowSet.build(quick, quick.groups[:1], _normaliser(quick), 8, (1, 4))
    assert windows.counts[0].lost_to_gaps == 11
    quick.time[30:60] -= 0.095
    assert WindowSet.build(quick, quick.groups[:1], _normaliser(quick), 8, (1, 4)).counts[0].lost_to_gaps == 0


@pytest.mark.parametrize(("late", "lost"), [(0.09, 0), (-0.09, 0), (0.11, 11), (-0.11, 11)])
def test_a_row_may_be_a_tenth_of_a_period_early_or_late(late: float, lost: int) -> None:
    table = random_table([60] * 8)
    table.time[30:60] += late
    windows = WindowSet.build(table, table.groups[:1], _normaliser(table), 8, (1, 4))
    assert windows.counts[0].lost_to_gaps == lost


def test_windows_are_those_of_the_paper_unless_others_are_asked_for() -> None:
    table = random_table([60] * 8)
    windows = WindowSet.build(table, None, _normaliser(table))
    assert (windows.context, windows.horizons) == (32, (1, 2, 4, 8, 16))
    assert windows.counts[0].windows == 60 - 32 - 16 + 1


def test_a_missing_command_or_a_gap_at_the_very_first_row_counts_too() -> None:
    table = random_table([60] * 8)
    normaliser = _normaliser(table)
    table.commands[0, 0] = np.nan
    table.time[61:120] += 5.0
    first, second = (WindowSet.build(table, table.groups[n : n + 1], normaliser, 8, (1, 4)) for n in (0, 1))
    assert first.last_W.tolist() == list(range(8, 56))
    assert second.counts[0].windows == 48
    assert (first.counts[0].lost_to_commands, second.counts[0].lost_to_gaps) == (1, 1)


@pytest.mark.parametrize("counts", list(itertools.product((0, 1, 2), repeat=3)))
def test_a_group_is_too_short_only_if_no_window_fits_into_it(counts: tuple[int, int, int]) -> None:
    assert GroupCount("a", "s", "r", "p", 60, *counts).too_short == (counts == (0, 0, 0))


def test_two_machines_with_different_sensors_in_one_set() -> None:
    one, two = random_table([60] * 8, machine="a"), random_table([30] * 9, 1, machine="b").without(["s0"])
    windows = WindowSet.build([one, two], [one.groups, two.groups[:2]], _normaliser(one), 8, (1, 4))
    batch = windows.batch(torch.arange(len(windows)))
    assert windows.machines == ("a", "b")
    assert batch.m_BKC[batch.machine_B == 0].all()
    assert not batch.m_BKC[batch.machine_B == 1][..., 0].any()


def test_a_session_too_short_for_one_window_is_counted() -> None:
    windows = WindowSet.build(table := random_table([60, 47, 48, 60, 60, 60]), None, _normaliser(table))
    assert windows.listing.summary()["groups_too_short"] == 1
    assert [count.windows for count in windows.counts] == [13, 0, 1, 13, 13, 13]


def test_no_window_at_all_says_what_is_longest_and_what_is_needed() -> None:
    table = random_table([20, 47, 30, 20, 20, 20])
    with pytest.raises(TableError, match=r"mill/session001\) has 47 rows") as caught:
        WindowSet.build(table, None, _normaliser(table))
    assert "48" in caught.value.expected


def test_study_windows_count_47_rows_less_a_session() -> None:
    table = study_table()
    windows = WindowSet.build(table, None, _normaliser(table))
    assert len(windows) == len(table) - 47 * 62


@pytest.mark.parametrize(
    ("context", "horizons", "stride"),
    [(0, (1,), 1), (8, (), 1), (8, (0, 1), 1), (8, (2, 1), 1), (8, (1, 1), 1), (8, (1,), 0)],
)
def test_impossible_windows_are_refused(context: int, horizons: tuple[int, ...], stride: int) -> None:
    table = random_table([60] * 8)
    with pytest.raises(ConfigError):
        WindowSet.build(table, None, _normaliser(table), context, horizons, stride)


def test_other_schemas_and_foreign_groups_are_refused() -> None:
    table, other = random_table([60] * 8), study_table()
    with pytest.raises(TableError, match="The normaliser knows"):
        WindowSet.build(other, None, _normaliser(table))
    with pytest.raises(TableError, match="different schemas"):
        WindowSet.build([table, other], None, _normaliser(table))
    with pytest.raises(TableError, match="no group"):
        WindowSet.build(table, other.groups, _normaliser(table))


def test_tables_of_different_periods_are_refused() -> None:
    one, two = random_table([60] * 8, machine="a"), random_table([60] * 8, machine="b", period=0.1)
    with pytest.raises(TableError, match=r"every 0\.1 s and every 1 s"):
        WindowSet.build([one, two], None, _normaliser(one))


def test_the_hash_names_the_window_list_and_nothing_else() -> None:
    table = random_table([60] * 8)
    normaliser = _normaliser(table)
    first = WindowSet.build(table, None, normaliser, 8, (1, 2)).hash()
    table.sensors[:] += 1.0
    assert WindowSet.build(table, None, normaliser, 8, (1, 2)).hash() == first
    changed = [
        WindowSet.build(table, None, normaliser, 9, (1, 2)),
        WindowSet.build(table, None, normaliser, 8, (1, 3)),
        WindowSet.build(table, None, normaliser, 8, (1, 2), stride=2),
        WindowSet.build(table, table.groups[1:], normaliser, 8, (1, 2)),
    ]
    assert len({first, *(windows.hash() for windows in changed)}) == 5


def test_some_windows_alone_are_those_windows() -> None:
    table = random_table([60, 70])
    source = random_table([60] * 6)
    windows = WindowSet.build(table, None, Normaliser.fit(split_table(source).train_rows(source)), 8, (1, 2))
    index = torch.tensor([3, 10, 60])
    some = windows.only(index)
    assert len(some) == 3
    assert sum(count.windows for count in some.counts) == 3
    for name in ("x_BKC", "future_x_BHC", "mean_a_BHA", "last_index_B", "machine_B"):
        torch.testing.assert_close(
            getattr(some.batch(torch.arange(3)), name), getattr(windows.batch(index), name), rtol=0, atol=0
        )
