"""Which rows fitted a normaliser is proven by its hash, or else told from its numbers."""

import json
from dataclasses import replace

import pytest

from crossfeed.logs.table import Table
from crossfeed.windows.audits.subject import Finding
from crossfeed.windows.audits.windows import check_normaliser
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import Split, TrainRows, split_table
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table


def _findings(normaliser: Normaliser, split: Split, *tables: Table) -> list[Finding]:
    return list(check_normaliser(case_of(*tables, split=json.loads(split.to_json()), normaliser=normaliser)))


def _with_train(split: Split, units: tuple[str, ...]) -> Split:
    """A split that calls other sessions its train side: the way a leak is made."""
    rest = [unit for unit in (*split.train, *split.validation, *split.test) if unit not in units]
    return Split(
        by="session", seed=0, train=units, validation=tuple(rest[:1]) or ("-",), test=tuple(rest[1:]) or ("+",)
    )


@pytest.mark.parametrize("method", ["zscore", "robust"])
def test_a_normaliser_of_the_train_rows_passes(method: str) -> None:
    table = random_table([60] * 12, absent=0.1)
    split = split_table(table)
    assert not _findings(Normaliser.fit(split.train_rows(table), method), split, table)


def test_train_rows_of_two_machines_pass() -> None:
    one, two = random_table([60] * 12, machine="a"), random_table([60] * 12, 1, machine="b")
    splits = [split_table(one), split_table(two)]
    rows = TrainRows.join([split.train_rows(table) for split, table in zip(splits, (one, two), strict=True)])
    both = Split(
        by="session",
        seed=0,
        **{part: getattr(splits[0], part) + getattr(splits[1], part) for part in ("train", "validation", "test")},
    )
    assert not _findings(Normaliser.fit(rows), both, one, two)


@pytest.mark.parametrize("leak", ["validation", "test"])
def test_a_normaliser_that_saw_another_side_is_named(leak: str) -> None:
    table = random_table([60] * 12)
    split = split_table(table)
    order = [f"{group.machine}/{group.session}" for group in table.groups]
    seen = tuple(unit for unit in order if unit in (*split.train, *getattr(split, leak)))
    normaliser = Normaliser.fit(_with_train(split, seen).train_rows(table))
    findings = _findings(normaliser, split, table)
    assert [finding.severity for finding in findings] == ["violation"]
    assert f"train and {leak}" in findings[0].measured


def test_statistics_of_all_rows_are_recognised_even_under_a_forged_hash() -> None:
    table = random_table([60] * 12)
    split = split_table(table)
    units = tuple(f"{group.machine}/{group.session}" for group in table.groups)
    everything = Normaliser.fit(TrainRows.join([_half(split, units[:6], table), _half(split, units[6:], table)]))
    forged = replace(everything, fitted_on=split.train_rows(table).sha256)
    findings = _findings(forged, split, table)
    assert [finding.severity for finding in findings] == ["violation"]
    assert "all" in findings[0].measured


def _half(split: Split, units: tuple[str, ...], table: Table) -> TrainRows:
    return _with_train(split, units).train_rows(table)


def test_right_numbers_under_a_wrong_hash_are_a_warning() -> None:
    table = random_table([60] * 12)
    split = split_table(table)
    normaliser = replace(Normaliser.fit(split.train_rows(table)), fitted_on="0" * 64)
    assert [finding.severity for finding in _findings(normaliser, split, table)] == ["warning"]


def test_a_normaliser_of_another_table_is_a_violation() -> None:
    table, other = random_table([60] * 12), random_table([60] * 12, 1)
    split = split_table(table)
    findings = _findings(Normaliser.fit(split_table(other).train_rows(other)), split, table)
    assert [finding.severity for finding in findings] == ["violation"]
    assert "neither" in findings[0].measured


def test_without_a_normaliser_a_split_or_tables_there_is_nothing_to_say() -> None:
    table = random_table([60] * 12)
    other = random_table([60] * 12, 1)
    split, strange = split_table(table), Normaliser.fit(split_table(other).train_rows(other))
    sides = json.loads(split.to_json())
    assert not list(check_normaliser(case_of(table, split=sides)))
    assert not list(check_normaliser(case_of(table, normaliser=strange)))
    assert not list(check_normaliser(case_of(split=sides, normaliser=strange)))
    assert list(check_normaliser(case_of(table, split=sides, normaliser=strange)))


def test_a_normaliser_of_other_sensors_agrees_with_no_side() -> None:
    table = random_table([60] * 12)
    split = split_table(table)
    schema = table.schema.model_copy(update={"sensors": table.schema.sensors[:-1]})
    fewer = replace(table, schema=schema, sensors=table.sensors[:, :-1])
    (finding,) = _findings(Normaliser.fit(split_table(fewer).train_rows(fewer)), split, table)
    assert (finding.severity, "neither" in finding.measured) == ("violation", True)


def test_numbers_are_compared_by_the_size_of_what_they_measure() -> None:
    """In a machine that is measured in thousand millionths, statistics of other rows differ as much as elsewhere."""
    table = random_table([60] * 12)
    tiny = replace(table, sensors=1e-9 * table.sensors, commands=1e-9 * table.commands)
    split = split_table(tiny)
    assert not _findings(Normaliser.fit(split.train_rows(tiny)), split, tiny)
    strange = random_table([60] * 12, 1)
    other = replace(strange, sensors=1e-9 * strange.sensors, commands=1e-9 * strange.commands)
    (finding,) = _findings(Normaliser.fit(split_table(other).train_rows(other)), split, tiny)
    assert (finding.severity, "neither" in finding.measured) == ("violation", True)
