"""The other commands of `crossfeed control`, as a user types them."""

import json

from typer.testing import CliRunner

from crossfeed.cli import app


def run(*words):
    result = CliRunner().invoke(app, ["control", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_log_is_collected_and_a_policy_judged(files, tmp_path):
    log = tmp_path / "log.csv"
    run("collect", "--program", files.program, "--runs", 30, "--stretch", 13, "--out", log)
    (tmp_path / "near.yaml").write_text("intercept: 1.01\nspread: 0.04\n")
    (tmp_path / "far.yaml").write_text("intercept: 1.2\nspread: 0.01\n")
    near = json.loads(run("judge", log, "--policy", tmp_path / "near.yaml", "--json"))
    assert near["low"] <= near["value"] <= near["high"]
    far = json.loads(run("judge", log, "--policy", tmp_path / "far.yaml", "--json"))
    assert far["value"] is None
    assert "refused" in run("judge", log, "--policy", tmp_path / "far.yaml")
