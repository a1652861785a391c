"""Machines of any size and period in one run, and what its model is to a machine with other sensors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError
from crossfeed.evaluation.judge import evaluate
from crossfeed.evaluation.opened_model import open_model
from crossfeed.front.fit import adapt
from crossfeed.front.fitted_model import load
from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.model.new_machine import fit_to_machine
from crossfeed.training.run import train
from crossfeed.windows.frame import first_rows, fit_frame, usual_scales
from crossfeed.windows.split_tables import SplitTables
from tests.training.conftest import small_config, toy_table
from tests.training.many_machines import MANY, stranger


def test_machines_of_any_size_and_period_train_together(fleet: Path) -> None:
    file = read_model_file(fleet / "model.safetensors")
    assert file.normaliser.is_placeholder
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
    result = evaluate(open_model(fleet, "cpu", many_machines=True), stranger())
    assert set(result.by_channel["run"]) == {"drive_u", "drive_v"}
    assert np.isfinite(result.scores["run"]["crps"])
    assert set(result.absent_commands) == {"feed_0"}


def test_it_forecasts_from_a_table_alone(fleet: Path) -> None:
    said = load(fleet, "cpu").forecast(stranger(), "table", at=20.0)
    assert said.sensors == ("drive_u", "drive_v")
    assert np.isfinite(said.quantile(0.9)).all()


def test_size_does_not_matter_to_what_it_forecasts(fleet: Path) -> None:
    model, table = open_model(fleet, "cpu", many_machines=True).model, stranger()
    larger = replace(table, sensors=table.sensors * 40.0)
    said = []
    for rows in (table, larger):
        history = np.concatenate([rows.sensors[:8], np.zeros((8, 1)), rows.commands[:8]], axis=1)
        said.append(fit_to_machine(model, rows, usual={}).forecast(history, np.full((4, 2), 50.0)).mean)
    np.testing.assert_allclose(said[1], 40.0 * said[0], rtol=1e-3)


@pytest.mark.parametrize("with_source", [False, True])
def test_adapting_with_sensors_of_a_sensor_that_the_source_never_had(
    fleet: Path, tmp_path: Path, with_source: bool
) -> None:
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
    judged = evaluate(opened, louder, sources, new_sensors=True)
    assert judged.by_channel["run"][new].metrics["crps"] < 5.0, "judged in its own frame, not in amperes"
    assert evaluate(opened, louder, sources).sensors_not_read == (new,)
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
