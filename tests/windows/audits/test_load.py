"""Any table can be audited; what cannot be read is refused in words."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from crossfeed.errors import CrossfeedError, TableError
from crossfeed.windows.audits.load import load_case, meaning_of
from crossfeed.windows.audits.run import audit
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from tests.windows.tables import random_table, study_table


@pytest.mark.parametrize(
    ("name", "quantity", "role"),
    [
        ("X1_DCBusVoltage", "voltage", "sensor"),
        ("M1_CURRENT_FEEDRATE", "feed", "sensor"),
        ("M1_CURRENT_PROGRAM_NUMBER", None, "other"),
        ("S1_CommandVelocity", "rotational speed", "command"),
        ("CommandedSpeed_X1", "feed", "command"),
        ("CommandedSpeed_SP1", "rotational speed", "command"),
        ("Spindle_smoothed_active_power", "power", "sensor"),
        ("feed_x", "feed", "command"),
        ("Machining_Process", None, "other"),
        ("n_soll", "rotational speed", "command"),
        ("Xload", "load", "sensor"),
    ],
)
def test_names_tell_what_a_column_measures(name: str, quantity: str | None, role: str) -> None:
    found, _, own_role, _ = meaning_of(name)
    assert (found, own_role) == (quantity, role)


def test_a_unit_in_a_name_was_not_read() -> None:
    assert meaning_of("Spindle power [W]")[:2] == ("power", "W")


def test_german_csv_with_time_stamps_sessions_and_machines(tmp_path: Path) -> None:
    lines = ["Machine;Session;Time;Current_X1"]
    for machine in ("A", "B"):
        lines += [
            f"{machine};{i // 20};2024-03-12 08:00:{i:02d};{i * 0.5 + 0.25:.2f}".replace(".", ",") for i in range(40)
        ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="latin-1")
    case = load_case([tmp_path / "log.csv"])
    assert [subject.label for subject in case.subjects] == ["A", "B"]
    subject = case.subjects[1]
    assert (subject.period, len(subject.groups), subject.keyed) == (1.0, 2, True)
    np.testing.assert_allclose(subject.signals[0].values, np.arange(40) * 0.5 + 0.25)


def test_text_among_numbers_is_counted_and_a_text_column_left_alone(tmp_path: Path) -> None:
    cells = ["1.5", "error", "2.5", "", "3.5"]
    lines = ["time,Current_X1,Operator"] + [f"{i},{cell},Ann" for i, cell in enumerate(cells)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    signals = load_case([tmp_path / "log.csv"]).subjects[0].signals
    assert [signal.name for signal in signals] == ["Current_X1"]
    np.testing.assert_array_equal(signals[0].values, [1.5, np.nan, 2.5, np.nan, 3.5])
    report = audit([tmp_path / "log.csv"], only=["dead"])
    assert [finding.numbers["cells"] for finding in report.findings] == [1]


def test_a_foreign_parquet_file_is_audited(tmp_path: Path) -> None:
    table = study_table()
    frame = pl.DataFrame({"t": table.time, "Current_X1": table.sensors[:, 0], "Torque_X1": table.sensors[:, 1]})
    frame.write_parquet(tmp_path / "foreign.parquet")
    report = audit([tmp_path / "foreign.parquet"])
    assert "windows" in report.skipped
    assert any(finding.check == "clock" for finding in report.findings)


def test_a_foreign_table_with_canonical_names_gets_every_check(tmp_path: Path) -> None:
    table = study_table()
    columns = {name: table.sensors[:, i] for i, name in enumerate(table.schema.sensor_names)}
    columns |= {name: table.commands[:, i] for i, name in enumerate(table.schema.command_names)}
    sessions = [group.session for group in table.groups for _ in range(len(group))]
    pl.DataFrame({"time": table.time, "session": sessions, **columns}).write_parquet(tmp_path / "foreign.parquet")
    split = split_table(load_case([tmp_path / "foreign.parquet"]).tables[0])
    split.write(tmp_path / "split.json")
    report = audit([tmp_path / "foreign.parquet"], split=tmp_path / "split.json")
    assert {"windows", "split", "causality"} <= set(report.ran)


def test_two_files_of_one_machine_are_told_apart(tmp_path: Path) -> None:
    for seed in range(2):
        random_table([60] * 6, seed).write(tmp_path / f"{seed}.parquet")
    case = load_case([tmp_path / "0.parquet", tmp_path / "1.parquet"])
    assert [subject.label for subject in case.subjects] == ["mill (1)", "mill (2)"]


def test_a_normaliser_is_read_from_json_and_from_a_model_file(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    table = random_table([60] * 12)
    table.write(tmp_path / "table.parquet")
    normaliser = Normaliser.fit(split_table(table).train_rows(table))
    (tmp_path / "normaliser.json").write_text(normaliser.to_json())
    save_file({"w": np.zeros(1)}, tmp_path / "model.safetensors", {"normaliser": normaliser.to_json()})
    for name in ("normaliser.json", "model.safetensors"):
        assert load_case([tmp_path / "table.parquet"], normaliser=tmp_path / name).normaliser == normaliser


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("header.csv", b"time,Current_X1\n"),
        ("text.csv", b"a,b\nx,y\nz,w\n"),
        ("broken.parquet", b"PAR1 nothing"),
    ],
)
def test_files_that_are_no_tables_are_refused_in_words(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CrossfeedError):
        load_case([tmp_path / name])


def test_missing_files_and_damaged_companions_are_refused(tmp_path: Path) -> None:
    random_table([60] * 6).write(tmp_path / "table.parquet")
    table = tmp_path / "table.parquet"
    (tmp_path / "bad.json").write_text("[1")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "windows.csv").write_text("first,last\n0,1\n")
    (tmp_path / "bad.safetensors").write_bytes(b"12345678")
    with pytest.raises(TableError, match="no file"):
        load_case([tmp_path / "nowhere.parquet"])
    for companion in (
        {"split": tmp_path / "bad.json"},
        {"split": tmp_path / "list.json"},
        {"split": tmp_path / "nowhere.json"},
        {"normaliser": tmp_path / "bad.safetensors"},
        {"windows": tmp_path / "windows.csv"},
    ):
        with pytest.raises(CrossfeedError):
            load_case([table], **companion)
