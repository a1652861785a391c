"""Machines of any size and period in one run, and a run that goes on from it on a machine with other sensors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError
from crossfeed.evaluation.model_evaluation import evaluate_opened
from crossfeed.evaluation.opened_model import open_model
from crossfeed.front.adapt import adapt
from crossfeed.front.fitted_model import load
from crossfeed.ingest.table import Table
from crossfeed.model.meeting import meet
from crossfeed.model.model_file import read_model_file
from crossfeed.schema import Channel, Schema
from crossfeed.training import going_on, known_changes, run
from crossfeed.training.reproduce import reproduce
from crossfeed.training.run import train
from crossfeed.windows.frame import first_rows, fit_frame, usual_scales
from crossfeed.windows.split import split_table
from crossfeed.windows.split_tables import SplitTables
from tests.training.conftest import small_config, toy_table

MANY = {"model.identity": "described", "data.normaliser": "frame", "machines.gain": 0.5, "machines.commands": 0.2}


def other_size(table: Table, size: float, period: float) -> Table:
    return replace(table, sensors=table.sensors * size, time=table.time * period, period=period)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three machines that differ in size by a thousand and in period by ten."""
    out = tmp_path_factory.mktemp("fleet") / "run"
    tables = [
        toy_table("small", seed=1),
        other_size(toy_table("large", seed=2), 1000.0, 0.1),
        toy_table("half blind", seed=3, absent=("current_3",)),
    ]
    train(tables, small_config(MANY, "crossfeed"), out, device="cpu")
    return out


def test_a_run_that_goes_on_keeps_some_of_what_it_began_with(fleet: Path, tmp_path: Path) -> None:
    """Trained on one machine alone, weights forget the others: intervals held 86 % there instead of 94 %."""
    config = small_config({"training.finetune_epochs": 1, "training.average_decay": 0.0}, "crossfeed")
    steps: list[dict[str, torch.Tensor]] = []
    kept = going_on.keep_some

    def watched(model: torch.nn.Module, came: dict[str, torch.Tensor]) -> None:
        steps.append({name: value.clone() for name, value in model.state_dict().items()})
        kept(model, came)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "keep_some", watched)
        gone = train(toy_table("own", seed=9), config, tmp_path / "run", device="cpu", pretrained=fleet)
    (learned,) = steps
    came, found = read_model_file(fleet / "model.safetensors").tensors, read_model_file(gone.model).tensors
    name = "network.head.linear.bias"
    assert not torch.equal(learned[name], came[name])
    torch.testing.assert_close(found[name], torch.lerp(learned[name], came[name], going_on.KEPT))


def stranger() -> Table:
    """A machine with two sensors of other names, other units, and one command of another name."""
    table = toy_table("stranger", seed=5)
    schema = Schema(
        name="stranger",
        sensors=tuple(Channel(name=f"drive_{name}", quantity="current", unit="mA") for name in "uv"),
        commands=(Channel(name="feed_1", quantity="feed", unit="mm/min"),),
    )
    return replace(table, schema=schema, sensors=table.sensors[:, :2] * 5000.0, commands=table.commands[:, 1:])


def test_machines_of_any_size_and_period_train_together(fleet: Path) -> None:
    file = read_model_file(fleet / "model.safetensors")
    assert file.normaliser.met_nobody
    assert "row_period" not in file.provenance
    assert file.provenance["machines"] == ["small", "large", "half blind"]
    assert file.provenance["usual_scales"].keys() == {"current", "feed"}


def test_machines_that_only_validate_are_met_by_their_first_rows(tmp_path: Path) -> None:
    tables = [toy_table(f"m{number}", seed=number) for number in range(4)]
    together = joined(tables)
    halves = {"data.split_by": "machine", "data.train_fraction": 0.5, "data.validation_fraction": 0.25}
    config = small_config(MANY | halves, "crossfeed")
    split = SplitTables.of([together], config.data)
    (validation,) = {group.machine for group in split.groups("validation")[0]}
    rows = first_rows([group for group in together.groups if group.machine == validation])
    training = {group.machine for group in split.groups("train")[0]}
    usual = usual_scales(together.schema, [split.frames[name] for name in training])
    own = fit_frame(together.schema, together.sensors[rows], together.commands[rows], usual)
    np.testing.assert_allclose(split.frames[validation].sensor_scale, own.sensor_scale, rtol=1e-12)
    assert train([together], config, tmp_path / "run", device="cpu").summary["validation"]["model"]["rmse"] > 0


def joined(tables: list[Table]) -> Table:
    """Several machines of one schema and period in one table."""
    starts = np.cumsum([0, *(len(table) for table in tables)])
    groups = tuple(
        replace(group, start=group.start + int(start), stop=group.stop + int(start))
        for table, start in zip(tables, starts[:-1], strict=True)
        for group in table.groups
    )
    time, sensors, commands = (
        np.concatenate([getattr(table, name) for table in tables]) for name in ("time", "sensors", "commands")
    )
    return replace(tables[0], groups=groups, time=time, sensors=sensors, commands=commands)


def test_a_model_of_many_machines_says_what_to_do_before_it_is_asked(fleet: Path) -> None:
    with pytest.raises(ConfigError, match="has not met this one yet"):
        open_model(fleet)


def test_it_is_judged_on_a_machine_with_other_sensors(fleet: Path) -> None:
    result = evaluate_opened(open_model(fleet, "cpu", meets=True), stranger())
    assert set(result.by_channel["run"]) == {"drive_u", "drive_v"}
    assert np.isfinite(result.scores["run"]["crps"])
    assert set(result.absent_commands) == {"feed_0"}


def test_it_forecasts_from_a_table_alone(fleet: Path) -> None:
    said = load(fleet, "cpu").forecast(stranger(), "table", at=20.0)
    assert said.sensors == ("drive_u", "drive_v")
    assert np.isfinite(said.quantile(0.9)).all()


def test_size_does_not_matter_to_what_it_forecasts(fleet: Path) -> None:
    model, table = open_model(fleet, "cpu", meets=True).model, stranger()
    larger = replace(table, sensors=table.sensors * 40.0)
    said = []
    for rows in (table, larger):
        history = np.concatenate([rows.sensors[:8], np.zeros((8, 1)), rows.commands[:8]], axis=1)
        said.append(meet(model, rows, usual={}).forecast(history, np.full((4, 2), 50.0)).mean)
    np.testing.assert_allclose(said[1], 40.0 * said[0], rtol=1e-3)


def test_a_run_goes_on_from_it_with_its_network_and_the_own_frame(fleet: Path, tmp_path: Path) -> None:
    result = train(stranger(), small_config(name="crossfeed"), tmp_path / "own", pretrained=fleet, device="cpu")
    file = read_model_file(result.model)
    assert file.config == read_model_file(fleet / "model.safetensors").config
    assert not file.normaliser.met_nobody
    assert file.schema.sensor_names == ("drive_u", "drive_v")
    assert file.provenance["row_period"] == 1.0
    assert result.summary["initialisation"]["how"] == "complete_checkpoint"
    assert open_model(result.model, "cpu").model.normaliser.method == "frame"
    before, after = (read_model_file(path).tensors for path in (fleet / "model.safetensors", result.model))
    assert any(not bool((before[name] == after[name]).all()) for name in before)


def commanded_by_more() -> Table:
    """A machine whose sensors also follow a second spindle and an override that the fleet never met."""
    table = toy_table("mill-turn", sessions=9, rows=60, seed=11)
    further = (
        Channel(name="turning_spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_override", quantity="override", unit="%"),
    )
    chance = np.random.default_rng(3)
    more = np.repeat(chance.uniform(0.2, 1.0, size=(len(table) // 6, 2)), 6, axis=0) * [900.0, 120.0]
    return replace(
        table,
        schema=table.schema.model_copy(update={"commands": (further[0], *table.schema.commands, further[1])}),
        sensors=table.sensors * (more[:, :1] / 900.0),
        commands=np.concatenate([more[:, :1], table.commands, more[:, 1:]], axis=1),
    )


@pytest.fixture(scope="module")
def grown(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that went on from the fleet on a machine with further commands."""
    out = tmp_path_factory.mktemp("grown") / "run"
    return train(commanded_by_more(), small_config(name="crossfeed"), out, pretrained=fleet, device="cpu").folder


def test_a_run_that_goes_on_reads_further_commands_too(grown: Path) -> None:
    model = open_model(grown, "cpu").model
    assert model.schema.command_names == ("feed_0", "feed_1", "turning_spindle_speed", "feed_override")
    table = commanded_by_more()
    history = np.concatenate([table.sensors[:8], table.commands[:8][:, [1, 2, 0, 3]]], axis=1)
    plan = np.tile(history[-1, -4:], (4, 1))
    for command in (2, 3):
        other = plan.copy()
        other[:, command] *= 0.5
        assert not np.allclose(model.forecast(history, plan).mean, model.forecast(history, other).mean, rtol=1e-5)


def test_a_model_with_further_commands_is_a_model_like_any_other(grown: Path, fleet: Path, tmp_path: Path) -> None:
    table = commanded_by_more()
    assert reproduce(grown, [table], pretrained=fleet / "model.safetensors").same
    judged = evaluate_opened(open_model(grown, "cpu"), table)
    assert judged.part == "test"
    assert np.isfinite(judged.scores["run"]["crps"])
    fitted = load(grown, "cpu")
    assert np.isfinite(fitted.forecast(table, "table", at=20.0).quantile(0.9)).all()
    adapted = adapt(fitted, replace(table, groups=tuple(replace(g, machine="other") for g in table.groups)), steps=1)
    again = load(adapted.save(tmp_path / "adapted.safetensors"), "cpu")
    assert again.schema.command_names == fitted.schema.command_names


@pytest.mark.parametrize("with_source", [False, True])
def test_adapting_takes_in_a_sensor_that_the_source_never_had(fleet: Path, tmp_path: Path, with_source: bool) -> None:
    """It was read without it, because there was no scale for it."""
    own, other = toy_table("own", seed=9), toy_table("other", seed=10)
    config = small_config(name="crossfeed")
    less = replace(
        own, schema=own.schema.model_copy(update={"sensors": own.schema.sensors[:4]}), sensors=own.sensors[:, :4]
    )
    run = train(less, config, tmp_path / "run", pretrained=fleet, device="cpu")
    louder = replace(other, sensors=other.sensors * [1.0, 1.0, 1.0, 1.0, 1000.0])
    new = own.schema.sensor_names[4]
    sources = [less] if with_source else []
    opened = open_model(run.model, "cpu")
    judged = evaluate_opened(opened, louder, sources=sources, new_sensors=True)
    assert judged.by_channel["run"][new].metrics["crps"] < 5.0, "judged in its own frame, not in amperes"
    assert evaluate_opened(opened, louder, sources=sources).sensors_not_read == (new,)
    adapted = adapt(load(run.model, "cpu"), louder, 0.3, steps=2, source=less if with_source else None)
    assert adapted.adaptation.sensors_taken_in == (new,)
    errors = adapted.adaptation.few_shot.fractions[-1].sensors
    assert set(errors) == set(own.schema.sensor_names)
    assert errors[new] < 5.0
    again = load(adapted.save(tmp_path / "adapted.safetensors"), "cpu")
    said = again.forecast(louder, "table", at=20.0)
    assert new in said.sensors
    assert np.isfinite(said.quantile(0.9)).all()
    assert run.summary["data"]["usual_scales"].keys() <= read_model_file(run.model).provenance["usual_scales"].keys()


def test_a_model_that_met_a_machine_is_kept_though_there_was_nothing_to_learn_from(fleet: Path, tmp_path: Path) -> None:
    """Runs too short to learn from left no model behind, although the message before said: adapt, then use it."""
    table, out = toy_table("own", seed=9), tmp_path / "met"
    table.write(tmp_path / "own.parquet")

    def adapted(model: Path, out: Path) -> str:
        asked = f"adapt {model} --table {tmp_path}/own.parquet --fractions 0,0.01 --device cpu --out {out}"
        return CliRunner().invoke(app, asked.split(), env={"COLUMNS": "200"}).output

    assert "1%: no complete window in the support" in adapted(fleet, out)
    assert np.isfinite(load(out, "cpu").forecast(table, "table", at=20.0).mean).all()
    assert "No model was kept: there was nothing to learn from." in adapted(out, tmp_path / "again")


def test_a_run_goes_on_from_a_run_that_went_on(grown: Path, tmp_path: Path) -> None:
    """The second time no command is new, and one that the machine lacks stands still."""
    result = train(toy_table("own", seed=9), small_config(name="crossfeed"), tmp_path / "run", pretrained=grown,
                   device="cpu")  # fmt: skip
    assert read_model_file(result.model).schema.command_names == open_model(grown, "cpu").model.schema.command_names


def test_a_run_that_went_on_is_judged_on_its_test_sessions_not_on_what_it_learned(fleet: Path, tmp_path: Path) -> None:
    table = stranger()
    result = train(table, small_config(name="crossfeed"), tmp_path / "own", pretrained=fleet, device="cpu")
    judged = evaluate_opened(open_model(result.model, "cpu"), table)
    assert judged.trained_on_this_table
    assert judged.part == "test"
    assert sorted(judged.runs) == sorted(split_table(table).test)


def test_commands_of_other_sizes_change_plan_and_history_by_one_factor() -> None:
    import torch

    from crossfeed.windows.draws import generator_draw
    from crossfeed.windows.machine_changes import MachineChanges, OtherMachines
    from tests.model.sensors.small import normaliser, windows

    batch, others = windows(), OtherMachines(MachineChanges(commands=0.5), normaliser(), "cpu")
    changed, gain_B1C = others(batch, generator_draw(torch.Generator().manual_seed(0)))
    zero_A = torch.from_numpy(normaliser().transform_commands(np.zeros((1, 3)))[0])
    factor_BTA = (changed.future_a_BTA - zero_A) / (batch.future_a_BTA - zero_A)
    torch.testing.assert_close(factor_BTA, factor_BTA[:, :1].expand_as(factor_BTA), rtol=1e-4, atol=1e-4)
    past_BKA = (changed.a_BKA - zero_A) / (batch.a_BKA - zero_A)
    torch.testing.assert_close(past_BKA[:, :1], factor_BTA[:, :1], rtol=1e-4, atol=1e-4)
    assert (factor_BTA.std(0) > 0.1).all()
    assert (gain_B1C == 1.0).all()


def with_speed(table: Table) -> Table:
    """The same machine, whose first command is the speed of a spindle."""
    speed = Channel(name="spindle_speed", quantity="rotational speed", unit="rpm")
    schema = table.schema.model_copy(update={"commands": (speed, *table.schema.commands[1:])})
    return replace(table, schema=schema)


def test_a_run_that_goes_on_remembers_speeds_nobody_drove_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [with_speed(toy_table(f"m{number}", seed=number)) for number in range(2)]
    many, other = train(tables, small_config(MANY, "crossfeed"), tmp_path / "many", device="cpu"), tmp_path / "other"
    own, config = with_speed(toy_table("own", seed=9)), small_config({"training.finetune_epochs": 2}, "crossfeed")
    whole = train(own, config, tmp_path / "whole", device="cpu", pretrained=many.model)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(own, config, other, device="cpu", pretrained=many.model, on_epoch=stop)
    resumed = train(own, config, other, device="cpu", pretrained=many.model, resume=True)
    weights, again = (read_model_file(result.model).tensors for result in (whole, resumed))
    assert all(torch.equal(value, again[name]) for name, value in weights.items())
    monkeypatch.setattr(known_changes, "SHARE", 0.0)
    forgetful = train(own, config, tmp_path / "forgetful", device="cpu", pretrained=many.model)
    assert any(
        not torch.equal(value, weights[name]) for name, value in read_model_file(forgetful.model).tensors.items()
    )
