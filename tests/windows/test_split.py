"""The split keeps whole sessions or whole programs on one side."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import TableError
from crossfeed.logs.table import Table
from crossfeed.windows.split import PARTS, By, Split, TrainRows, split_table, unit_of
from tests.windows.tables import random_table, study_table

lengths = st.lists(st.integers(1, 30), min_size=6, max_size=25)


def test_sixty_two_sessions_give_42_11_9() -> None:
    split = split_table(study_table())
    assert [len(getattr(split, part)) for part in PARTS] == [42, 11, 9]
    assert split.seed == 20260820


def test_split_is_the_seeded_shuffle_of_the_sorted_sessions() -> None:
    table = study_table()
    expected = sorted(f"mill/{group.session}" for group in table.groups)
    np.random.default_rng(20260820).shuffle(expected)
    assert split_table(table).train == tuple(expected[:42])


@given(lengths, st.integers(0, 2**32 - 1), st.sampled_from(["session", "program"]))
@settings(max_examples=40)
def test_sides_are_disjoint_and_cover_every_row(lengths: list[int], seed: int, by: str) -> None:
    table = random_table(lengths)
    split = split_table(table, by, seed)
    rows = [split.rows(table, part) for part in PARTS]
    assert sorted(np.concatenate(rows)) == list(range(len(table)))
    sides = [{unit_of(group, table, by) for group in split.groups(table, part)} for part in PARTS]
    assert sum(len(side) for side in sides) == len(set.union(*sides))


def test_program_split_balances_rows() -> None:
    lengths = [int(n) for n in np.random.default_rng(1).integers(50, 400, size=60)]
    table = random_table(lengths, programs=[f"p{i % 20}" for i in range(60)])
    shares = [len(split_table(table, "program").rows(table, part)) / len(table) for part in PARTS]
    assert shares == pytest.approx([0.67, 0.17, 0.16], abs=0.05)


def test_programs_are_dealt_out_longest_first() -> None:
    table = random_table([30, 100, 40], programs=["short", "long", "middle"])
    split = split_table(table, "program", fractions=(0.6, 0.2))
    sides = [{group.program for group in split.groups(table, part)} for part in PARTS]
    assert sides[0] == {"long"}
    assert sides[1] | sides[2] == {"short", "middle"}


def test_one_program_on_two_machines_stays_on_one_side() -> None:
    programs = [f"p{i}" for i in range(8)]
    split_a = split_table(random_table([20] * 8, machine="a", programs=programs), "program")
    split_b = split_table(random_table([20] * 8, machine="b", programs=programs), "program")
    assert split_a.train == split_b.train


def test_every_machine_of_a_table_is_split_on_its_own() -> None:
    one, two = random_table([20] * 12, machine="a"), random_table([30] * 12, machine="b")
    both = _stack(one, two)
    split = split_table(both)
    assert set(split.train) == set(split_table(one).train) | set(split_table(two).train)


@pytest.mark.parametrize("by", ["session", "program"])
def test_a_split_with_an_empty_side_is_refused(by: str) -> None:
    with pytest.raises(TableError, match="leaves nothing for") as caught:
        split_table(random_table([20, 20], programs=["a", "b"]), by)
    assert caught.value.remedy


@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_three_and_four_sessions_were_too_few_for_three_sides(count: int) -> None:
    split = split_table(random_table([60] * count))
    assert min(len(split.train), len(split.validation), len(split.test)) == 1
    assert len(split.train) >= len(split.test)


@pytest.mark.parametrize("fractions", [(1.0, 0.1), (0.9, 0.1), (0.7, 0.6), (0.0, 0.2), (0.5, 0.0), (0.5, -0.1)])
def test_impossible_fractions_are_refused(fractions: tuple[float, float]) -> None:
    with pytest.raises(TableError, match="leave a side empty"):
        split_table(study_table(), fractions=fractions)


def test_json_round_trip_keeps_the_hash() -> None:
    split = split_table(study_table(), "program", seed=5)
    again = Split.from_json(split.to_json())
    assert again == split
    assert again.hash() == split.hash() != split_table(study_table(), "program", seed=6).hash()


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        '{"by": "session"}',
        '{"by": "session", "seed": 1, "train": ["a"], "validation": ["b"], "test": ["a"]}',
        '{"by": "session", "seed": 1, "train": ["a"], "validation": ["b"], "test": []}',
    ],
)
def test_a_damaged_split_is_refused(text: str) -> None:
    with pytest.raises(TableError, match="not a valid split"):
        Split.from_json(text)


def test_a_split_of_another_table_is_refused() -> None:
    split = split_table(random_table([20] * 10))
    with pytest.raises(
        TableError, match=r"does not belong.*session010, .*session011 only in the table, none only in the"
    ):
        split.rows(random_table([20] * 12), "train")


def test_the_train_rows_of_one_table_need_no_joining() -> None:
    table = random_table([20] * 10)
    rows = split_table(table).train_rows(table)
    assert TrainRows.join([rows]) is rows


def test_train_rows_come_from_a_split_only() -> None:
    table = random_table([20] * 10)
    with pytest.raises(TableError, match="by hand"):
        TrainRows(table.schema, table.sensors, table.commands, "", object())


def test_train_rows_hold_the_train_side_and_its_hash_follows_the_values() -> None:
    table = random_table([20] * 10)
    split = split_table(table)
    rows = split.rows(table, "train")
    train = split.train_rows(table)
    np.testing.assert_array_equal(train.sensors, table.sensors[rows])
    table.sensors[split.rows(table, "test")] += 1.0
    assert split.train_rows(table).sha256 == train.sha256
    table.sensors[rows[3], 1] += 1e-9
    assert split.train_rows(table).sha256 != train.sha256


def test_joined_train_rows_need_one_schema() -> None:
    one, two = random_table([20] * 10), study_table()
    parts = [split_table(table).train_rows(table) for table in (one, two)]
    with pytest.raises(TableError, match="different schemas"):
        TrainRows.join(parts)
    assert len(TrainRows.join([parts[0], parts[0]])) == 2 * len(parts[0])


def _stack(one, two):
    from dataclasses import replace

    moved = tuple(replace(g, start=g.start + len(one), stop=g.stop + len(one)) for g in two.groups)
    columns = {
        name: np.concatenate([getattr(one, name), getattr(two, name)]) for name in ("time", "sensors", "commands")
    }
    return replace(one, groups=one.groups + moved, **columns)


def _stamped(days: int) -> Table:
    """Two runs a day, two sessions a run, over so many days of March 2024."""
    table = random_table([40] * (4 * days))
    begin = 1_709_251_200.0  # 1 March 2024, midnight
    time = np.concatenate([begin + 86_400 * (n // 4) + 3_600 * (n % 4) + np.arange(40.0) for n in range(4 * days)])
    groups = tuple(replace(group, run=f"run{number // 2}") for number, group in enumerate(table.groups))
    return replace(table, time=time, groups=groups)


@pytest.mark.parametrize(("by", "units"), [("run", 20), ("day", 10)])
def test_runs_and_days_stay_whole(by: By, units: int) -> None:
    table = _stamped(10)
    split = split_table(table, by)
    assert len([*split.train, *split.validation, *split.test]) == units
    sides: dict[str, set[str]] = {}
    for part in PARTS:
        for group in split.groups(table, part):
            day = str(np.datetime64(int(table.time[group.start]), "s").astype("datetime64[D]"))
            sides.setdefault(group.run if by == "run" else day, set()).add(part)
    assert all(len(found) == 1 for found in sides.values())


def test_a_clock_without_a_date_cannot_be_split_by_day() -> None:
    with pytest.raises(TableError, match="clock without a date") as caught:
        split_table(random_table([40] * 8), "day")
    assert "data.split_by=run" in caught.value.remedy


def test_machines_stand_on_one_side_whole_when_a_table_is_split_by_machine() -> None:
    table = random_table([20] * 12)
    table = replace(table, groups=tuple(replace(g, machine=f"m{n // 2}") for n, g in enumerate(table.groups)))
    split = split_table(table, "machine", fractions=(0.5, 0.34))
    sides = [{group.machine for group in split.groups(table, part)} for part in PARTS]
    assert [len(side) for side in sides] == [3, 2, 1]
    assert set.union(*sides) == set(table.machines())


def test_sessions_that_name_their_side_stand_there_and_others_are_refused() -> None:
    table = random_table([60, 60, 60, 60])
    names = ("validation/0", "train/1", "test/a/b", "train/2")
    named = replace(table, groups=tuple(replace(g, session=n) for g, n in zip(table.groups, names, strict=True)))
    split = split_table(named, "side")
    assert [group.session for group in split.groups(named, "train")] == ["train/1", "train/2"]
    assert split.test == ("mill/test/a/b",)
    with pytest.raises(TableError, match="does not say on which side"):
        split_table(table, "side")
