"""The commands themselves: what they print, what they write, how they fail."""

import json

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.cli.render.inputs import show_manifest
from crossfeed.logs.mapping import TEMPLATE
from crossfeed.logs.table import Table
from tests.typed import typed

runner = CliRunner()
PROGRAM = "/_N_MPF_DIR/_N_OPENER_MPF"


@pytest.fixture
def thws_log(make_thws_log):
    return make_thws_log([(t, 3, PROGRAM) for t in range(100)])


def test_ingest_writes_table_and_manifest_and_prints_a_summary(thws_log, tmp_path) -> None:
    out = tmp_path / "source.parquet"
    result = runner.invoke(app, ["ingest", "thws", str(thws_log), str(out)])
    assert result.exit_code == 0, result.output
    assert "100 raw rows -> 100 kept rows -> 100 rows of 1 s; 1 session in 1 run;" in result.output.replace("\n", " ")
    assert "spindle_dc_voltage" in result.output
    assert len(Table.read(out)) == 100
    assert (tmp_path / "source.manifest.json").exists()
    shown = runner.invoke(app, ["data", "show", str(out)])
    assert "100 raw rows" in shown.output


@pytest.mark.parametrize(("count", "dropped", "repaired"), [(1, "1 row", "once"), (1204, "1,204 rows", "1,204 times")])
def test_counts_stood_before_reasons_they_did_not_count(thws_log, tmp_path, capsys, count, dropped, repaired) -> None:
    """It said "repairs: 4 file read as latin-1" and "dropped rows: 20 State is not 3"."""
    out = tmp_path / "source.parquet"
    runner.invoke(app, ["ingest", "thws", str(thws_log), str(out)])
    manifest = Table.read(out).manifest
    manifest["counts"]["dropped_rows"] = {"State is not 3": count}
    show_manifest(manifest | {"repairs": {"file read as latin-1": count}})
    shown = capsys.readouterr().out
    assert f"  {dropped} dropped: State is not 3\n  repaired {repaired}: file read as latin-1\n" in shown


def test_channels_that_were_not_measured_stand_on_one_line(make_thws_log, tmp_path) -> None:
    log, out = make_thws_log([(t, 3, PROGRAM) for t in range(100)]), tmp_path / "source.parquet"
    ingest = runner.invoke(app, ["ingest", "thws", str(log), str(out)])
    table = Table.read(out)
    assert "not measured" not in ingest.output
    for name in ("x_torque", "y_torque"):
        table.manifest["channels"][name] = {"role": "sensor", "unit": "N m", "count": 0, "null_share": 1.0}
    table.write(out)
    shown = runner.invoke(app, ["data", "show", str(out)]).output
    assert "not measured: x_torque, y_torque" in shown
    assert "100.0%" not in shown


def test_json_is_the_manifest_and_options_arrive(thws_log, tmp_path) -> None:
    out = tmp_path / "source.parquet"
    words = ["ingest", "thws", str(thws_log), str(out), "--json", "--rule", "paper", "--period", "2", "--std"]
    result = runner.invoke(app, [*words, "--machine", "m1"])
    manifest = json.loads(result.stdout)
    assert manifest == Table.read(out).manifest
    assert (manifest["machine"], manifest["rules"]["rule"], manifest["rules"]["period_s"]) == ("m1", "paper", 2.0)
    assert len(Table.read(out).extras) == 17


def test_an_error_is_a_sentence_and_not_a_traceback(tmp_path) -> None:
    result = typed("ingest", "thws", tmp_path / "none.csv", tmp_path / "o.parquet")
    assert result.returncode == 2
    assert "error: There is nothing at" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "o.parquet").exists()


def test_the_output_must_be_parquet(thws_log, tmp_path) -> None:
    assert runner.invoke(app, ["ingest", "thws", str(thws_log), str(tmp_path / "out.csv")]).exit_code == 2


def test_the_template_goes_to_standard_output() -> None:
    assert runner.invoke(app, ["data", "template"]).stdout == TEMPLATE


def test_kinds_are_listed_and_shown_with_derived_factors() -> None:
    listed = runner.invoke(app, ["data", "list"]).output
    assert all(name in listed for name in ("thws", "joanneum", "michigan", "mtconnect", "table"))
    shown = runner.invoke(app, ["data", "show", "joanneum"]).output
    assert "Not for commercial use" in shown
    assert "0.166667" in shown


def test_a_foreign_table_can_be_shown(tmp_path) -> None:
    import polars as pl

    path = tmp_path / "foreign.parquet"
    pl.DataFrame({"time": [0.0, 1.0], "spindle_current": [1.0, 2.0], "feed_x": [1.0, 2.0]}).write_parquet(path)
    assert "not made by crossfeed" in runner.invoke(app, ["data", "show", str(path)]).output


def test_nothing_is_fetched_before_the_licence_is_accepted(tmp_path) -> None:
    refused = runner.invoke(app, ["data", "fetch", "joanneum", "--to", str(tmp_path / "d")], input="n\n")
    assert refused.exit_code != 0
    assert "CC BY-NC" in refused.output
    assert not (tmp_path / "d").exists()
