"""A fleet without each of its machines in turn, from the command line to the table."""

import json
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.model.model_file import read_model_file
from crossfeed.study.study import Study
from crossfeed.training.run import train
from tests.study.conftest import InProcess, command
from tests.study.test_ready import ONE_STEP
from tests.training.conftest import small_config, toy_table
from tests.typed import as_words

FLEET = ("mill_a", "mill_b", "mill_c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three machines, each left out once; the third lacks a sensor."""
    place = tmp_path_factory.mktemp("fleet")
    words = ["ready", "leave-one-out", place / "study", "--size", "tiny", "--seeds", 1, "--shared", "current_0"]
    words += ["--protocol", "mended"]
    for number, machine in enumerate(FLEET):
        absent = ("current_3",) if number < 2 else ("current_4",)  # nobody but the third shows current_3
        toy_table(machine, sessions=8, rows=50, seed=number, absent=absent).write(place / f"{machine}.parquet")
        words += ["--source", place / f"{machine}.parquet"]
    words += as_words(ONE_STEP)
    shown = command(*words, engine=InProcess("cpu"))
    assert "leave-one-out: each machine" in shown
    assert all(machine in shown for machine in FLEET)
    return place / "study"


def test_every_machine_is_met_as_a_stranger_on_the_windows_on_which_it_is_known(folder: Path) -> None:
    study = Study(folder)
    lines = {line.machine: line for line in study.held_out()}
    assert set(lines) == set(FLEET)
    bundles = {run.candidate: run.outcome["bundle"] for run in study.store.runs("finished")}
    assert len(bundles) == 4
    for machine, line in lines.items():
        alone = bundles[f"leave-one-out.without_{machine}"]["by_machine"]
        known = bundles["leave-one-out.all_machines"]["by_machine"]
        assert [name for name in FLEET if alone[name]["left_out"]] == [machine]
        assert alone[machine]["windows"] == known[machine]["windows"]
        channels = [row for name, row in known[machine]["by_channel"].items() if name in alone[machine]["by_channel"]]
        squares = sum(row["count"] * row["rmse"] ** 2 for row in channels) / sum(row["count"] for row in channels)
        assert line.difference == pytest.approx(alone[machine]["rmse"] - squares**0.5)
        assert len(channels) == line.sensors
        # What it alone has, has no scale among the others.
        assert (alone[machine]["count"] < known[machine]["count"]) == (machine == "mill_c")
        assert 0.0 <= bundles[f"leave-one-out.without_{machine}"]["invariance"]["accuracy"] <= 1.0
    assert study.verify().problems == ()


def test_the_rows_of_a_machine_that_is_left_out_never_reach_the_run(folder: Path) -> None:
    place = folder / "runs" / "leave-one-out.without_mill_b-0"
    model = read_model_file(place / "model.safetensors")
    assert model.provenance["machines"] == ["mill_a", "mill_c"]
    assert len(model.provenance["tables"]) == 2
    summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["validation"]["by_machine"]) == {"mill_a", "mill_c"}


def test_the_same_fleet_can_be_contrasted_again_and_reported(folder: Path, tmp_path: Path) -> None:
    lines = json.loads(command("contrast", folder, "--json"))
    assert {line["machine"] for line in lines} == set(FLEET)
    from crossfeed.front.report.artefacts import gather
    from crossfeed.front.report.report import write_report

    written = write_report(gather(folder), tmp_path / "report")
    assert "contrasts" in written.sections
    assert (tmp_path / "report" / "tables" / "leave-one-out.csv").exists()


def test_a_fleet_of_one_and_a_machine_that_is_not_there_are_refused(tmp_path: Path) -> None:
    toy_table("alone").write(tmp_path / "alone.parquet")
    study = Study.init(tmp_path / "study", [tmp_path / "alone.parquet"], size="tiny", shared=["current_0"],
                       settings={"model.context": 8, "model.horizons": [1, 2]})  # fmt: skip
    with pytest.raises(ConfigError, match="none can be left out"):
        study.ready("leave-one-out", 1)
    with pytest.raises(ConfigError, match="leave_out names mill_x"):
        train(toy_table("alone"), small_config({"data.leave_out": ["mill_x"]}), tmp_path / "run", device="cpu")
