"""Users' own logs through a mapping: CSV and Parquet, clear words for every mistake."""

import numpy as np
import polars as pl
import pytest

from crossfeed.errors import ConfigError, CrossfeedError, LogError, SchemaError
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.mapped_logs import mapped_format
from crossfeed.logs.mapping import TEMPLATE, Mapping
from crossfeed.logs.pipeline import ingest
from crossfeed.windows.split import split_table
from tests.logs.lathe import MAPPING, SCHEMA


def test_a_csv_log_in_other_units(described, log) -> None:
    table = ingest(described(), log)
    assert [(g.machine, g.run, len(g)) for g in table.groups] == [("lathe_3", "shift", 31), ("lathe_3", "shift", 31)]
    np.testing.assert_allclose(table.sensors[:30], [[20.0, 1.5]] * 30)
    assert table.commands[0, 0] == pytest.approx(800.0)
    assert table.manifest["repairs"] == {"load: outside 0 to 200 %": 1}


def test_one_long_recording_could_not_be_split(described, tmp_path) -> None:
    rows = np.arange(600)
    file = tmp_path / "long.csv"
    pl.DataFrame({"t": rows * 1000, "Load": rows % 90, "Power": 5.0, "n": 800.0}).write_csv(file)
    whole = ingest(described(), file)
    pieces = ingest(described(segmentation={"longest_s": 120}), file)
    assert [len(group) for group in whole.groups] == [600]
    assert [len(group) for group in pieces.groups] == [120] * 5
    assert len({group.session for group in pieces.groups}) == 5
    assert {group.run for group in pieces.groups} == {"long"}
    np.testing.assert_array_equal(pieces.sensors, whole.sensors)
    assert split_table(pieces).test


def test_segmentation_by_gap_state_and_length(described, log) -> None:
    table = ingest(described(segmentation={"gap_s": 5, "keep": {"State": 3}, "min_rows": 50}), log)
    assert [len(group) for group in table.groups] == [31]
    assert table.manifest["counts"]["dropped_rows"] == {"State is not 3": 20, "session shorter than 50 rows": 40}


def test_session_run_and_program_columns(described, log) -> None:
    table = ingest(described(session={"column": "Part"}, run={"column": "Part"}, program={"column": "Part"}), log)
    assert [(g.run, g.session, g.program) for g in table.groups] == [("a", "a", "a"), ("b", "b", "b")]
    by_state = ingest(described(session={"column": "Part"}), log)
    assert [g.session for g in by_state.groups] == ["shift-a", "shift-b"]


def test_columns_of_the_log_may_have_the_names_we_use_ourselves(described, log) -> None:
    table = ingest(described(program={"column": "clock"}), log)
    assert {group.program for group in table.groups} == {"x"}


def test_parquet_gives_the_same_table_as_csv(described, log) -> None:
    wanted = ingest(described(), log)
    pl.read_csv(log).write_parquet(log.with_suffix(".parquet"))
    log.unlink()
    assert ingest(described(), log.parent).fingerprint() == wanted.fingerprint()


def test_semicolons_and_decimal_commas(described, log) -> None:
    wanted = ingest(described(), log).fingerprint()
    text = log.read_text().replace(",", ";").replace(".", ",")
    log.write_text(text)
    assert ingest(described(), log).fingerprint() == wanted
    assert ingest(described(separator=";", decimal=","), log).fingerprint() == wanted


def test_several_files_and_a_glob(described, log) -> None:
    text = log.read_text()
    (log.parent / "second.csv").write_text(text)
    table = ingest(described(), log.parent / "*.csv")
    assert [group.run for group in table.groups] == ["second", "second", "shift", "shift"]


def test_text_in_a_parquet_column_is_counted(described, log) -> None:
    frame = pl.read_csv(log).with_columns(pl.Series("Power", ["1500.0"] * 119 + ["broken"]))
    frame.write_parquet(log.with_suffix(".parquet"))
    table = ingest(described(), log.with_suffix(".parquet"))
    assert table.manifest["repairs"]["power: text in a numeric column"] == 1


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"columns": [*MAPPING["columns"], MAPPING["columns"][0]]}, ConfigError, "twice: load"),
        (
            {"columns": [*MAPPING["columns"][:2], {"native": "n", "channel": "speed", "unit": "kW"}]},
            SchemaError,
            "'speed' is a rot",
        ),
        ({"columns": MAPPING["columns"][:2]}, ConfigError, "give no speed"),
        (
            {"columns": [*MAPPING["columns"], {"native": "x", "channel": "heat", "unit": "W"}]},
            SchemaError,
            "no channel 'heat'",
        ),
        ({"columns": [{"native": "x", "channel": "load", "unit": "%", "valid": [2, 1]}]}, ConfigError, "low < high"),
        ({"columns": None}, ConfigError, "columns: Field required"),
        ({"tiem": {"column": "t"}}, ConfigError, "tiem: Extra inputs"),
        ({"time": {"column": "t", "unit": "s", "format": "%H"}}, ConfigError, "not both"),
        ({"time": {}}, ConfigError, "either 'column'"),
        ({"time": {"column": "t", "every": "1 s"}}, ConfigError, "either 'column'"),
        ({"time": {"every": "1 s", "unit": "s"}}, ConfigError, "'every' stands alone"),
        ({"time": {"every": "5 furlongs"}}, ConfigError, "furlongs.*such as 0.1 s"),
        ({"time": {"every": "3 kW"}}, ConfigError, "such as 0.1 s"),
        ({"time": {"every": "0 s"}}, ConfigError, "at least a microsecond"),
        ({"period": -1}, ConfigError, "period"),
        ({"schema": "missing.yaml"}, SchemaError, "cannot be read"),
        ({"schema": SCHEMA | {"sensors": [{"name": "time", "quantity": "load", "unit": "%"}]}}, SchemaError, "'time'"),
    ],
)
def test_a_mapping_with_a_mistake_is_refused_in_words(described, changes, error, message) -> None:
    with pytest.raises(error, match=message):
        described(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"time": {"column": "tt", "unit": "ms"}}, r"no column 'tt' \(did you mean 't'"),
        ({"time": {"column": "Part"}}, "No entry of the column 'Part'"),
        ({"time": {"column": "t"}}, "No entry of the column 't'"),
        ({"time": {"column": "t", "unit": "furlongs"}}, "furlongs"),
        ({"segmentation": {"keep": {"State": 9}}}, "120 rows: State is not 9"),
    ],
)
def test_a_log_that_does_not_fit_its_mapping_is_refused(described, log, changes, message) -> None:
    with pytest.raises(CrossfeedError, match=message):
        ingest(described(**changes), log)


def test_empty_folders_and_broken_parquet_are_refused(described, tmp_path) -> None:
    (tmp_path / "void").mkdir()
    with pytest.raises(LogError, match="holds no logs"):
        ingest(described(), tmp_path / "void")
    (tmp_path / "void" / "x.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(LogError, match="cannot be read as Parquet"):
        ingest(described(), tmp_path / "void")


def test_the_template_is_a_valid_mapping_of_about_twenty_lines(tmp_path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(TEMPLATE, encoding="utf-8")
    assert mapped_format(path).machine == "mill_7"
    assert len(TEMPLATE.splitlines()) <= 21
    # Every key that a mapping understands occurs in the template, so that the template teaches all of them.
    for key in (field.alias or name for name, field in Mapping.model_fields.items()):
        assert f"{key}:" in TEMPLATE


def test_unknown_kinds_and_missing_or_needless_mappings_are_refused(tmp_path) -> None:
    with pytest.raises(LogError, match="did you mean 'joanneum'"):
        log_format_named("joaneum")
    with pytest.raises(ConfigError, match="need a mapping"):
        log_format_named("table")
    with pytest.raises(ConfigError, match="describe themselves"):
        log_format_named("thws", tmp_path / "mapping.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        log_format_named("table", tmp_path / "missing.yaml")


def test_a_machine_without_a_command_has_a_constant(described, log) -> None:
    columns = [*MAPPING["columns"][:2], {"constant": 0, "channel": "speed"}]
    table = ingest(described(columns=columns), log)
    assert (table.commands == 0.0).all()
    assert table.manifest["channels"]["speed"]["constant"] == 0.0
    twice = [*MAPPING["columns"][:2], {"constant": 50, "channel": "speed", "unit": "revolution/s"}]
    assert (ingest(described(columns=twice), log).commands == 3000.0).all()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([{"channel": "speed"}], "either 'native', the name of a column, or 'constant'"),
        ([{"native": "n", "constant": 0, "channel": "speed"}], "either 'native'"),
        ([{"native": "n", "channel": "speed"}], "'unit' of 'n' is missing"),
        ([{"constant": float("nan"), "channel": "speed"}], "finite"),
    ],
)
def test_a_column_is_either_logged_or_constant(described, columns, message) -> None:
    with pytest.raises(ConfigError, match=message):
        described(columns=[*MAPPING["columns"][:2], *columns])


def test_excel_workbooks_are_answered_with_the_way_to_csv(described, tmp_path) -> None:
    (tmp_path / "sheets").mkdir()
    (tmp_path / "sheets" / "shift.xlsx").write_bytes(b"PK\x03\x04 and more")
    for path in (tmp_path / "sheets", tmp_path / "sheets" / "shift.xlsx"):
        with pytest.raises(LogError, match=r"save .* sheet as CSV"):
            ingest(described(), path)
