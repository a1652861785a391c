"""The whole curve: everybody on the same windows, nothing run twice, nobody silently left out."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.baselines.regression import RidgeForecaster
from crossfeed.evaluation.baselines.results import Result
from crossfeed.evaluation.bench.curve import curve, effort
from crossfeed.evaluation.bench.fleet import AS_IT_CAME, FleetContender
from crossfeed.evaluation.bench.result import LearningCurve
from crossfeed.files import read_sealed
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.schema import Channel
from tests.evaluation.bench.conftest import own_table
from tests.training.conftest import toy_table

MODELS, MINUTES = "fleet,ridge,persistence,mean", "0,0.4,3,all"


def run(table: Table, out: Path, fleet: Path, **more: Any) -> LearningCurve:
    words = {"models": MODELS, "minutes": MINUTES, "size": "tiny", "windows": 40, "device": "cpu", **more}
    return curve(table, out=out, fleet=fleet, **words)


@pytest.fixture(scope="module")
def drawn(own: Table, fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[LearningCurve, Path]:
    out = tmp_path_factory.mktemp("curve") / "curve"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crossfeed.evaluation.bench.curve.MOST_EPOCHS", 8)
        return run(own, out, fleet), out


def test_everybody_has_a_point_or_a_reason_at_every_number_of_minutes(drawn: tuple[LearningCurve, Path]) -> None:
    curve = drawn[0]
    assert curve.models == tuple(MODELS.split(","))
    assert curve.labels == ("0", "0.4", "3", "all")
    assert len(curve.points) == 16
    for point in curve.points:
        assert bool(point.seeds) != bool(point.remark)
        assert (point.mean["crps"] is not None) == bool(point.seeds)
    for label in ("0", "0.4"):
        assert curve.point("ridge", label).remark.startswith("too little to learn from")
        assert curve.point("fleet", label).kept == AS_IT_CAME
    assert all(curve.point(model, "all").seeds == 1 for model in curve.models)
    assert curve.point("fleet", "3").kept in (AS_IT_CAME, "learned on")


def test_a_floor_forecasts_the_same_however_many_minutes_there_are(drawn: tuple[LearningCurve, Path]) -> None:
    curve = drawn[0]
    errors = [curve.point("persistence", label).mean["rmse"] for label in curve.labels]
    assert errors == pytest.approx([errors[0]] * 4, rel=1e-4)
    spreads = {round(curve.point("persistence", label).mean["crps"] or 0.0, 6) for label in curve.labels}
    assert len(spreads) > 1


def test_what_was_learned_from_more_minutes_is_better_where_the_machine_is_linear(
    drawn: tuple[LearningCurve, Path],
) -> None:
    curve = drawn[0]
    best = curve.point("ridge", "all").mean["crps"]
    assert best is not None
    assert best < (curve.point("persistence", "all").mean["crps"] or 0.0)
    assert any(one.model == "ridge" and one.by is not None for one in curve.crossings)


def test_files_hold_what_was_found_and_can_be_read_back(drawn: tuple[LearningCurve, Path]) -> None:
    curve, out = drawn
    saved = LearningCurve.from_dict(read_sealed(out / "curve.json"))
    assert saved == curve
    with (out / "curve.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["model"], row["label"]) for row in rows] == [(point.model, point.label) for point in curve.points]
    text = (out / "curve.md").read_text(encoding="utf-8")
    assert "| minutes of own logs | 0 | 0.4 | 3 | all |" in text
    assert "too little to learn from" in text
    assert (out / "curve.png").stat().st_size > 5000
    assert (out / "curve.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_of_every_run_it_is_written_whether_the_plan_was_looked_at(drawn: tuple[LearningCurve, Path]) -> None:
    listens = {"fleet": True, "ridge": True, "persistence": False, "mean": False}
    files = [path for path in (drawn[1] / "runs").rglob("*.json") if "uses_future_commands" in path.read_text("utf-8")]
    finished = [result for path in files if (result := Result(**read_sealed(path))).status == "finished"]
    assert len(finished) == 14, "ridge has nothing to learn from twice"
    assert all(result.uses_future_commands == listens[result.model] for result in finished)


def test_the_result_prints_and_becomes_a_frame(drawn: tuple[LearningCurve, Path]) -> None:
    curve = drawn[0]
    assert "CRPS on mine" in repr(curve)
    assert "<table" in curve._repr_html_()
    frame = curve.to_polars()
    assert frame.filter(model="ridge", label="0")["crps"].to_list() == [None]
    with pytest.raises(ConfigError, match="no metric"):
        curve.plot("accuracy")


def test_the_fleet_reads_further_commands_once_it_has_learned_on(fleet: Path, tmp_path: Path) -> None:
    table, override = own_table(), Channel(name="feed_override", quantity="override", unit="%")
    more = np.repeat(np.random.default_rng(3).uniform(40.0, 120.0, size=(len(table) // 6, 1)), 6, axis=0)
    wide = replace(
        table,
        schema=table.schema.model_copy(update={"commands": (override, *table.schema.commands)}),
        commands=np.concatenate([more, table.commands], axis=1),
    )
    curve = run(wide, tmp_path / "curve", fleet, models="fleet", minutes="0,3,all")
    assert all(point.seeds == 1 for point in curve.points)
    (learned,) = (tmp_path / "curve").glob("runs/all/fleet-*/models/fleet-seed0/model.safetensors")
    assert read_model_file(learned).schema.command_names == (*table.schema.command_names, "feed_override")


def test_a_finished_run_is_never_run_twice(
    drawn: tuple[LearningCurve, Path], own: Table, fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A copy, because what is run again writes the curve anew, which other tests read.
    curve, out = drawn[0], shutil.copytree(drawn[1], tmp_path / "curve")
    fitted: list[int] = []
    fit = RidgeForecaster.fit
    monkeypatch.setattr(RidgeForecaster, "fit", lambda self, *given: (fitted.append(1), fit(self, *given))[1])
    monkeypatch.setattr(FleetContender, "learned_on", lambda *_: pytest.fail("the fleet learned a second time"))
    (out / "runs" / "3-minutes" / "runs" / "ridge-seed0.json").unlink()
    again = run(own, out, fleet)
    assert len(fitted) == 1
    assert again.point("fleet", "3") == curve.point("fleet", "3")
    assert again.point("ridge", "all") == curve.point("ridge", "all")


def test_another_table_in_the_same_folder_is_refused(drawn: tuple[LearningCurve, Path], fleet: Path) -> None:
    with pytest.raises(ConfigError, match="table: "):
        run(toy_table("mine", sessions=6, rows=100, seed=8), drawn[1], fleet)


def test_the_fleet_at_zero_minutes_sees_nothing_of_the_own_logs(
    drawn: tuple[LearningCurve, Path], own: Table, fleet: Path, tmp_path: Path
) -> None:
    """Own logs of another size change the unit of the errors, and nothing else."""
    curve = drawn[0]
    test = {"/".join(run.split("/")[2:]) for run in _sessions(drawn[1], curve)}
    sensors = own.sensors.copy()
    for group in own.groups:
        if f"{group.run}/{group.session}" not in test:
            sensors[group.start : group.stop] = 10.0 * own.sensors[group.start : group.stop]
    other = run(replace(own, sensors=sensors), tmp_path / "other", fleet, minutes="0", models="fleet")
    first, second = curve.point("fleet", "0").mean["crps"], other.point("fleet", "0").mean["crps"]
    assert first is not None
    assert second is not None
    assert second == pytest.approx(0.1 * first, rel=1e-3)


def _sessions(out: Path, curve: LearningCurve) -> list[str]:
    result = json.loads((out / "runs" / "0-minutes" / "runs" / "persistence-seed0.json").read_text(encoding="utf-8"))
    assert len(result["scores"]["test"]["rmse_by_run"]) == curve.sessions
    return list(result["scores"]["test"]["rmse_by_run"])


def test_runs_side_by_side_give_the_same_curve(own: Table, tmp_path: Path) -> None:
    words: dict[str, Any] = {"models": "ridge,mean", "minutes": "0,4", "size": "tiny", "windows": 40, "device": "cpu"}
    one, two = (curve(own, out=tmp_path / str(jobs), jobs=jobs, **words) for jobs in (1, 2))
    assert one.crossings == ()
    assert [(point.model, point.label) for point in one.points] == [(point.model, point.label) for point in two.points]
    for first, second in zip(one.points, two.points, strict=True):
        assert first.mean == pytest.approx(second.mean, nan_ok=True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"models": "nobody"}, "no model 'nobody'"),
        ({"models": " , "}, "No model was named"),
        ({"minutes": "three"}, "no number of minutes"),
        ({"seeds": 0}, "0 seeds"),
        ({"budget": "lavish"}, "no budget 'lavish'"),
    ],
)
def test_bad_words_are_refused_before_anything_is_written(
    words: dict[str, Any], told: str, own: Table, fleet: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=told):
        run(own, tmp_path / "curve", fleet, **words)
    assert not (tmp_path / "curve").exists()


def test_no_fleet_file_says_what_to_do(own: Table, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model of many machines") as error:
        run(own, tmp_path / "curve", tmp_path / "nowhere.safetensors")
    assert "--fleet PATH" in str(error.value)


def test_minutes_that_the_logs_do_not_hold_are_said(own: Table, fleet: Path, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="minutes beside the sessions that are judged"):
        run(own, tmp_path / "curve", fleet, minutes="60")
    curve = run(own, tmp_path / "curve", fleet, minutes="0,60", models="mean")
    assert curve.labels == ("0",)
    assert any("60 could not be asked" in note for note in curve.notes)


def test_a_table_where_nothing_moves_is_refused(fleet: Path, tmp_path: Path) -> None:
    table = own_table()
    still = replace(table, sensors=np.ones_like(table.sensors))
    with pytest.raises(TableError, match="No sensor is left to judge by"):
        run(still, tmp_path / "curve", fleet)


def test_few_windows_get_small_batches() -> None:
    few, many = effort("quick", "tiny", 20), effort("quick", "tiny", 100_000)
    assert few.batch_size == 5
    assert many.batch_size == 128
    assert few.epochs <= 2


def test_the_command_prints_the_curve_and_its_json(own: Table, fleet: Path, tmp_path: Path) -> None:
    own.write(tmp_path / "own.parquet")
    words = ["curve", "--table", str(tmp_path / "own.parquet"), "--models", "fleet,persistence", "--minutes", "0,1"]
    words += ["--size", "tiny", "--windows", "30", "--fleet", str(fleet), "--out", str(tmp_path / "curve")]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert told.exit_code == 0
    assert "CRPS on mine after so many minutes of own logs" in told.stdout
    document = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert json.loads(document.stdout)["machine"] == "mine"
