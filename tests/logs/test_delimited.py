"""Files as controllers and spreadsheets write them: each oddity read rightly, counted, or refused."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import LogError
from crossfeed.logs.declaration import NativeColumn
from crossfeed.logs.delimited import _read_quickly, parse_numbers, read_log, read_whole, sniff

COLUMNS = (NativeColumn("Value A", "a", "A"), NativeColumn("b", "b", "A"))


@pytest.fixture
def read(tmp_path):
    def run(content: bytes, texts=()):
        path = tmp_path / "log.csv"
        path.write_bytes(content)
        return read_log(path, COLUMNS, texts=texts)

    return run


def test_a_plain_file(read) -> None:
    frame, repairs = read(b"x,Value A,b\n0,1.5,2\n1,,3\n")
    assert frame.to_dict(as_series=False) == {"a": [1.5, None], "b": [2.0, 3.0]}
    assert repairs == {}


def test_names_are_matched_ignoring_case_and_blanks(read) -> None:
    frame, _ = read(b" value a ,B\n1,2\n")
    assert frame.rows() == [(1.0, 2.0)]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_with_other_separators(read, separator) -> None:
    frame, repairs = read(f"Value A{separator}b\n1,5{separator}-2,25\n3{separator}4\n".encode())
    assert frame.rows() == [(1.5, -2.25), (3.0, 4.0)]
    assert repairs == {}


def test_decimal_commas_that_begin_far_down_are_read_and_counted(read) -> None:
    frame, repairs = read(b"Value A;b\n" + b"0;0\n" * 30_000 + b"1,5;2\n")
    assert frame.row(-1) == (1.5, 2.0)
    assert repairs == {"a: decimal comma among decimal points": 1}


def test_quoted_decimal_commas_between_commas(read) -> None:
    frame, _ = read(b'Value A,b\n"1,5","2,5"\n"3,0",4\n')
    assert frame.rows() == [(1.5, 2.5), (3.0, 4.0)]


def test_separators_after_the_last_column_hid_the_header_behind_decimal_commas(tmp_path) -> None:
    path = tmp_path / "robot.csv"
    numbers = ";".join("0,25" for _ in range(18))
    names = ";".join(f"Current_J{number}" for number in range(18))
    rows = [f"{row};2022-10-26T08:17:{row:02d}.847Z;{numbers}{';' * 11}" for row in range(20)]
    path.write_text("\n".join([f"Num;Timestamp;{names}{';' * 11}", *rows]) + "\n")
    dialect = sniff(path)
    assert (dialect.separator, dialect.decimal_comma, dialect.skip) == (";", True, 0)
    assert dialect.header[:3] == ("Num", "Timestamp", "Current_J0")


def test_rows_of_decimal_commas_alone_were_taken_for_names(tmp_path) -> None:
    path = tmp_path / "long.csv"
    names = ";".join(f"n{number}" for number in range(24))
    path.write_text("\n".join([names, *([";".join(["1,5"] * 24)] * 30)]) + "\n")
    dialect = sniff(path)
    assert (dialect.separator, dialect.decimal_comma, dialect.skip) == (";", True, 0)


def test_decimal_commas_that_cannot_be_told_from_separators_are_refused(read) -> None:
    with pytest.raises(LogError, match=r"Line 2 .* has 4 cells under 2 column names"):
        read(b"Value A,b\n1,5,2,5\n")


def test_a_byte_order_mark_is_no_part_of_the_first_name(read) -> None:
    frame, repairs = read(b"\xef\xbb\xbfValue A,b\n1,2\n")
    assert frame.rows() == [(1.0, 2.0)]
    assert repairs == {}


def test_latin_1_and_utf_16_are_read_and_counted(read) -> None:
    frame, repairs = read("Value A,b,Grad\n1,2,°C\n".encode("latin-1"), texts=["Grad"])
    assert frame["@Grad"].to_list() == ["°C"]
    assert repairs == {"file read as latin-1": 1}
    frame, repairs = read("Value A,b\n1,2\n".encode("utf-16"))
    assert frame.rows() == [(1.0, 2.0)]
    assert repairs == {"file read as utf-16": 1}


def test_latin_1_far_down_in_a_file_that_began_as_utf_8(read) -> None:
    body = b"Value A,b,note\n" + b"1,2,ok\n" * 20_000 + "3,4,Öl\n".encode("latin-1")
    frame, repairs = read(body, texts=["note"])
    assert frame.height == 20_001
    assert frame["@note"][-1] == "Öl"
    assert repairs == {"file read as latin-1": 1}


def test_text_in_a_numeric_column_becomes_null_and_is_counted(read) -> None:
    frame, repairs = read(b"Value A,b\n1,2\nERROR,3\n4,N/A\n, 5 \n")
    assert frame.rows() == [(1.0, 2.0), (None, 3.0), (4.0, None), (None, 5.0)]
    assert repairs == {"a: text in a numeric column": 1}


def test_a_line_cut_off_in_the_middle_is_dropped_and_counted(read) -> None:
    frame, repairs = read(b"Value A,b\n1,2\n3")
    assert frame.rows() == [(1.0, 2.0)]
    assert repairs == {"last line cut short, dropped": 1}


def test_windows_line_ends_and_a_missing_last_newline(read) -> None:
    frame, repairs = read(b"Value A,b\r\n1,2\r\n3,4")
    assert frame.rows() == [(1.0, 2.0), (3.0, 4.0)]
    assert repairs == {}


@pytest.mark.parametrize("content", [b"", b"\n\n", b"   "])
def test_an_empty_file_is_refused(read, content) -> None:
    with pytest.raises(LogError, match="is empty"):
        read(content)


def test_a_file_with_a_header_and_no_rows_is_refused(read) -> None:
    with pytest.raises(LogError, match="header but no rows"):
        read(b"Value A,b\n")


def test_a_missing_column_names_the_nearest_one(read) -> None:
    with pytest.raises(LogError, match=r"no column 'Value A' \(did you mean 'Valve A'\?\)"):
        read(b"Valve A,b\n1,2\n")


def test_two_columns_that_differ_in_case_only_are_refused(read) -> None:
    with pytest.raises(LogError, match="several columns for 'Value A'"):
        read(b"VALUE A,value a,b\n1,2,3\n")


def test_a_file_with_one_column_is_refused(read) -> None:
    with pytest.raises(LogError, match="one column"):
        read(b"hello\nworld\n")


def test_a_first_line_longer_than_the_part_that_is_looked_at(read) -> None:
    names = ",".join(f"column {number}" for number in range(8_000))
    frame, _ = read(f"Value A,b,{names}\n".encode() + b"1,2" + b"," * 8_000 + b"\n")
    assert frame.rows() == [(1.0, 2.0)]


def test_a_first_line_that_never_ends_is_refused(read) -> None:
    with pytest.raises(LogError, match=r"first line of .* more than 4,194,304 bytes"):
        read(b"Value A,b," + b"x," * 2_200_000 + b"\n1,2\n")


def test_thousands_dots_made_a_column_absent(read) -> None:
    frame, repairs = read(b"Value A;b\n1.234,5;2\n999,5;2.000\n2.000;3,5\n-12.345.678,25;4\n")
    assert frame["a"].to_list() == [1234.5, 999.5, 2000.0, -12345678.25]
    assert frame["b"].to_list() == [2.0, 2.0, 3.5, 4.0]
    assert repairs == {"a: signs between thousands removed": 3}


@pytest.mark.parametrize("cell", ["1,234.5", "1'234.5", "1 234,5", "1\u00a0234,5"])
def test_other_signs_between_thousands(read, cell) -> None:
    frame, _ = read(f"Value A;b\n{cell};2\n".encode())
    assert frame.rows() == [(1234.5, 2.0)]


def test_an_unclosed_quote_is_told_with_its_line(read) -> None:
    with pytest.raises(LogError, match=r"opens in line 3 of .* is never closed"):
        read(b'Value A,b\n1,2\n"3,4\n5,6\n')
    with pytest.raises(LogError, match=r"opens in line 2 of .* is never closed"):
        read(b'Value A,b,note\n1,2,"left open\n3,4,\n')


def test_a_column_without_a_single_number_was_absent_with_exit_code_0(read) -> None:
    with pytest.raises(LogError, match=r"No entry of the column 'b' .* the first is 'five'"):
        read(b"Value A,b\n1,five\n2,\n3,six\n")


@pytest.mark.parametrize(
    "before", [b"sep=;\n", b'"sep=;"\r\n', b"Machine: DMU 50\nExported;2024-03-12\n\n", b"DMU 50;;\n"]
)
def test_lines_before_the_header(read, before) -> None:
    frame, repairs = read(before + b"t;Value A;b\n0;1,5;2\n1;2,5;3\n2;3,5;4\n")
    assert frame.rows() == [(1.5, 2.0), (2.5, 3.0), (3.5, 4.0)]
    assert repairs == {}


@pytest.mark.parametrize(
    ("begin", "words"),
    [(b"PK\x03\x04", "Excel"), (b"\xd0\xcf\x11\xe0", "old Excel"), (b"\x1f\x8b", "gzip"), (b"PAR1", "Parquet")],
)
def test_files_that_are_no_text_are_named(read, begin, words) -> None:
    with pytest.raises(LogError, match=rf"{words}.*not text[\s\S]*save the sheet as CSV"):
        read(begin + bytes(range(256)))


@given(
    rows=st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(-1000, 1000)), min_size=1, max_size=30),
    separator=st.sampled_from([",", ";", "\t"]),
    comma=st.booleans(),
)
@settings(max_examples=50)
def test_numbers_survive_any_dialect(tmp_path_factory, rows, separator, comma) -> None:
    path = tmp_path_factory.mktemp("dialect") / "log.csv"
    lines = [separator.join(["Value A", "b"])]
    for first, second in rows:
        number = f"{first:.6f}"
        if comma:
            number = number.replace(".", ",")
            number = f'"{number}"' if separator == "," else number
        lines.append(f"{number}{separator}{second}")
    path.write_text("\n".join(lines) + "\n")
    frame, repairs = read_log(path, COLUMNS)
    assert repairs == {}
    assert sniff(path).decimal_comma == comma
    for found, wanted in zip(frame.rows(), rows, strict=True):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_plain_files_were_read_as_text_cell_by_cell(tmp_path) -> None:
    """What is UTF-8 with points is parsed while it is scanned; other encodings are not handed to that scanner."""
    for number, (encoding, quick) in enumerate((("utf-8", True), ("latin-1", False))):
        path = tmp_path / f"{number}.csv"
        path.write_bytes("größe,Value A,b\n1,1.5,2\n2,3,4\n".encode(encoding))
        found = _read_quickly(path, sniff(path), {"a": "Value A", "b": "b"}, {})
        assert (found is not None) == quick
        frame, _ = read_log(path, COLUMNS)
        assert frame.rows() == [(1.5, 2.0), (3.0, 4.0)]


def test_all_rows_but_the_one_that_was_cut_short_are_kept(read) -> None:
    frame, repairs = read(b"Value A,b\n1,2\n3,4\n5,6\n7,8\n9")
    assert frame.rows() == [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (7.0, 8.0)]
    assert repairs == {"last line cut short, dropped": 1}


def test_a_column_is_of_numbers_where_every_cell_is_one_or_where_enough_are(tmp_path) -> None:
    path = tmp_path / "whole.csv"
    path.write_text("time,load,tool\n0,1.5,T1\n1,,T1\n2,off,T2\n3,2.5,T2\n")
    assert [str(kind) for kind in read_whole(path).dtypes] == ["Float64", "String", "String"]
    assert read_whole(path, numeric_share=0.75)["load"].to_list() == [1.5, None, None, 2.5]
    assert str(read_whole(path, numeric_share=0.76)["load"].dtype) == "String"


def test_an_empty_cell_is_no_grouped_thousand() -> None:
    found = parse_numbers(pl.Series(["1.234,5", None, "2.000", "-", "7"]), commas=True, expected_commas=True)
    assert found.values.to_list() == [1234.5, None, 2000.0, None, 7.0]
    assert (found.grouped, found.late_commas, found.bad.to_list()) == (2, 0, [False] * 5)
    found = parse_numbers(pl.Series(["1,234.5", None, "2,000", "x"]), commas=False, expected_commas=False)
    assert found.values.to_list() == [1234.5, None, 2000.0, None]
    assert (found.grouped, found.bad.to_list()) == (2, [False, False, False, True])
    assert parse_numbers(pl.Series(["1 234", None, "a"]), commas=True, expected_commas=True).grouped == 1


def test_a_decimal_comma_before_three_digits_is_no_sign_of_thousands_unless_another_cell_proves_it() -> None:
    found = parse_numbers(pl.Series(["1,234", "2,5"]), commas=True, expected_commas=True)
    assert (found.values.to_list(), found.grouped) == ([1.234, 2.5], 0)
    both = parse_numbers(pl.Series(["1.234,5", "1,234.5"]), commas=True, expected_commas=True)
    assert both.grouped == 0, "a column that proves both is read in neither way"
    assert both.bad.to_list() == [True, True]
