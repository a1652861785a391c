"""The one result type: to JSON and back without losing a bit, flat rows, and refusals in words."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from crossfeed.errors import ConfigError, StorageError
from crossfeed.evaluation.forecaster import naive_baselines
from crossfeed.evaluation.judge import JudgedModel, judge
from crossfeed.evaluation.result import Evaluation, ModelFacts, TableFacts
from tests.evaluation.small_machine import HORIZONS, Physicist, evaluation_set, small_table


@pytest.fixture(scope="module")
def found() -> Evaluation:
    """Everything an evaluation can hold, the full suite and the simulator's word included."""
    table = small_table(runs=5)
    table.sensors[:, 2] = 7.0
    data = evaluation_set(table)
    return replace(
        judge([JudgedModel(Physicist(data.normaliser), data)], naive_baselines(HORIZONS), 0.5, "full"),
        model=ModelFacts("model.safetensors", "physicist", "0" * 64),
        table=TableFacts("a.parquet", "1" * 64, ("mill",)),
        absent_commands={"feed_y": 0.0},
        counterfactual={"machine": "spinner_620", "cases": 3},
    )


def test_an_evaluation_comes_back_from_json_exactly(found: Evaluation) -> None:
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert Evaluation.from_dict(json.loads(text)) == found
    assert json.dumps(Evaluation.from_dict(json.loads(text)).to_dict()) == text


def test_a_result_with_more_in_it_is_read_too(found: Evaluation) -> None:
    more = {**found.to_dict(), "adaptation": {"few_shot": {}}, "flagged": {}}
    assert Evaluation.from_dict(more) == found


@pytest.mark.parametrize(
    ("broken", "where"),
    [
        ({"windows": "many"}, "windows"),
        ({"by_channel": {"physicist": {"power": 3}}}, "by_channel.physicist.power"),
        ({"command_use": {"physicist": []}}, "command_use.physicist"),
        ({"scores": None}, "scores"),
    ],
)
def test_what_is_no_evaluation_is_refused_with_the_place(found: Evaluation, broken: Any, where: str) -> None:
    with pytest.raises(StorageError, match=f"old.json does not hold what an evaluation records: {where}"):
        Evaluation.from_dict({**found.to_dict(), **broken}, "old.json")
    with pytest.raises(StorageError):
        Evaluation.from_dict([], "old.json")


def test_the_written_verdict_is_the_one_that_is_asked_for(found: Evaluation) -> None:
    written = found.to_dict()["verdict"]["physicist"]
    verdict = found.verdict()
    assert written["answer"] == verdict.answer
    assert [one["light"] for one in written["channels"]] == [one.light for one in verdict.channels]
    assert {one.channel: one.light for one in verdict.channels}["temperature"] == "unknown"


def test_a_model_that_is_not_there_is_refused_by_name(found: Evaluation) -> None:
    with pytest.raises(ConfigError, match=r"no model 'other'[\s\S]*physicist"):
        found.verdict("other")
    with pytest.raises(ConfigError, match=r"No model was named[\s\S]*diverged"):
        replace(found, command_use={}, excluded={"physicist": "diverged"}).verdict()


def _leaves(row: dict[str, Any]) -> Iterator[Any]:
    for value in row.values():
        assert not isinstance(value, dict | list | tuple), "a frame has flat rows"
        yield value


@pytest.mark.parametrize(
    ("by", "labels"),
    [("all", 3), ("horizon", 9), ("regime", 12), ("run", 15), ("channel", 9)],
)
def test_rows_are_flat_and_complete(found: Evaluation, by: Any, labels: int) -> None:
    rows = found.rows(by)
    assert len(rows) == labels
    assert len({tuple(row) for row in rows}) == 1, "every row has the same columns"
    assert all(list(_leaves(row)) for row in rows)
    assert {row["forecaster"] for row in rows} == set(found.scores)


def test_channel_rows_have_both_spaces(found: Evaluation) -> None:
    row = next(row for row in found.rows("channel") if row["channel"] == "power" and row["forecaster"] == "physicist")
    scores = found.by_channel["physicist"]["power"]
    assert row["unit"] == "kW"
    assert row["rmse"] == scores.metrics["rmse"]
    assert row["rmse_physical"] == scores.physical["rmse"]
