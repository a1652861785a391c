"""The comparison: one table, no run twice, divergence reported, everybody on the same windows."""

import csv
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from crossfeed.errors import ConfigError, StorageError, TableError, TrainingError
from crossfeed.evaluation.baselines import ARMS, networks
from crossfeed.evaluation.baselines.budget import Budget, budget_of
from crossfeed.evaluation.baselines.compare import Comparison, compare
from crossfeed.evaluation.baselines.contenders import (
    SHORT,
    Setting,
    arm_config,
    baseline_names,
    config_of,
    contender,
    line_up,
)
from crossfeed.evaluation.baselines.neural import NeuralForecaster
from crossfeed.evaluation.baselines.results import Result
from crossfeed.evaluation.metrics import score_windows
from crossfeed.evaluation.opened_model import open_model
from crossfeed.evaluation.setup import set_up
from crossfeed.files import read_sealed
from crossfeed.logs.table import Table
from crossfeed.schema import canonical
from crossfeed.training.run_config import RunConfig, preset
from tests.windows.tables import random_table

from .conftest import CONTEXT, HORIZONS, toy_table


@pytest.fixture(scope="module")
def config() -> RunConfig:
    base = preset("crossfeed", "tiny")
    return base.model_copy(update={"model": base.model.model_copy(update={"context": CONTEXT, "horizons": HORIZONS})})


@pytest.fixture(scope="module")
def other() -> Table:
    """Another machine: one sensor missing, levels shifted."""
    table = toy_table("other", sessions=2, seed=5)
    table.sensors[:] += 1.0
    return table.without(["sum"])


def run(toy: Table, other: Table | None, out: Path, budget: Budget, config: RunConfig, **more: Any) -> Comparison:
    return compare([toy], other, out, budget=budget, size="tiny", config=config, device="cpu", **more)


def test_one_table_with_floors_networks_and_the_world_model(
    toy: Table, other: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    models = "persistence,drift,ridge,gru,gru+blind,itransformer,mended,crossfeed"
    result = run(toy, other, tmp_path, tiny_budget, config, models=models, seeds=1)
    rows = {row.model: row for row in result.table.rows}
    assert list(rows) == models.split(",")
    for row in rows.values():
        assert all(row.mean[f"{part}.{metric}"] is not None for part in ("source", "target") for metric in
                   ("rmse", "mae", "crps", "nll", "coverage90", "command_use"))  # fmt: skip
    for name in ("persistence", "gru+blind"):
        assert rows[name].mean["source.command_use"] == 1.0
        assert not rows[name].uses_future_commands
    assert rows["ridge"].mean["source.command_use"] > 1.5
    assert rows["gru"].mean["source.command_use"] != 1.0
    assert "cannot mask" in rows["itransformer"].absent
    assert rows["crossfeed"].absent == rows["mended"].absent == "masked"
    assert rows["gru"].parameters > rows["persistence"].parameters == 0


def test_the_saved_tables_hold_what_was_found(
    toy: Table, other: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    result = run(toy, other, tmp_path, tiny_budget, config, models="persistence,mlp", seeds=2)
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    saved = read_sealed(tmp_path / "table.json")
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert [(row["model"], row["seeds"]) for row in rows] == [("persistence", "1"), ("mlp", "2")]
    mean = sum(r.scores["target"]["rmse"] for r in result.results if r.model == "mlp") / 2
    assert float(rows[1]["target.rmse"]) == pytest.approx(mean)
    assert len(saved["results"]) == 3
    assert "at most 2 epochs of at most 2 batches of 16" in text
    assert "| mlp | 2 |" in text


def test_a_finished_run_is_never_run_twice(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(toy, None, tmp_path, tiny_budget, config, models="mlp,gru", seeds=1)
    fits: list[str] = []
    fit = NeuralForecaster.fit

    def counted(self: NeuralForecaster, *arguments: Any) -> None:
        fits.append(self.name)
        fit(self, *arguments)

    monkeypatch.setattr(NeuralForecaster, "fit", counted)
    (tmp_path / "runs" / "gru-seed0.json").unlink()
    again = run(toy, None, tmp_path, tiny_budget, config, models="mlp,gru", seeds=2)
    assert sorted(fits) == ["gru", "gru", "mlp"]
    before, after = ({(r.model, r.seed): r.scores for r in result.results} for result in (first, again))
    assert after[("mlp", 0)] == before[("mlp", 0)]
    assert after[("gru", 0)] == before[("gru", 0)]


def test_an_interrupted_world_model_goes_on_where_it_stopped(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = run(toy, None, tmp_path / "a", tiny_budget, config, models="crossfeed", seeds=1)
    measure = "crossfeed.evaluation.baselines.compare.measure"
    with monkeypatch.context() as patch:
        patch.setattr(measure, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(toy, None, tmp_path / "b", tiny_budget, config, models="crossfeed", seeds=1)
    assert not list((tmp_path / "b" / "runs").glob("*")) if (tmp_path / "b" / "runs").exists() else True
    resumed = run(toy, None, tmp_path / "b", tiny_budget, config, models="crossfeed", seeds=1)
    assert resumed.results[0].scores == undisturbed.results[0].scores


def test_a_folder_of_another_comparison_is_refused_with_what_differs(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    run(toy, None, tmp_path, tiny_budget, config, models="persistence", seeds=1)
    with pytest.raises(ConfigError, match=r"budget\.epochs: \d+ there, 3 asked"):
        run(toy, None, tmp_path, tiny_budget.model_copy(update={"epochs": 3}), config, models="persistence")
    with pytest.raises(ConfigError, match="sources"):
        run(toy_table(seed=9), None, tmp_path, tiny_budget, config, models="persistence")


def test_a_diverging_baseline_is_reported_and_the_rest_goes_on(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(self: NeuralForecaster, *_: Any) -> None:
        raise TrainingError(f"{self.name} diverged: the loss is nan.")

    monkeypatch.setattr(NeuralForecaster, "fit", explode)
    result = run(toy, None, tmp_path, tiny_budget, config, models="gru,persistence", seeds=2)
    gru, floor = result.table.rows
    assert (gru.seeds, gru.diverged) == (0, 2)
    assert gru.remark == "diverged in 2 of 2 seeds: gru diverged: the loss is nan."
    assert floor.mean["source.rmse"] is not None
    assert "diverged" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert read_sealed(tmp_path / "runs" / "gru-seed1.json")["status"] == "diverged"


def test_forecasts_that_are_no_numbers_count_as_diverged(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict = NeuralForecaster.predict

    def spoilt(self: NeuralForecaster, batch: Any) -> Any:
        forecast = predict(self, batch)
        forecast.mean[0] = torch.nan
        return forecast

    monkeypatch.setattr(NeuralForecaster, "predict", spoilt)
    result = run(toy, None, tmp_path, tiny_budget, config, models="mlp", seeds=1)
    assert result.results[0].status == "diverged"
    assert "no finite number" in result.results[0].reason


def test_a_model_that_cannot_be_built_is_named_and_tried_again_next_time(
    toy: Table, tmp_path: Path, tiny_budget: Budget
) -> None:
    base = preset("crossfeed", "tiny")
    short = base.model_copy(update={"model": base.model.model_copy(update={"context": 6, "horizons": (1, 2)})})
    result = run(toy, None, tmp_path, tiny_budget, short, models="patchtst,mlp", seeds=1)
    remarks = {row.model: row.remark for row in result.table.rows}
    assert "patches of 8 rows" in remarks["patchtst"]
    assert [r.model for r in result.results] == ["mlp"]
    assert not (tmp_path / "runs" / "patchtst-seed0.json").exists()


def test_a_damaged_result_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "gru-seed0.json"
    path.write_text('{"model": "gru"', encoding="utf-8")
    with pytest.raises(StorageError, match=r"gru-seed0\.json") as error:
        Result.of(path, lambda: pytest.fail("made again"))
    assert "Delete the file" in str(error.value)


def test_a_target_without_a_shared_sensor_is_refused(
    toy: Table, other: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    with pytest.raises(TableError, match="none of the sensors"):
        run(toy.without(["fast", "slow"]), other, tmp_path, tiny_budget, config, models="persistence")


def test_sensors_the_source_never_shows_are_not_scored_on_the_target(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    target = toy_table("other", sessions=2, seed=5)
    result = run(toy.without(["slow"]), target, tmp_path, tiny_budget, config, models="persistence", seeds=1)
    assert list(result.results[0].scores["target"]["rmse_by_channel"]) == ["fast", "sum"]


def test_a_sensor_that_hardly_moved_in_the_train_rows_decided_every_mean_unsaid(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    lively = toy_table("other", sessions=2, seed=5)
    lively.sensors[:, 1] *= 40.0
    notes = [
        run(toy, target, tmp_path / name, tiny_budget, config, models="persistence", seeds=1).table.notes
        for name, target in (("lively", lively), ("alike", toy_table("other", sessions=2, seed=5)))
    ]
    (said,) = [note for note in notes[0] if "decide every mean" in note]
    assert re.search(r": slow [34]\d times\.$", said), said
    assert not any("decide every mean" in note for note in notes[1])


def setting(budget: Budget) -> Setting:
    return Setting(budget, "tiny", "cpu", {})


def test_lists_name_everybody_and_missing_extras_are_said(tiny_budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    everybody, missing = line_up("all", setting(tiny_budget))
    assert {one.name for one in everybody} == {n for n in baseline_names() if not n.startswith("official")} - {"trees"}
    assert "crossfeed[trees]" in missing["trees"]
    short, _ = line_up("short", setting(tiny_budget))
    assert [one.name for one in short] == [name for name in SHORT if name != "trees"]


@pytest.mark.parametrize("spec", ["grue", "gru+blnd", "persistence+blind", "crossfeed+revin", "ridge+revin", " , "])
def test_unknown_models_and_options_are_refused_before_anything_runs(spec: str, tiny_budget: Budget) -> None:
    with pytest.raises(ConfigError):
        line_up(spec, setting(tiny_budget))


def test_official_code_without_a_clone_says_what_to_clone(tiny_budget: Budget) -> None:
    with pytest.raises(ConfigError, match="no clone") as error:
        contender("official-patchtst", setting(tiny_budget))
    assert "git clone https://github.com/yuqinie98/PatchTST" in str(error.value)


@pytest.mark.parametrize("arm", list(ARMS))
def test_every_arm_gets_the_budget_of_the_others(arm: str, config: RunConfig) -> None:
    budget = budget_of("demo", epochs=12, steps=7)
    made = arm_config(arm, budget, "tiny", 4, config)
    training = made.training
    assert sum(training.stages.values()) == 12
    assert (training.steps_per_epoch, training.batch_size, training.seed) == (7, budget.batch_size, 4)
    own = preset("crossfeed", "tiny").training.learning_rate
    assert training.learning_rate == (own if arm.startswith("crossfeed") else networks.learning_rate("tiny"))
    named = arm_config(arm, budget.model_copy(update={"learning_rate": 0.01}), "tiny", 4, config)
    assert named.training.learning_rate == 0.01
    assert made.data == config.data
    assert made.model.horizons == HORIZONS
    assert (made.model.network == "sensors") == arm.startswith("crossfeed") == (set(training.stages) == {"finetune"})
    if not arm.startswith("crossfeed"):
        assert (made.jepa.instance_norm.kind == "pure") == (arm == "paper-revin")


def test_the_default_as_it_ships_takes_part_in_the_space_of_the_others(tmp_path: Path, tiny_budget: Budget) -> None:
    machine, other = (random_table([90] * 6, seed, schema=canonical(), machine=name) for seed, name in enumerate("ab"))
    one_step = tiny_budget.model_copy(update={"epochs": 1, "steps": 1, "validation_windows": 8})
    result = run(
        machine, other, tmp_path, one_step, preset("crossfeed", "tiny"), models="mean,crossfeed+fleet", seeds=1
    )
    begun = result.table.rows[1]
    assert begun.remark == ""
    opened = open_model(tmp_path / "models" / "crossfeed+fleet-seed0", "cpu")
    for part, table in {"source": machine, "target": other}.items():
        alone = score_windows(opened.forecaster, set_up(opened, table, sources=[machine]).data).metrics()
        assert begun.mean[f"{part}.rmse"] == pytest.approx(alone["rmse"], rel=1e-4)
        assert begun.mean[f"{part}.crps"] == pytest.approx(alone["crps"], rel=1e-4)


def test_the_default_as_it_ships_is_named_where_it_cannot_be_begun(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    result = run(toy, None, tmp_path, tiny_budget, config, models="mean,crossfeed+fleet", seeds=1)
    assert result.table.rows[1].remark.startswith("not run: 'fleet' ")


def test_the_split_can_follow_programs() -> None:
    assert config_of("tiny", "program").data.split_by == "program"


def test_runs_side_by_side_give_the_numbers_of_runs_in_a_row(
    toy: Table, other: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig
) -> None:
    models = "persistence,mlp,gru+blind"
    alone = run(toy, other, tmp_path / "alone", tiny_budget, config, models=models, seeds=1)
    together = run(toy, other, tmp_path / "together", tiny_budget, config, models=models, seeds=1, jobs=2)
    assert [row.model for row in together.table.rows] == models.split(",")
    for one, two in zip(alone.results, together.results, strict=True):
        assert two.scores["target"]["rmse"] == pytest.approx(one.scores["target"]["rmse"], rel=1e-4)


def test_a_baseline_of_ones_own_takes_part_here_and_in_other_processes(
    toy: Table, tmp_path: Path, tiny_budget: Budget, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in (networks.RECIPES, networks._registered_in):
        monkeypatch.setitem(known, "level", None)  # type: ignore[arg-type]  # gone again afterwards
    # Imported here, since importing it registers: the tests of all baselines are not about this one.
    from tests.evaluation.baselines import own_baseline

    own_baseline.register()
    results = [
        run(toy, None, tmp_path / str(jobs), tiny_budget, config, models="level,level+revin", seeds=1, jobs=jobs)
        for jobs in (1, 2)
    ]
    scores = [[result.scores["source"]["rmse"] for result in one.results] for one in results]
    assert len(scores[0]) == 2
    assert scores[1] == pytest.approx(scores[0], rel=1e-4)


def test_a_baseline_that_is_there_is_not_replaced_and_a_script_is_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="baseline 'gru' already"):
        networks.register_baseline("gru", networks.RECIPES["gru"].build)
    monkeypatch.setitem(networks._registered_in, "level", "__main__")
    with pytest.raises(ConfigError, match="in the script itself"):
        networks.modules_of_registered(["gru", "level+blind"])


def test_a_stride_thins_the_windows_and_none_is_refused() -> None:
    assert config_of("tiny", "session", 4).data.stride == 4
    with pytest.raises(ConfigError, match="stride"):
        config_of("tiny", "session", 0)
