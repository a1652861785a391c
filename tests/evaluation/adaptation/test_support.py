"""Support and query: leading rows of each run, no shared row, one query for every fraction."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.adaptation.fewshot import support_and_query
from crossfeed.logs.table import Group, Table
from crossfeed.windows.normalise import Normaliser
from tests.evaluation.small_machine import CONTEXT, HORIZONS, normaliser_of, small_table, window_set

NEEDED = CONTEXT + max(HORIZONS)


def two_session_runs(rows: int = 60) -> Table:
    """Each run consists of two sessions of different length."""
    table = small_table(runs=4, rows=rows)
    groups = []
    for group in table.groups:
        cut = group.start + rows // 3
        groups += [replace(group, session=f"{group.session}a", stop=cut)]
        groups += [replace(group, session=f"{group.session}b", start=cut)]
    return replace(table, groups=tuple(groups))


@pytest.fixture(scope="module")
def normaliser() -> Normaliser:
    return normaliser_of(small_table())


def rows_of(last: int) -> set[int]:
    return set(range(last - CONTEXT + 1, last + max(HORIZONS) + 1))


@settings(max_examples=25)
@given(largest=st.floats(0.05, 0.75), smaller=st.floats(0.0, 1.0))
def test_no_row_is_learned_from_and_judged_by(largest: float, smaller: float) -> None:
    table = two_session_runs()
    windows = window_set(table, normaliser_of(small_table()))
    found = support_and_query(windows, (largest, largest * smaller))
    last = windows.last_W.numpy()
    query_rows = set().union(*(rows_of(int(last[i])) for i in found.query[largest]))
    for fraction, index in found.support.items():
        learned = set().union(set(), *(rows_of(int(last[i])) for i in index))
        assert not learned & query_rows
        for run in range(4):
            inside = {row - run * 60 for row in learned if run * 60 <= row < (run + 1) * 60}
            assert not inside or max(inside) < fraction * 60
            judged = {row - run * 60 for row in query_rows if run * 60 <= row < (run + 1) * 60}
            assert not judged or min(judged) >= max(found.support) * 60


def test_the_query_does_not_change_with_the_fraction(normaliser: Normaliser) -> None:
    windows = window_set(small_table(), normaliser)
    whole = support_and_query(windows, (0.0, 0.1, 0.3))
    assert list(whole.support) == [0.0, 0.1, 0.3]
    assert len(whole.support[0.0]) == 0
    assert all(torch.equal(query, support_and_query(windows, (0.3,)).query[0.3]) for query in whole.query.values())


def test_the_query_of_the_paper_is_what_follows_each_support(normaliser: Normaliser) -> None:
    windows = window_set(small_table(), normaliser)
    common, each = (support_and_query(windows, (0.0, 0.1, 0.3), query) for query in ("common", "each"))
    assert each.query[0.0].tolist() == list(range(len(windows)))
    assert len(each.query[0.0]) > len(each.query[0.1]) > len(each.query[0.3])
    for fraction in (0.1, 0.3):
        alone = support_and_query(windows, (fraction,))
        assert torch.equal(each.query[fraction], alone.query[fraction])
        assert torch.equal(each.support[fraction], common.support[fraction])
        learned = set().union(set(), *(rows_of(int(windows.last_W[i])) for i in each.support[fraction]))
        assert not learned & set().union(*(rows_of(int(windows.last_W[i])) for i in each.query[fraction]))


def test_a_support_too_short_for_a_window_is_empty_and_every_run_is_listed(normaliser: Normaliser) -> None:
    found = support_and_query(window_set(small_table(runs=4), normaliser), (0.0, 0.001, 0.05, 0.3))
    assert set(found.runs_without_support) == {0.001, 0.05, 0.3}
    for fraction in (0.001, 0.05):
        assert len(found.support[fraction]) == 0
        assert found.runs_without_support[fraction] == tuple(f"mill/run{number}" for number in range(4))
    assert found.runs_without_support[0.3] == ()
    assert len(found.support[0.3]) == 4 * (18 - NEEDED + 1)
    assert len(found.query[0.0]) == 4 * (60 - 18 - NEEDED + 1), "from the very row on at which the support ends"


def test_a_run_too_short_for_support_is_listed_and_the_others_go_on(normaliser: Normaliser) -> None:
    table = small_table(runs=3)
    short = 20
    keep = np.r_[0:short, 60:180]
    groups = (Group("mill", "s0", "run0", "p", 0, short), *(
        Group("mill", f"s{n}", f"run{n}", "p", short + 60 * (n - 1), short + 60 * n) for n in (1, 2)
    ))  # fmt: skip
    cut = Table(table.schema, groups, table.time[keep], table.sensors[keep], table.commands[keep], 1.0, {})
    found = support_and_query(window_set(cut, normaliser), (0.3,))
    assert found.runs_without_support[0.3] == ("mill/run0",)
    assert found.runs_without_query == ()


def test_runs_in_which_nothing_follows_the_support_are_refused_with_the_length_needed(normaliser: Normaliser) -> None:
    windows = window_set(small_table(runs=2, rows=16), normaliser)
    with pytest.raises(TableError, match=rf"longest run has 16 rows[\s\S]*at least {NEEDED * 2} rows"):
        support_and_query(windows, (0.5,))


@pytest.mark.parametrize("fractions", [(-0.1,), (1.0,), (0.2, 1.5)])
def test_impossible_fractions_are_refused(fractions: tuple[float, ...], normaliser: Normaliser) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        support_and_query(window_set(small_table(), normaliser), fractions)
