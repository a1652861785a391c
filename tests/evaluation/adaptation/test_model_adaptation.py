"""Adapting a model file: tables, files that load again, refusals, and the command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import CheckpointError, ConfigError
from crossfeed.evaluation.adaptation.fewshot import FewShotConfig, parse_fractions
from crossfeed.evaluation.adaptation.model_adaptation import adapt_model, fewshot_or_online
from crossfeed.evaluation.adaptation.online import OnlineConfig
from crossfeed.evaluation.adaptation.result import AdaptationResult
from crossfeed.evaluation.judge import evaluate
from crossfeed.evaluation.opened_model import open_model
from crossfeed.files import read_sealed
from crossfeed.logs.table import Table
from tests.evaluation.conftest import TrainedRun


def test_few_shot_and_online_reports_and_the_adapted_files(trained_run: TrainedRun, tmp_path: Path) -> None:
    result = adapt_model(
        open_model(trained_run.folder, "cpu"),
        Table.read(trained_run.target),
        fewshot=FewShotConfig(fractions=(0.0, 0.05, 0.3), steps=20, learning_rate=1e-3),
        streaming=OnlineConfig(every=16, learning_rate=1e-3),
        out=tmp_path,
    ).result
    content = result.to_dict()
    assert AdaptationResult.from_dict(content).to_dict() == content
    zero, tiny, support = content["few_shot"]["fractions"]
    assert zero["rmse_ratio"]["estimate"] == 1.0
    assert tiny["remark"].startswith("no complete window")
    assert tiny["metrics"]["rmse"] == zero["metrics"]["rmse"]
    assert support["updates"] == 20
    assert support["metrics"]["nll"] < zero["metrics"]["nll"]
    assert content["online"]["zero_shot"]["count"] == content["online"]["online"]["count"]
    assert set(content["online"]["tracked_coverage"]) == {"0.5", "0.8", "0.9", "0.95"}
    assert read_sealed(tmp_path / "adaptation.json") == content
    assert content["models"] == [str(tmp_path / f"{name}.safetensors") for name in ("few_shot", "online_lathe")]
    with pytest.raises(CheckpointError, match=r"holds 2 models: few_shot\.safetensors, online_lathe\.safetensors"):
        open_model(tmp_path, "cpu")
    for name in ("few_shot", "online_lathe"):
        adapted = open_model(tmp_path / f"{name}.safetensors", "cpu")
        assert adapted.provenance["adapted"]["from"] == open_model(trained_run.folder, "cpu").sha256
        assert adapted.sha256 != content["model"]["sha256"]
    evaluate(tmp_path / "few_shot.safetensors", trained_run.target, device="cpu")


def test_the_table_of_training_is_nothing_to_adapt_to(trained_run: TrainedRun) -> None:
    with pytest.raises(ConfigError, match="trained on this very table"):
        adapt_model(open_model(trained_run.folder, "cpu"), Table.read(trained_run.source), fewshot=FewShotConfig())


def test_each_way_of_adapting_keeps_its_defaults() -> None:
    fewshot, none = fewshot_or_online((0.0, 0.2), False, "head", None, 1e-4, 3)
    assert none is None
    assert (fewshot.steps, fewshot.mode, fewshot.seed, fewshot.fractions) == (50, "head", 3, (0.0, 0.2))
    assert fewshot.loss == "likelihood"
    theirs, _ = fewshot_or_online((0.0, 0.2), False, "head", None, 1e-4, 3, "paper")
    assert (theirs.loss, theirs.query) == ("squared", "each")
    with pytest.raises(ConfigError, match="under the protocol 'paper', which has none"):
        fewshot_or_online((0.0,), True, "all", 5, 1e-3, 0, "paper")
    none, streaming = fewshot_or_online((0.0,), True, "all", 5, 1e-3, 0)
    assert none is None
    assert (streaming.steps, streaming.learning_rate) == (5, 1e-3)
    with pytest.raises(ConfigError, match="learning_rate"):
        fewshot_or_online((0.0,), False, "head", None, -1.0, 0)


def test_fractions_that_are_no_numbers_are_refused() -> None:
    assert parse_fractions("0, 0.05,0.2") == (0.0, 0.05, 0.2)
    with pytest.raises(ConfigError, match="'0,x' is no list of fractions"):
        parse_fractions("0,x")


def test_the_command_prints_both_ways(trained_run: TrainedRun) -> None:
    arguments = ["adapt", str(trained_run.folder), "--table", str(trained_run.target), "--device", "cpu"]
    few = CliRunner().invoke(app, [*arguments, "--fractions", "0,0.05,0.3", "--steps", "2"], env={"COLUMNS": "200"})
    assert few.exit_code == 0, few.output
    assert "Few-shot (predictor)" in few.output
    assert "5%: no complete window in the support" in few.output
    assert "No model was kept: give --out FOLDER" in few.output
    stream = CliRunner().invoke(app, [*arguments, "--online", "--steps", "1"], env={"COLUMNS": "200"})
    assert stream.exit_code == 0, stream.output
    assert "prequential" in stream.output


def test_adapt_tells_where_its_model_lies_and_the_folder_is_enough_for_what_follows(
    trained_run: TrainedRun, tmp_path: Path
) -> None:
    arguments = ["adapt", str(trained_run.folder), "--table", str(trained_run.target), "--device", "cpu"]
    few = CliRunner().invoke(app, [*arguments, "--fractions", "0,0.3", "--steps", "2", "--out", str(tmp_path)])
    assert f"model: {tmp_path / 'few_shot.safetensors'}" in few.output.replace("\n", "")
    assert open_model(tmp_path, "cpu").path.name == "few_shot.safetensors"
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "adapted.to.machines" in shown.output
