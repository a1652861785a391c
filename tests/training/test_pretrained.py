"""A run that goes on from a model of many machines: its network, the own frame, further commands, what it keeps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from crossfeed.evaluation.judge import evaluate
from crossfeed.evaluation.opened_model import open_model
from crossfeed.front.fit import adapt
from crossfeed.front.fitted_model import load
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.schema import Channel
from crossfeed.training import pretrained, synthetic_plans
from crossfeed.training import run as stages
from crossfeed.training.reproduce import reproduce
from crossfeed.training.run import train
from crossfeed.windows.split import split_table
from tests.training.conftest import small_config, toy_table
from tests.training.many_machines import MANY, stranger


def test_a_run_that_goes_on_keeps_some_of_what_it_began_with(fleet: Path, tmp_path: Path) -> None:
    """Trained on one machine alone, weights forget the others: intervals held 86 % there instead of 94 %."""
    config = small_config({"training.finetune_epochs": 1, "training.average_decay": 0.0}, "crossfeed")
    steps: list[dict[str, torch.Tensor]] = []
    averaged = pretrained.average_with_pretrained

    def watched(model: torch.nn.Module, came: dict[str, torch.Tensor]) -> None:
        steps.append({name: value.clone() for name, value in model.state_dict().items()})
        averaged(model, came)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "average_with_pretrained", watched)
        gone = train(toy_table("own", seed=9), config, tmp_path / "run", device="cpu", pretrained=fleet)
    (learned,) = steps
    came, found = read_model_file(fleet / "model.safetensors").tensors, read_model_file(gone.model).tensors
    name = "network.head.linear.bias"
    assert not torch.equal(learned[name], came[name])
    torch.testing.assert_close(found[name], torch.lerp(learned[name], came[name], pretrained.PRETRAINED_SHARE))


def test_a_run_goes_on_from_it_with_its_network_and_the_own_frame(fleet: Path, tmp_path: Path) -> None:
    result = train(stranger(), small_config(name="crossfeed"), tmp_path / "own", pretrained=fleet, device="cpu")
    file = read_model_file(result.model)
    assert file.config == read_model_file(fleet / "model.safetensors").config
    assert not file.normaliser.is_placeholder
    assert file.schema.sensor_names == ("drive_u", "drive_v")
    assert file.provenance["row_period"] == 1.0
    assert result.summary["initialisation"]["how"] == "complete_checkpoint"
    assert open_model(result.model, "cpu").model.normaliser.method == "frame"
    before, after = (read_model_file(path).tensors for path in (fleet / "model.safetensors", result.model))
    assert any(not bool((before[name] == after[name]).all()) for name in before)


def test_it_learns_gently_whatever_was_asked_and_one_that_is_as_it_should_be_stays(fleet: Path) -> None:
    body = read_model_file(fleet / "model.safetensors")
    asked = small_config({"training.learning_rate": 0.01}, "crossfeed")
    taken = pretrained.finetuning_config(asked, body)
    assert taken.training.learning_rate == pytest.approx(0.003)
    assert (taken.model, taken.data.normaliser) == (body.config, "frame")
    assert pretrained.finetuning_config(taken, body) is taken
    half_way = asked.model_copy(
        update={"training": asked.training.model_copy(update={"initialisation": "complete_checkpoint"})}
    )
    assert half_way.model != body.config
    assert pretrained.finetuning_config(half_way, body).model == body.config


def test_a_network_that_knows_its_sensors_by_name_keeps_its_weights(tmp_path: Path) -> None:
    few = {"training.finetune_epochs": 1, "training.steps_per_epoch": 1}
    body = read_model_file(train(toy_table(), small_config(few, "crossfeed"), tmp_path / "run", device="cpu").model)
    assert pretrained.initial_weights(body.schema, body) is body.tensors


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
    judged = evaluate(open_model(grown, "cpu"), table)
    assert judged.part == "test"
    assert np.isfinite(judged.scores["run"]["crps"])
    fitted = load(grown, "cpu")
    assert np.isfinite(fitted.forecast(table, "table", at=20.0).quantile(0.9)).all()
    adapted = adapt(fitted, replace(table, groups=tuple(replace(g, machine="other") for g in table.groups)), steps=1)
    again = load(adapted.save(tmp_path / "adapted.safetensors"), "cpu")
    assert again.schema.command_names == fitted.schema.command_names


def test_a_run_goes_on_from_a_run_that_went_on(grown: Path, tmp_path: Path) -> None:
    """The second time no command is new, and one that the machine lacks stands still."""
    result = train(toy_table("own", seed=9), small_config(name="crossfeed"), tmp_path / "run", pretrained=grown,
                   device="cpu")  # fmt: skip
    assert read_model_file(result.model).schema.command_names == open_model(grown, "cpu").model.schema.command_names


def test_a_run_that_went_on_is_judged_on_its_test_sessions_not_on_what_it_learned(fleet: Path, tmp_path: Path) -> None:
    table = stranger()
    result = train(table, small_config(name="crossfeed"), tmp_path / "own", pretrained=fleet, device="cpu")
    judged = evaluate(open_model(result.model, "cpu"), table)
    assert judged.trained_on_this_table
    assert judged.part == "test"
    assert sorted(judged.runs) == sorted(split_table(table).test)


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
    monkeypatch.setattr(synthetic_plans, "SHARE", 0.0)
    forgetful = train(own, config, tmp_path / "forgetful", device="cpu", pretrained=many.model)
    assert any(
        not torch.equal(value, weights[name]) for name, value in read_model_file(forgetful.model).tensors.items()
    )
