"""What a run begins with: the shipped model where it fits, what was asked for otherwise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import crossfeed as cf
from crossfeed.configuration import override
from crossfeed.front.beginning import beginning
from crossfeed.ingest.table import Table
from crossfeed.model.locate import locate_model
from crossfeed.model.model_file import read_model_file
from crossfeed.schema import Channel, canonical
from crossfeed.training.run_config import preset
from tests.windows.tables import random_table

BRIEF = {
    "training.steps_per_epoch": 1,
    "training.finetune_epochs": 2,
    "training.batch_size": 4,
    "training.validation_windows": 8,
}


@pytest.fixture(scope="module")
def table() -> Table:
    return random_table([70] * 10, schema=canonical(), programs=["part"] * 10)


def test_the_usual_run_on_one_machine_begins_with_the_shipped_model(table: Table) -> None:
    assert beginning("auto", preset("crossfeed"), [table], None) == "fleet"


@pytest.mark.parametrize(
    "asked", [preset("crossfeed", "tiny"), preset("paper"), override(preset(), {"model.members": 1}),
              override(preset(), {"data.normaliser": "robust"})],
)  # fmt: skip
def test_other_networks_begin_with_fresh_weights(asked: object, table: Table) -> None:
    assert beginning("auto", asked, [table], None) is None  # type: ignore[arg-type]


def test_several_machines_begin_with_fresh_weights(table: Table) -> None:
    other = random_table([70] * 10, schema=canonical(), machine="lathe")
    assert beginning("auto", preset(), [table, other], None) is None


PRESSURE = Channel(name="coolant_pressure", quantity="pressure", unit="bar")


def commanded_by(table: Table, *commands: Channel) -> Table:
    schema = table.schema.model_copy(update={"commands": commands})
    return replace(table, schema=schema, commands=np.abs(table.commands[:, : len(commands)]))


def test_a_command_that_the_shipped_model_does_not_know_is_not_lost(tmp_path: Path, table: Table) -> None:
    further = commanded_by(table, *table.schema.commands[:3], PRESSURE)
    assert beginning("auto", preset(), [further], None) == "fleet"
    fitted = cf.fit(further, out=tmp_path / "run", settings=BRIEF)
    assert fitted.schema.command_names == ("spindle_speed", "feed_x", "feed_y", "feed_z", "coolant_pressure")
    plan = dict(zip(further.schema.command_names, further.commands[:16].T, strict=True)) | {"feed_z": np.zeros(16)}
    louder = plan | {"coolant_pressure": 3.0 * plan["coolant_pressure"]}
    one, other = (fitted.forecast(further, commands, at=40.0).mean for commands in (plan, louder))
    assert not np.array_equal(one, other)


def test_a_machine_without_any_command_that_it_knows_begins_with_fresh_weights(table: Table) -> None:
    assert beginning("auto", preset(), [commanded_by(table, PRESSURE)], None) is None


def test_what_is_asked_for_is_taken(table: Table) -> None:
    assert beginning("none", preset(), [table], None) is None
    assert beginning("own.safetensors", preset("paper"), [table], None) == "own.safetensors"


def test_a_run_that_began_with_the_shipped_model_goes_on_without_being_told(tmp_path: Path, table: Table) -> None:
    """Smaller steps were made smaller again by every resume, so that the run was taken for another one."""
    begun = cf.fit(table, out=tmp_path / "run", settings=BRIEF)
    file = read_model_file(tmp_path / "run" / "model.safetensors")
    assert file.provenance["pretrained"] == read_model_file(locate_model("fleet")).sha256
    (tmp_path / "run" / "summary.json").unlink()
    again = cf.fit(table, out=tmp_path / "run", resume=True)
    assert again.opened.provenance["config"] == begun.opened.provenance["config"]
