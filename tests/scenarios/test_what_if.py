"""Sampled futures described, in figures that were worked out by hand."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError, StorageError, TableError
from crossfeed.files import read_sealed
from crossfeed.front.fitted_model import FittedModel, what_if
from crossfeed.scenarios.figure import what_if_figure
from crossfeed.scenarios.history import History, read_history
from crossfeed.scenarios.measures import Estimate
from crossfeed.scenarios.plan import PlannedCommands
from crossfeed.scenarios.result import WhatIf
from crossfeed.scenarios.what_if import FAINTEST, compared, plan_forecast, reading, rows_before
from crossfeed.show.drawing import draw
from crossfeed.show.figures import save_figure
from tests.evaluation.small_machine import small_table
from tests.scenarios.conftest import Place

ROOT = Path(__file__).parent.parent.parent
PLAN = np.stack([np.full(12, 1000.0), np.full(12, 200.0)], 1)
FASTER = PLAN * [2.5, 3.0]
SHOWN = np.array([True, True, False])
DRAWN = np.arange(1.0, 40.0)  # 39 futures: the 5 % quantile of them is the second, the 95 % quantile the 38th


def ask(place: Place, plans: Any, **options: Any) -> WhatIf:
    return what_if(FittedModel(place.opened), options.pop("history", place.table), plans, samples=20, **options)


def test_a_plan_against_itself_makes_no_difference_at_all(place: Place) -> None:
    content = ask(place, {"a": PLAN, "b": PLAN.copy(), "c": FASTER}).to_dict()
    same, other = content["comparisons"]
    assert (same["mean"], same["low"], same["high"], same["probability_less"]) == (0.0, 0.0, 0.0, 0.0)
    assert (same["first"], same["second"]) == ("a", "b")
    assert other["low"] < other["high"]


def test_the_same_seed_gives_the_same_futures_and_another_seed_others(place: Place) -> None:
    first, again, other = (ask(place, [PLAN], seed=seed) for seed in (3, 3, 4))
    assert first.to_dict() == again.to_dict()
    assert (first.paths["plan 1"] != other.paths["plan 1"]).all()


def test_the_truth_is_shown_beside_the_plan_that_really_followed(place: Place) -> None:
    content = ask(place, ["table", PLAN], at=30.0, seconds=10.0).to_dict()
    followed, other = content["plans"].values()
    np.testing.assert_allclose(followed["truth"]["power"], place.table.sensors[331:341, 1])
    assert followed["energy"]["truth"] == pytest.approx(place.table.sensors[331:341, 1].sum() / 3.6)
    assert (other["truth"], other["energy"]["truth"]) == (None, None)
    assert len(other["time"]) == 10


def test_a_missing_reading_leaves_the_true_energy_open(place: Place) -> None:
    table = small_table(runs=6, rows=60)
    table.sensors[335, 1] = np.nan
    content = ask(place, ["table"], history=table, at=30.0).to_dict()
    assert content["plans"]["table"]["energy"]["truth"] is None
    assert content["plans"]["table"]["truth"]["power"][4] is None


def test_a_history_with_rows_of_another_length_was_read_as_if_they_were_the_models(place: Place) -> None:
    opened = replace(place.opened, provenance={**place.opened.provenance, "row_period": 0.5})
    with pytest.raises(TableError, match=r"has a row every 1 s, the model was trained on one every 0\.5 s"):
        what_if(FittedModel(opened), place.table, [PLAN], samples=2)


def test_plans_beyond_the_trained_range_are_named_with_the_distance(place: Place) -> None:
    content = ask(place, {"far": PLAN * [6.0, -1.0], "near": PLAN}).to_dict()
    high, low, turned = content["plans"]["far"]["warnings"]
    assert "spindle_speed reaches 6,000 rpm" in high
    assert "between 0 and 3,000 rpm: 100% of that range outside" in high
    assert "feed_x falls to -200 mm/min" in low
    assert "moves feed_x backwards as well" in turned
    assert content["plans"]["near"]["warnings"] == []


def test_a_model_that_does_not_tell_its_range_is_judged_by_the_log(place: Place, tmp_path: Path) -> None:
    place.opened.model.save(tmp_path / "old.safetensors", {})
    content = what_if(tmp_path / "old.safetensors", place.log, [PLAN * [6.0, 1.0]], samples=20, device="cpu").to_dict()
    assert "in the rows of the history's table" in content["plans"]["plan 1"]["warnings"][0]


def test_another_machine_and_long_plans_are_warned_about(place: Place) -> None:
    lathe = small_table(runs=6, rows=60, machine="lathe")
    content = ask(place, [np.repeat(PLAN, 25, axis=0)], history=lathe).to_dict()
    assert "never saw lathe" in content["warnings"][0]
    assert "measured up to 256 rows" in content["plans"]["plan 1"]["warnings"][0]
    assert ask(place, [PLAN]).to_dict()["warnings"] == []


def test_without_a_power_sensor_there_is_no_energy(place: Place, tmp_path: Path) -> None:
    blind = place.table.without(["power"])
    answer = ask(place, {"a": PLAN, "b": FASTER}, history=blind, out=tmp_path)
    assert answer.to_dict()["plans"]["a"]["energy"] is None
    assert answer.to_dict()["comparisons"] == []
    assert answer.to_dict()["absent"] == ["power"]
    assert set(answer.to_dict()["plans"]["a"]["sensors"]) == {"current", "temperature"}
    assert (tmp_path / "forecast.png").stat().st_size > 10_000


def test_limits_and_channels_must_be_there(place: Place) -> None:
    found = ask(place, [PLAN], limits={"power": -1e9}).to_dict()["plans"]["plan 1"]["peaks"]
    assert (found["power"]["limit"], found["power"]["probability"]) == (-1e9, 1.0)
    assert found["current"]["probability"] is None
    for wrong in ({"limits": {"speed": 1.0}}, {"channels": ["speed"]}):
        with pytest.raises(ConfigError, match="'speed' is no sensor"):
            ask(place, [PLAN], **wrong)


def test_the_files_hold_what_the_answer_says(place: Place, tmp_path: Path) -> None:
    answer = ask(place, {"a": PLAN, 'with "quotes", and commas': FASTER}, out=tmp_path / "deep" / "folder")
    folder = tmp_path / "deep" / "folder"
    assert read_sealed(folder / "forecast.json") == answer.to_dict()
    with (folder / "forecast.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 12 * 3
    power = [row for row in rows if row["plan"].startswith("with") and row["sensor"] == "power"]
    said = answer.to_dict()["plans"]['with "quotes", and commas']["sensors"]["power"]
    np.testing.assert_allclose([float(row["mean"]) for row in power], said["mean"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose([float(row["q0.95"]) for row in power], said["quantiles"]["0.95"], rtol=1e-4, atol=1e-5)
    assert power[0]["unit"] == "kW"


def test_quantiles_rise_and_hold_the_paths(place: Place) -> None:
    answer = ask(place, [PLAN])
    for sensor in answer.to_dict()["plans"]["plan 1"]["sensors"].values():
        levels = np.array(list(sensor["quantiles"].values()))
        assert (np.diff(levels, axis=0) >= 0.0).all()
        assert (levels[0] <= sensor["mean"]).all()
        assert (sensor["mean"] <= levels[-1]).all()


def keys(content: Any) -> Any:
    """The structure of a document, without its values."""
    if isinstance(content, dict):
        return {key: keys(value) for key, value in content.items()}
    return None


def test_the_documented_format_is_the_written_one(place: Place) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "forecast.md").read_text(encoding="utf-8"), re.DOTALL)
    documented = json.loads(text)
    content = ask(place, {"a": PLAN, "b": FASTER}).to_dict()
    assert documented["format"] == content["format"]
    assert documented.keys() == content.keys()
    for part in ("model", "history", "settings"):
        assert documented[part].keys() == content[part].keys()
    (plan,) = documented["plans"].values()
    assert plan.keys() == content["plans"]["a"].keys()
    assert plan["energy"].keys() == content["plans"]["a"]["energy"].keys()
    assert plan["peaks"]["spindle_power"].keys() == content["plans"]["a"]["peaks"]["power"].keys()
    assert keys(plan["sensors"]["spindle_power"]) == keys(content["plans"]["a"]["sensors"]["power"])
    assert documented["comparisons"][0].keys() == content["comparisons"][0].keys()


def test_a_start_up_before_the_rows_that_are_shown_does_not_set_the_scale(place: Place) -> None:
    stored = ask(place, {"a": PLAN}, at=30.0, seconds=10.0)
    before = what_if_figure(stored, ["power"]).panels[0].y_range()
    stored.history.sensors["power"][0] = 1e6
    panel = what_if_figure(stored, ["power"]).panels[0]
    assert panel.y_range() == before
    assert panel.x_range()[0] > stored.history.time[0]


def test_a_stored_forecast_can_be_drawn_again_in_every_format(place: Place, tmp_path: Path) -> None:
    answer = ask(place, {"a": PLAN, "table": "table"}, at=30.0, seconds=10.0, limits={"power": 2.0})
    stored = WhatIf.from_dict(json.loads(json.dumps(answer.to_dict())))
    assert stored.to_dict() == answer.to_dict()
    assert stored.plans["a"].energy == answer.plans["a"].energy
    with pytest.raises(StorageError, match=r"does not hold what a what-if records: plans: "):
        WhatIf.from_dict(answer.to_dict() | {"plans": 17})
    for name in ("figure.png", "figure.svg"):
        save_figure(draw(what_if_figure(stored, ["power"])), tmp_path / name)
        assert (tmp_path / name).stat().st_size > 10_000
    with pytest.raises(StorageError, match=r"cannot be written as 'figure\.gif'"):
        save_figure(draw(what_if_figure(stored)), tmp_path / "figure.gif")


def test_the_command_line_prints_a_table_and_json(place: Place, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("time,spindle_speed,feed_x\n" + "".join(f"{row},5000,200\n" for row in range(10)))
    words = ["what-if", str(place.model), "--history", str(place.log), "--at", "30", "--commands", "table"]
    words += ["--compare", str(plan), "--limit", "power=1", "--samples", "20", "--seconds", "8", "--device", "cpu"]
    shown = CliRunner().invoke(app, [*words, "--plot", str(tmp_path / "a.png")], env={"COLUMNS": "160"})
    assert shown.exit_code == 0, shown.output
    for text in ("energy in Wh", "to the first", "P(above the limit)", "kW", "warning: plan.csv: spindle_speed"):
        assert text in shown.output
    assert (tmp_path / "a.png").exists()
    printed = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert list(printed["plans"]) == ["table", "plan.csv"]


def test_a_deaf_model_compares_plans_only_with_a_warning(place: Place, tmp_path: Path) -> None:
    place.opened.model.save(tmp_path / "deaf.safetensors", {"machines": ["mill"], "shuffled_command_ratio": 1.004})
    content = what_if(tmp_path / "deaf.safetensors", place.log, [PLAN, FASTER], samples=20, device="cpu").to_dict()
    assert content["warnings"] == [
        "in training this model hardly used the commands (shuffled plans cost a factor of 1.004 in RMSE): it cannot "
        "tell plans apart, and equal forecasts do not mean equal plans"
    ]


def test_an_adapted_model_no_longer_warns_that_it_never_saw_the_machine(place: Place, tmp_path: Path) -> None:
    told = {"machines": ["mill"], "adapted": {"to": {"machines": ["lathe"]}}}
    place.opened.model.save(tmp_path / "few_shot.safetensors", told)
    lathe = small_table(runs=6, rows=60, machine="lathe")
    assert what_if(tmp_path, lathe, [PLAN], samples=20, device="cpu").to_dict()["warnings"] == []


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-142.0, 155.0, "cannot tell whether b needs more or less energy than a: -142 to +155 Wh"),
        (-30.0, -10.0, "b needs less energy than a in 100% of the sampled futures: -30.0 to -10.0 Wh"),
        (10.0, 30.0, "b needs more energy than a in 100% of the sampled futures: +10.0 to +30.0 Wh"),
        (0.0, 0.0, "b and a command the same"),
    ],
)
def test_a_difference_with_both_signs_is_said_to_be_none(low: float, high: float, said: str) -> None:
    estimate = Estimate((low + high) / 2, low, high)
    assert reading("a", "b", estimate, 1.0 if high < 0 else 0.0) == said


@pytest.fixture
def history(place: Place) -> History:
    return read_history(place.table, place.opened.model, at=30.0)


def futures(power: np.ndarray) -> np.ndarray:
    """Three rows of three sensors, whose power is that of each future in the first row and nothing later."""
    paths_NTC = np.zeros((len(power), 3, 3))
    paths_NTC[:, 0, 1] = power
    return paths_NTC


def test_a_plan_is_told_row_by_row(history: History) -> None:
    truth = np.ones((3, 3))
    plan = PlannedCommands("plan", "array", None, np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, 6.0]]), truth=truth)
    said = plan_forecast(plan, futures(DRAWN), history, SHOWN, {"power": 30.0}, [])
    assert (said.duration, said.time) == (3.0, [1.0, 2.0, 3.0])
    assert said.commands == {"spindle_speed": [1.0, 3.0, None], "feed_x": [2.0, 4.0, 6.0]}
    assert list(said.sensors) == ["current", "power"]
    power = said.sensors["power"]
    assert power.mean == pytest.approx([20.0, 0.0, 0.0])
    assert {level: values[0] for level, values in power.quantiles.items()} == pytest.approx(
        {"0.05": 2.0, "0.25": 10.0, "0.5": 20.0, "0.75": 30.0, "0.95": 38.0}
    )
    energy = said.energy
    assert energy is not None
    assert (energy.mean, energy.low, energy.high) == pytest.approx((20.0 / 3.6, 2.0 / 3.6, 38.0 / 3.6))
    assert energy.truth == pytest.approx(3.0 / 3.6)
    assert said.peaks["power"].probability == pytest.approx(9 / 39)
    assert said.truth == {"current": [1.0] * 3, "power": [1.0] * 3}


def test_the_last_minute_before_a_forecast_is_shown_and_ends_at_nought(place: Place, history: History) -> None:
    before = rows_before(history, SHOWN)
    assert before.time == [float(second) for second in range(-30, 1)]
    assert before.sensors["power"] == pytest.approx(history.sensors[:, 1])
    assert before.commands["feed_x"] == pytest.approx(history.commands[:, 1])
    assert list(before.sensors) == ["current", "power"]
    whole = rows_before(read_history(place.table, place.opened.model), SHOWN)
    assert (whole.time[0], whole.time[-1], len(whole.time)) == (-59.0, 0.0, 60)


def test_plans_are_compared_future_by_future(history: History) -> None:
    less = compared(("a", futures(DRAWN)), ("b", futures(0.5 * DRAWN)), history, SHOWN)
    assert less is not None
    assert (less.mean, less.low, less.high) == pytest.approx((-10.0 / 3.6, -19.0 / 3.6, -1.0 / 3.6))
    assert less.probability_less == 1.0
    assert less.reading == "b needs less energy than a in 100% of the sampled futures: -5.28 to -0.278 Wh"
    more = compared(("a", futures(DRAWN)), ("b", futures(DRAWN + 3.6)), history, SHOWN)
    assert more is not None
    assert (more.mean, more.low, more.probability_less) == pytest.approx((1.0, 1.0, 0.0))
    # What nobody could measure beside what the first plan itself is unsure by is no difference.
    faint = compared(("a", futures(DRAWN)), ("b", futures(DRAWN + 0.9 * FAINTEST * 36.0)), history, SHOWN)
    clear = compared(("a", futures(DRAWN)), ("b", futures(DRAWN + 1.1 * FAINTEST * 36.0)), history, SHOWN)
    assert faint is not None
    assert clear is not None
    assert faint.reading.startswith("cannot tell")
    assert clear.reading.startswith("b needs more energy")
    assert compared(("a", futures(DRAWN)), ("b", futures(DRAWN)), history, np.array([True, False, True])) is None


def test_a_sentence_says_how_sure_it_is() -> None:
    assert "needs more energy than a in 70%" in reading("a", "b", Estimate(2.0, 1.0, 3.0), 0.3)
    assert "needs less energy than a in 70%" in reading("a", "b", Estimate(-2.0, -3.0, -1.0), 0.7)
    assert "needs more energy than a in 70%" in reading("a", "b", Estimate(0.005, 0.004, 0.006), 0.3)
    assert "cannot tell" in reading("a", "b", Estimate(0.5, 0.0, 1.0), 0.3)
    assert "cannot tell" in reading("a", "b", Estimate(-0.5, -1.0, 0.0), 0.7)
