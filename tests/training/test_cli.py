"""`crossfeed train` and `crossfeed inspect` as a user calls them."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import CheckpointError, ConfigError
from crossfeed.model.model_file import read_model_file
from tests.training.conftest import SMALL_SENSORS, toy_table
from tests.typed import as_words


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run made on the command line, and what it printed."""
    folder = tmp_path_factory.mktemp("cli")
    toy_table().write(folder / "source.parquet")
    toy_table("second", seed=3, absent=("current_4",)).write(folder / "other.parquet")
    (folder / "small.yaml").write_text(json.dumps(SMALL_TREE))
    result = CliRunner().invoke(app, arguments(folder), catch_exceptions=False, env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return folder, result.stdout


SMALL_TREE: dict[str, object] = {}
for _name, _value in SMALL_SENSORS.items():
    *_parents, _last = _name.split(".")
    _place: dict = SMALL_TREE
    for _parent in _parents:
        _place = _place.setdefault(_parent, {})
    _place[_last] = _value


def arguments(folder: Path) -> list[str]:
    tables = ["--table", str(folder / "source.parquet"), "--table", str(folder / "other.parquet")]
    options = [
        "--size",
        "tiny",
        "--config",
        str(folder / "small.yaml"),
        "--set",
        "training.finetune_epochs=1",
        "--quiet",
    ]
    return ["train", *tables, "--out", str(folder / "run"), *options]


def test_train_ends_with_the_floors(trained: tuple[Path, str]) -> None:
    folder, printed = trained
    for word in ("crossfeed", "persistence", "linear drift", "shuffled commands", "RMSE, 4 ahead", "coverage of 90 %"):
        assert word in printed
    assert "finetune: epoch 1 of 1 kept" in printed
    assert str(folder / "run" / "model.safetensors") in printed


def test_train_refuses_the_same_folder_and_resumes_without_repeating_options(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    with pytest.raises(ConfigError, match="--resume"):
        CliRunner().invoke(app, arguments(folder), catch_exceptions=False)
    short = [*arguments(folder)[:7], "--resume", "--json", "--quiet"]
    result = CliRunner().invoke(app, short, catch_exceptions=False)
    assert json.loads(result.stdout)["data"]["machines"] == ["toy", "second"]


def test_a_budget_is_kept_and_said_before_the_first_epoch(trained: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = trained
    options = [*arguments(folder)[:-3], "--set", "training.finetune_epochs=8", "--budget", "quick"]
    options[options.index("--out") + 1] = str(tmp_path / "run")
    result = CliRunner().invoke(app, options, catch_exceptions=False)
    assert "finetune: 2 epochs of" in result.stderr
    assert "epoch 2 of 2 kept" in result.stdout or "epoch 1 of 2 kept" in result.stdout
    with pytest.raises(ConfigError, match="goes on with the budget it began with"):
        CliRunner().invoke(app, [*options, "--resume"], catch_exceptions=False)


def test_a_long_stage_says_how_long_it_will_take_and_a_short_one_does_not_time_itself(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = trained
    for steps, told in ((40, r"1 epoch of 40 steps, about \d+ (s|min|h) on cpu"), (39, "1 epoch of 39 steps on cpu")):
        brief = {"training.steps_per_epoch": steps, "training.batch_size": 2, "training.validation_windows": 8}
        options = [*arguments(folder)[:-1], *as_words(brief)]
        options[options.index("--out") + 1] = str(tmp_path / f"run-{steps}")
        said = CliRunner().invoke(app, options, catch_exceptions=False).stderr
        assert re.search(told, " ".join(said.split())), said


def test_misspelt_setting_names_the_right_one(tmp_path: Path) -> None:
    toy_table().write(tmp_path / "source.parquet")
    call = ["train", "--table", str(tmp_path / "source.parquet"), "--out", str(tmp_path / "run")]
    with pytest.raises(ConfigError, match=r"Did you mean training\.pretrain_epochs"):
        CliRunner().invoke(app, [*call, "--set", "training.pretrain_epoch=3"], catch_exceptions=False)
    with pytest.raises(ConfigError, match="no preset 'papers'"):
        CliRunner().invoke(app, [*call, "--preset", "papers"], catch_exceptions=False)
    with pytest.raises(ConfigError, match="no size 'huge'"):
        CliRunner().invoke(app, [*call, "--size", "huge"], catch_exceptions=False)


def test_inspect_shows_what_the_file_holds(trained: tuple[Path, str]) -> None:
    model = str(trained[0] / "run" / "model.safetensors")
    printed = CliRunner().invoke(app, ["inspect", model], catch_exceptions=False, env={"COLUMNS": "160"}).stdout
    for word in ("current_0", "feed_1", "decoder", "training.finetune_epochs", "fitted_on", "content"):
        assert word in printed
    content = json.loads(CliRunner().invoke(app, ["inspect", model, "--json"], catch_exceptions=False).stdout)
    assert (content["config"]["network"], content["config"]["width"]) == ("sensors", 16)
    assert content["parameters"]["encoder"] > content["parameters"]["decoder"] > 1000
    assert content["provenance"]["machines"] == ["toy", "second"]
    assert len(content["hashes"]["file"]) == 64
    assert [channel["name"] for channel in content["channels"]][-1] == "feed_1"


def test_inspect_takes_the_folder_of_a_run_and_names_an_empty_one(trained: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = trained
    assert CliRunner().invoke(app, ["inspect", str(folder / "run")]).exit_code == 0
    with pytest.raises(CheckpointError, match="There is no model in the folder"):
        CliRunner().invoke(app, ["inspect", str(tmp_path)], catch_exceptions=False)


def test_resume_on_nothing_says_that_a_new_run_begins(trained: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = trained
    words = [str(tmp_path / "new") if word == str(folder / "run") else word for word in arguments(folder)]
    begun = CliRunner().invoke(app, [*words, "--resume"], catch_exceptions=False)
    assert f"note: {tmp_path / 'new'} holds no run to go on with; a new one begins there" in begun.output
    again = CliRunner().invoke(app, [*words, "--resume"], catch_exceptions=False)
    assert "holds no run" not in again.output


def test_a_model_file_remembers_whether_it_listens_to_commands(trained: tuple[Path, str]) -> None:
    folder, _ = trained
    summary = json.loads((folder / "run" / "summary.json").read_text())
    told = read_model_file(folder / "run" / "model.safetensors").provenance["shuffled_command_ratio"]
    assert told == summary["validation"]["shuffled_command_ratio"]
