"""A plain file is read as the thorough reader reads it; everything else is left to that reader."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.machines.delimited import read_whole
from crossfeed.serving.plan_table import plain_columns

NUMBERS = st.one_of(
    st.integers(-(10**9), 10**9).map(str),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:.6f}"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
)


@given(
    rows=st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(NUMBERS, min_size=n, max_size=n), min_size=2)),
    ending=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
def test_a_plain_file_holds_what_the_thorough_reader_finds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], ending: str, last: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "plain.csv"
    names = ["time", "feed_x [mm/min]", "spindle_speed", "load"][: len(rows[0])]
    lines = [",".join(names), *(",".join(row) for row in rows)]
    path.write_bytes((ending.join(lines) + (ending if last else "")).encode())
    found, thorough = plain_columns(path), read_whole(path)
    assert found is not None
    assert list(found) == thorough.columns == names
    for name in names:
        np.testing.assert_array_equal(found[name], thorough[name].to_numpy())


@pytest.mark.parametrize(
    "text",
    [
        "", "a,b\n",
        "a;b\n1;2\n", "a,b\n1,\n", "a,b\n1,two\n", "a,b\n1,2,3\n", "a,b\n1\n", 'a,b\n"1",2\n', "1,2\n3,4\n",
        "a,a\n1,2\n", "a,b\n1,2\n\n3,4\n", "a,b\n1, 2\n", "a,b\n1,nan\n", "a, b\n1,2\n", "a,b\n1,2\x00\n", "ä,b\n1,2\n",
        "\ufeffa,b\n1,2\n", "a,b\r1,2\r", "a,b\n1.,2\n", "a,b\n1'000,2\n",
    ],
)  # fmt: skip
def test_anything_else_is_left_to_the_thorough_reader(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.csv").write_bytes(text.encode())
    assert plain_columns(tmp_path / "other.csv") is None


def test_a_large_file_and_a_missing_one_are_left_to_the_thorough_reader(tmp_path: Path) -> None:
    (tmp_path / "large.csv").write_bytes(b"a,b\n" + b"1,2\n" * 300_000)
    assert plain_columns(tmp_path / "large.csv") is None
    assert plain_columns(tmp_path / "missing.csv") is None
