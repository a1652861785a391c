"""The paper's numbers as data: against other copies of them in these tests, against each other, and their verdicts."""

import csv
from pathlib import Path
from statistics import fmean, stdev

import pytest

from crossfeed.configuration import leaves
from crossfeed.demo.paper.published import ComparedNumber, Number, PublishedTable, beside, published
from crossfeed.study.candidates import PAPER_CANDIDATES
from crossfeed.study.ready import READY
from crossfeed.training.run_config import preset
from tests.study.test_published import GATE, PAIRED, TARGET

TABLES = published()
OUTCOMES = Path(__file__).parents[2] / "study" / "record" / "paper_outcomes.csv"


def value(table: str, row: str, column: str) -> float:
    found = TABLES[table].numbers[row, column].value
    assert isinstance(found, float | int)
    return float(found)


def test_appendix_c_is_the_table_that_the_score_is_tested_with() -> None:
    table = TABLES["search"]
    assert list(table.labels) == list(PAPER_CANDIDATES), "the plain control too, which has no numbers"
    by_label = {label: row for row, label in table.labels.items()}
    with OUTCOMES.open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 19
    for line in rows:
        row = by_label[line["candidate"]]
        assert str(table.numbers[row, "seeds"].value).split("/")[0] == line["seeds"]
        for column in ("clean", "schema_drop", "masked", "long_horizon", "calibration", "command_ratio"):
            assert value("search", row, column) == float(line[column]), (row, column)
        assert value("search", row, "rank") == float(line["effective_rank"])
        assert value("search", row, "discovery_rank") == int(line["discovery_rank"])


def test_every_row_of_a_table_has_a_name_that_the_study_gives() -> None:
    arms = {READY["ablations"].reference, "pre_search_norm", *READY["ablations"].arms}
    assert set(TABLES["ablations"].labels) <= arms
    started = {READY["initialisation"].reference, *READY["initialisation"].arms}
    assert set(TABLES["initialisation"].labels) - {"drift", "persistence"} == started


def test_appendix_g_is_the_paper_preset_setting_by_setting() -> None:
    settings = leaves(preset("paper", "base").model_dump(mode="json"))
    for (name, _), number in TABLES["configuration"].numbers.items():
        assert str(settings[name]) == number.value, name


def test_the_counts_of_table_1_add_up() -> None:
    assert value("data", "source", "raw_rows") + value("data", "target", "raw_rows") == value(
        "data", "both", "raw_rows"
    )
    sides = sum(value("data", "source", f"{side}_sessions") for side in ("train", "validation", "test"))
    assert sides == value("data", "source", "sessions") == 62


def test_appendix_h_is_what_the_statistics_are_tested_with() -> None:
    for metric, (difference, low, high, wins) in PAIRED.items():
        found = TABLES["paired"].numbers[metric, "difference"]
        assert (found.value, found.low, found.high) == (difference, low, high)
        assert value("paired", metric, "wins") == wins
        apart = value("paired", metric, "revin") - value("paired", metric, "control")
        assert apart == pytest.approx(difference, abs=2e-4)
    for arm, seed, *numbers in GATE:
        row = f"{'control' if arm == 'locked' else 'revin'}-{seed}"
        assert [value("gate", row, name) for name in ("ssl_spread", "ssl_rank", "spread", "rank")] == numbers


@pytest.mark.parametrize(("arm", "name"), [("control", "locked"), ("revin", "revin")])
def test_the_runs_of_the_second_opening_give_its_means(arm: str, name: str) -> None:
    runs = [value("runs", f"{arm}-{seed}", "rmse") for seed in range(3)]
    assert tuple(runs) == TARGET[name]
    mean = TABLES["target"].numbers[arm, "rmse"]
    assert fmean(runs) == pytest.approx(float(mean.value or 0), abs=6e-4)
    assert stdev(runs) == pytest.approx(mean.spread or 0, abs=6e-4)
    for metric, within in (("mae", 6e-4), ("nll", 0.06), ("r2", 6e-3)):
        each = [value("runs", f"{arm}-{seed}", metric) for seed in range(3)]
        assert fmean(each) == pytest.approx(value("target", arm, metric), abs=within)


def test_a_number_that_stands_twice_is_the_same() -> None:
    revin = TABLES["transfer"].numbers["revin", "target_rmse"]
    assert revin == TABLES["target"].numbers["revin", "rmse"]
    assert value("transfer", "revin", "target_nll") == value("target", "revin", "nll")
    assert value("transfer", "locked", "source_rmse") == round(
        value("search", "schema_and_command_recovery", "clean"), 3
    )
    assert value("transfer", "locked", "target_rmse") == round(value("runs", "control-0", "rmse"), 3)
    assert value("target", "locked", "r2") == round(value("runs", "control-0", "r2"), 3)


def _line(printed: object, made: Number | None) -> ComparedNumber:
    table = PublishedTable("t", "Table", "t", "", {"a": "A"}, {("a", "x"): Number.printed(printed)})
    (line,) = beside(table, {} if made is None else {("a", "x"): made})
    return line


@pytest.mark.parametrize(
    ("printed", "made", "verdict", "difference"),
    [
        ("0.822 ± 0.009", Number(0.830), "inside", 0.008),
        ("0.822 ± 0.009", Number(0.832), "outside", 0.010),
        ("-0.05 [-0.06, -0.04]", Number(-0.045), "inside", 0.005),
        ("-0.05 [-0.06, -0.04]", Number(-0.035), "outside", 0.015),
        (0.546, Number(0.546), "", 0.0),
        (62, Number(62), "equal", None),
        (62, Number(61), "other", None),
        ("7/7", Number("7/7"), "equal", None),
        ("0.822 ± 0.009", None, "", None),
        ("0.822 ± 0.009", Number(None), "", None),
    ],
)
def test_a_number_is_judged_by_what_the_paper_prints_beside_its_own(
    printed: object, made: Number | None, verdict: str, difference: float | None
) -> None:
    line = _line(printed, made)
    assert line.verdict == verdict
    assert line.difference == (None if difference is None else pytest.approx(difference))
