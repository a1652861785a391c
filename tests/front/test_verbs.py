"""Audit, fit, evaluate, adapt and what-if from Python: results to read, to draw and to go on with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import crossfeed as cf
from crossfeed.errors import ConfigError, ForecastError, TableError
from tests.front.conftest import BRIEF, House, mill


def test_an_audit_names_what_is_wrong(house: House) -> None:
    wrong = house.a.sensors.copy()
    wrong[:, house.a.schema.sensor_names.index("spindle_power")] *= 1000.0
    report = cf.audit([replace(house.a, sensors=wrong), house.b])
    assert report.violations
    assert any("spindle_power" in finding.subject for finding in report.violations)
    assert "spindle_power" in repr(report)
    assert "<table>" in report._repr_html_()
    assert repr(cf.audit(house.a)).startswith("0 violations")


def test_files_and_tables_are_audited_alike(house: House) -> None:
    table, file = cf.audit(house.a), cf.audit(house.folder / "a.parquet")
    assert [finding.measured for finding in table.findings] == [finding.measured for finding in file.findings]


def test_fit_without_a_folder_leaves_none(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    model = cf.fit([house.a, mill("mill_c", 2)], "tiny", settings=BRIEF, device="cpu")
    assert list(tmp_path.iterdir()) == []
    assert model.machines == ("mill_a", "mill_c")
    assert model.summary["validation"]["windows"] > 0
    assert "held-out" in repr(model)


def test_fit_goes_on_with_its_own_settings(house: House, tmp_path: Path) -> None:
    first = cf.fit(house.a, "tiny", out=tmp_path / "run", settings=BRIEF, device="cpu")
    again = cf.fit(house.a, out=tmp_path / "run", resume=True, device="cpu")
    assert again.opened.sha256 == first.opened.sha256


def test_a_frame_in_place_of_a_table_is_answered_with_the_way(house: House) -> None:
    for ask in (cf.fit, cf.audit, lambda frame: cf.evaluate(house.model, frame)):
        with pytest.raises(TableError, match="DataFrame is no table") as caught:
            ask(house.a.to_pandas())
        assert "from_frame" in caught.value.remedy


def test_settings_that_do_not_exist_are_answered_with_neighbours(house: House) -> None:
    with pytest.raises(ConfigError, match="batchsize") as caught:
        cf.fit(house.a, settings={"training.batchsize": 3})
    assert "training.batch_size" in caught.value.remedy


def test_the_verdict_comes_first(house: House, tmp_path: Path) -> None:
    result = cf.evaluate(house.model, house.b, house.a, out=tmp_path)
    assert repr(result).startswith("May run be trusted on mill_b? ")
    assert result._repr_html_().count("<table>") == 2
    assert (tmp_path / "evaluation.json").is_file()
    frame = result.to_pandas()
    own = frame[frame.forecaster == "run"]
    assert set(own.trust) <= {"yes", "with care", "no", "cannot be said"}
    assert frame[frame.forecaster == "persistence"].trust.isna().all()
    assert len(result.to_polars("horizon")) == len(result.scores) * len(house.model.horizons)
    skill, coverage, horizon = result.plot().axes
    assert [label.get_text() for label in skill.get_yticklabels()] == [
        f"{one.channel} [{one.unit}]" for one in result.verdict().channels
    ]
    assert len(coverage.lines) >= len(result.verdict().channels)
    assert len(horizon.lines) == len(result.scores)


def test_adapting_gives_a_model_again(house: House, tmp_path: Path) -> None:
    adapted = cf.adapt(house.model, house.b, samples=0.4, steps=2)
    assert adapted.machines == ("mill_a", "mill_b")
    assert adapted.adaptation.few_shot.fractions[-1].fraction == 0.4
    kept = cf.load(adapted.save(tmp_path / "adapted"))
    rows = house.b.to_polars().filter(session="s1")
    history, plan = rows[:60], rows[60:80]
    np.testing.assert_array_equal(kept.forecast(history, plan).mean, adapted.forecast(history, plan).mean)
    assert not np.array_equal(adapted.forecast(history, plan).mean, house.model.forecast(history, plan).mean)
    assert "adapted" in repr(adapted)


def test_samples_may_be_counted(house: House) -> None:
    rows = round(0.4 * len(house.b))
    adapted = cf.adapt(house.model, house.b, samples=rows, steps=1)
    share = adapted.adaptation.few_shot.config["fractions"][-1]
    assert share == pytest.approx(rows / len(house.b))


@pytest.mark.parametrize("samples", [0.05, 20])
def test_too_few_samples_are_not_passed_off_as_adapting(house: House, samples: float) -> None:
    with pytest.raises(TableError, match="no complete window"):
        cf.adapt(house.model, house.b, samples=samples)


@pytest.mark.parametrize("samples", [1.5, 10_000, -0.1])
def test_impossible_samples_are_refused(house: House, samples: float) -> None:
    with pytest.raises(ConfigError):
        cf.adapt(house.model, house.b, samples=samples)


def test_learning_online_gives_a_model_of_the_machine(house: House) -> None:
    adapted = cf.adapt(house.model, house.b, online=True, steps=1)
    assert adapted.machines == ("mill_a", "mill_b")


@pytest.fixture
def moment(house: House) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = house.a.to_polars().filter(session="s0")
    return rows[:40], rows[40:52]


def test_plans_are_compared(house: House, moment: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    history, plan = moment
    slower = plan.with_columns(pl.col("spindle_speed") * 0.5)
    answer = cf.what_if(house.model, history, {"as planned": plan, "slower": slower}, samples=20)
    assert len(answer.readings) == 1
    assert "slower" in answer.readings[0]
    frame = answer.to_pandas()
    shown = len(answer.to_dict()["sensors"])
    assert len(frame) == 2 * len(plan) * shown
    assert answer.readings[0] in repr(answer)
    assert "as planned" in answer._repr_html_()
    assert len(answer.plot(["spindle_power"]).axes) >= 3
    with pytest.raises(ConfigError, match="none of the forecast"):
        answer.plot(["x_torque"])


def test_the_same_plan_twice_cannot_be_told_apart(house: House, moment: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    history, plan = moment
    faster = plan.with_columns(pl.col("feed_x") * 1.001)
    same, nearly = (
        cf.what_if(house.model, history, {"one": plan, "two": other}, samples=20).readings[0]
        for other in (plan, faster)
    )
    assert "command the same" in same
    assert nearly.startswith("cannot tell")


def test_one_plan_a_list_and_a_table_are_understood(
    house: House, moment: tuple[pl.DataFrame, pl.DataFrame], tmp_path: Path
) -> None:
    history, plan = moment
    columns: dict[str, Any] = {name: plan[name].to_numpy() for name in house.a.schema.command_names}
    plan.select("time", *house.a.schema.command_names).write_csv(tmp_path / "plan.csv")
    wanted = cf.what_if(house.model, history, plan, samples=20).paths["plan 1"]
    for asked in (columns, [plan], tmp_path / "plan.csv"):
        (found,) = cf.what_if(house.model, history, asked, samples=20).paths.values()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    followed = cf.what_if(house.model, house.a, "table", session="s0", at=39.0, seconds=12, samples=20)
    np.testing.assert_allclose(followed.paths["table"], wanted, rtol=1e-4, atol=1e-4)


def test_a_plan_before_its_time_is_refused(house: House, moment: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    history, _ = moment
    with pytest.raises(TableError, match="begins at 5 s"):
        cf.what_if(house.model, history, history[4:20], samples=20)


def test_what_is_no_model_is_refused(house: House) -> None:
    with pytest.raises(ConfigError, match="is no fitted model"):
        cf.evaluate(house.model.network, house.b)  # type: ignore[arg-type]
    with pytest.raises(ForecastError):
        house.model.forecast(house.b, "table", [5], session="s0", at=40.0)


def test_a_table_wrote_1_4e_04_beside_7992(house: House) -> None:
    faster = replace(house.a, commands=house.a.commands * 4.0)
    assert "e+" not in repr(faster)
    assert "36,000" in repr(faster)
