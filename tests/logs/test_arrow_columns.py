"""Columns for pyarrow that are made without its converters."""

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.logs.parquet import column


@given(
    st.lists(st.none() | st.floats())
    | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))
    | st.lists(st.none() | st.text(st.characters(codec="utf-8")))
)
def test_a_column_is_the_one_that_pyarrow_would_have_made(values: list[float | str | None]) -> None:
    ours, theirs = column(values), pa.array(values)
    ours.validate(full=True)
    assert ours.type == theirs.type
    assert [value is None for value in ours.to_pylist()] == [value is None for value in values]
    same = (one == other or (math.isnan(one) and math.isnan(other)) for one, other in zip(ours.to_pylist(), values))
    assert all(found for found, value in zip(same, values) if value is not None)
