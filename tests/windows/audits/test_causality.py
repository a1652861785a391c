"""The probe passes what is causal and catches what is not."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossfeed.logs import resample
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.table import Table
from crossfeed.windows.audits.causality import (
    check_causality,
    context_stage,
    mask_stage,
    pipeline_stages,
    probe,
    with_other_future,
)
from crossfeed.windows.audits.subject import Case
from tests.windows.audits.conftest import case_of
from tests.windows.tables import random_table

Raw = tuple[np.ndarray, np.ndarray]


def _raw(seed: int = 0) -> Raw:
    """Irregular samples of one noisy signal, a few a second."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.uniform(0.0, 60.0, size=150))
    return time, rng.normal(size=150)


def _other_future(raw: Raw, moment: float) -> Raw:
    time, values = raw
    return time, np.where(time > moment, values + 7.0, values)


def _bin_means(raw: Raw) -> Raw:
    """Means over (t-1, t], known at t; an empty bin is absent."""
    time, values = raw
    labels = np.arange(1.0, 61.0)
    inside = [values[(time > label - 1.0) & (time <= label)] for label in labels]
    return labels, np.array([part.mean() if len(part) else np.nan for part in inside])


def _two_sided_interpolation(raw: Raw) -> Raw:
    labels = np.arange(1.0, 61.0)
    return labels, np.interp(labels, *raw)


def _centred_mean(raw: Raw) -> Raw:
    labels, means = _bin_means(raw)
    return labels, np.convolve(np.nan_to_num(means), np.ones(5) / 5, mode="same")


def _scaled_by_everything(raw: Raw) -> Raw:
    labels, means = _bin_means(raw)
    return labels, (means - np.nanmean(means)) / np.nanstd(means)


@pytest.mark.parametrize("moment", [10.0, 30.0, 50.0])
def test_causal_bins_pass(moment: float) -> None:
    raw = _raw()
    assert probe(_bin_means, raw, _other_future(raw, moment), moment) is None


@pytest.mark.parametrize("stage", [_two_sided_interpolation, _centred_mean, _scaled_by_everything])
def test_a_leaky_stage_is_caught(stage) -> None:
    raw = _raw()
    leak = probe(stage, raw, _other_future(raw, 30.0), 30.0)
    assert leak is not None
    assert leak.changed >= 1
    assert leak.lead >= 0.0


def test_a_stage_that_knows_more_rows_with_another_future_is_caught() -> None:
    def drops_rows(raw: Raw) -> Raw:
        time, values = raw
        return (time[:-1], values[:-1]) if values[-1] > 5.0 else raw

    raw = _raw()
    moment = float(raw[0][-1])
    assert probe(drops_rows, raw, (raw[0], raw[1] + 10.0), moment) is not None


def test_the_pipeline_of_crossfeed_passes() -> None:
    table = random_table([60] * 12, absent=0.2)
    assert not list(check_causality(case_of(table)))


@pytest.mark.parametrize("stage", [context_stage(8, 4), mask_stage(8, 4)])
def test_the_probe_sees_windows_that_peek(stage) -> None:
    """A table whose rows are averaged with the next one leaks; the same stages must report it."""

    def peeking(table: Table):
        mixed = table.sensors.copy()
        mixed[:-1] = 0.5 * (table.sensors[:-1] + table.sensors[1:])
        return stage(Table(table.schema, table.groups, table.time, mixed, table.commands, table.period, {}))

    table = random_table([60] * 4)
    row = 100
    changed = with_other_future(table, row)
    assert probe(stage, table, changed, row) is None
    assert probe(peeking, table, changed, row) is not None


def test_short_tables_have_stages_too() -> None:
    assert len(pipeline_stages(random_table([5, 4]))) == 2
    assert not pipeline_stages(random_table([1, 1]))


@pytest.mark.parametrize("rows", [2, 47, 48])
def test_the_shortest_tables_had_no_window_to_probe(rows: int) -> None:
    table = random_table([rows])
    for _, stage in pipeline_stages(table):
        assert len(stage(table)[0]) == (1 if rows in (2, 48) else rows - 1)


def test_interpolated_rows_are_recognised_in_a_finished_table() -> None:
    table = random_table([60] * 4)
    for column in range(3):
        table.sensors[20:27, column] = np.linspace(table.sensors[20, column], table.sensors[26, column], 7)
    findings = list(check_causality(case_of(table)))
    assert [finding.severity for finding in findings] == ["violation"]
    assert "row 21" in findings[0].measured


def test_the_rule_of_the_paper_is_named_as_the_leak_it_is() -> None:
    table = random_table([60] * 4)
    for column in range(3):
        table.sensors[20:27, column] = np.linspace(table.sensors[20, column], table.sensors[26, column], 7)
    made = {"rules": {"rule": "paper"}, "counts": {"sensor_values_filled_from_later_rows": 15}}
    (finding,) = check_causality(case_of(replace(table, manifest=made)))
    assert (finding.severity, finding.numbers) == ("warning", {"values": 15})
    assert "knows the future" in finding.meaning
    assert "rule 'paper'" in finding.cause
    made["counts"] = {"sensor_values_filled_from_later_rows": 0}
    assert [one.severity for one in check_causality(case_of(replace(table, manifest=made)))] == ["violation"]


def test_ingest_of_the_simulated_logs_is_causal(pair: Path) -> None:
    assert not list(check_causality(Case((), raw=((log_format_named("joanneum"), pair / "joanneum"),))))


def test_an_ingest_with_two_sided_interpolation_is_caught(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resampling of the paper's authors: smoothing over neighbours on both sides."""
    import polars as pl

    causal = resample.Resampling.apply

    def leaky(self: resample.Resampling, frame: pl.DataFrame) -> tuple[pl.DataFrame, Counter]:
        rows, counts = causal(self, frame)
        smooth = [pl.col(name).rolling_mean(3, center=True, min_samples=1).alias(name) for name in self.sensors]
        return rows.with_columns(smooth), counts

    monkeypatch.setattr(resample.Resampling, "apply", leaky)
    findings = list(check_causality(Case((), raw=((log_format_named("joanneum"), pair / "joanneum"),))))
    assert [finding.severity for finding in findings] == ["violation"]
    assert "ingest of joanneum logs" in findings[0].subject


@pytest.mark.parametrize(("rows", "context"), [(48, 32), (47, 1)])
def test_a_log_is_probed_with_the_usual_context_where_one_fits_in(rows: int, context: int) -> None:
    table = random_table([rows, 20])
    (_, stage), *_ = pipeline_stages(table)
    _, known = stage(table)
    assert known.shape[1] == context * (2 * len(table.schema.sensors) + len(table.schema.commands))
    assert pipeline_stages(random_table([1, 1])) == []
