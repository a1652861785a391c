"""What a run begins with: the shipped model where it fits, what was asked for otherwise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import crossfeed as cf
from crossfeed.configuration import override
from crossfeed.front.fit import Pretrained, choose_pretrained
from crossfeed.logs.table import Table
from crossfeed.model.model_file import locate_model, read_model_file
from crossfeed.schema import Channel
from crossfeed.training.run_config import preset
from tests.front.conftest import mill

BRIEF = {
    "training.steps_per_epoch": 1,
    "training.finetune_epochs": 2,
    "training.batch_size": 4,
    "training.validation_windows": 8,
}


@pytest.fixture(scope="module")
def table() -> Table:
    return mill("mill", 0, sessions=10, rows=70)


def test_the_usual_run_on_one_machine_begins_with_the_shipped_model(table: Table) -> None:
    chosen = choose_pretrained("auto", preset("crossfeed"), [table], None)
    assert chosen.weights == "fleet"
    assert "already knows machines" in chosen.remark


@pytest.mark.parametrize(
    "asked", [preset("crossfeed", "tiny"), preset("paper"), override(preset(), {"model.members": 1}),
              override(preset(), {"data.normaliser": "robust"})],
)  # fmt: skip
def test_other_networks_begin_with_fresh_weights(asked: object, table: Table) -> None:
    assert choose_pretrained("auto", asked, [table], None) == Pretrained(None)  # type: ignore[arg-type]


def test_several_machines_begin_with_fresh_weights(table: Table) -> None:
    other = mill("lathe", 1, sessions=10, rows=70)
    assert choose_pretrained("auto", preset(), [table, other], None) == Pretrained(None)


PRESSURE = Channel(name="coolant_pressure", quantity="pressure", unit="bar")


def commanded_by(table: Table, *commands: Channel) -> Table:
    schema = table.schema.model_copy(update={"commands": commands})
    return replace(table, schema=schema, commands=np.abs(table.commands[:, : len(commands)]))


def test_a_command_that_the_shipped_model_does_not_know_is_not_lost(tmp_path: Path, table: Table) -> None:
    further = commanded_by(table, *table.schema.commands[:3], PRESSURE)
    assert choose_pretrained("auto", preset(), [further], None).weights == "fleet"
    fitted = cf.fit(further, out=tmp_path / "run", settings=BRIEF)
    assert fitted.schema.command_names == ("spindle_speed", "feed_x", "feed_y", "feed_z", "coolant_pressure")
    plan = dict(zip(further.schema.command_names, further.commands[:16].T, strict=True)) | {"feed_z": np.zeros(16)}
    louder = plan | {"coolant_pressure": plan["coolant_pressure"] + 200.0}
    one, other = (fitted.forecast(further, commands, at=40.0).mean for commands in (plan, louder))
    assert not np.array_equal(one, other)


def test_a_machine_without_any_command_that_it_knows_begins_with_fresh_weights(table: Table) -> None:
    chosen = choose_pretrained("auto", preset(), [commanded_by(table, PRESSURE)], None)
    assert chosen.weights is None
    assert "knows none of the commands" in chosen.remark


def test_a_log_that_the_shipped_model_expects_less_of_than_its_last_value_does_begins_with_fresh_weights(
    table: Table,
) -> None:
    """A lathe's log without the seconds between its cuts: speeds jumped, nothing braked, and training was held back."""
    steady = np.cumsum(0.01 * np.random.default_rng(1).normal(size=table.sensors.shape), axis=0)
    glued = replace(table, sensors=10.0 + steady)
    chosen = choose_pretrained("auto", preset(), [glued], None)
    assert chosen.weights is None
    assert "less of this log than its last value" in chosen.remark


def test_what_is_asked_for_is_taken(table: Table) -> None:
    assert choose_pretrained("none", preset(), [table], None) == Pretrained(None)
    assert choose_pretrained("own.safetensors", preset("paper"), [table], None) == Pretrained("own.safetensors")


def test_a_run_that_began_with_the_shipped_model_goes_on_without_being_told(tmp_path: Path, table: Table) -> None:
    """Smaller steps were made smaller again by every resume, so that the run was taken for another one."""
    begun = cf.fit(table, out=tmp_path / "run", settings=BRIEF)
    file = read_model_file(tmp_path / "run" / "model.safetensors")
    assert file.provenance["pretrained"] == read_model_file(locate_model("fleet")).sha256
    (tmp_path / "run" / "summary.json").unlink()
    again = cf.fit(table, out=tmp_path / "run", resume=True)
    assert again.opened.provenance["config"] == begun.opened.provenance["config"]
