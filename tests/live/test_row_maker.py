"""Rows made while samples arrive are the rows that ingest makes of the whole log."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from crossfeed.live.row_maker import RowMaker, gap_samples, to_frame
from crossfeed.live.snapshot import Row
from crossfeed.live.source import ALIVE, CONNECTED, Sample
from crossfeed.logs.declaration import CLOCK, PROGRAM, LogFormat, NativeColumn, RawRun, Segmentation
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Table
from crossfeed.schema import Channel, Schema

BEGIN = 1_700_000_000_000_000
SCHEMA = Schema(
    name="two",
    sensors=(
        Channel(name="power", quantity="power", unit="kW"),
        Channel(name="temp", quantity="temperature", unit="degC"),
    ),
    commands=(Channel(name="speed", quantity="rotational speed", unit="rpm"),),
)


def _kind(samples: list[Sample], change_driven: bool, gap_s: float | None) -> LogFormat:
    columns = (NativeColumn("P", "power", "W"), NativeColumn("T", "temp", "degC"), NativeColumn("n", "speed", "rpm"))

    def read(kind: LogFormat, path: Path) -> Iterable[RawRun]:  # noqa: ARG001
        frame = to_frame(samples, kind)
        yield RawRun("run", frame, frame.height, ())

    return LogFormat(
        "two",
        "two",
        "mill",
        SCHEMA,
        columns,
        1.0,
        Segmentation(gap_s=gap_s),
        read,
        change_driven=change_driven,  # type: ignore[arg-type]
    )


def _ingested(kind: LogFormat, tmp: Path) -> Table:
    return ingest(kind, tmp)


def _final(maker: RowMaker, batches: list[list[Sample]]) -> dict[float, Row]:
    rows: dict[float, Row] = {}
    for batch in batches:
        for sample in batch:
            assert maker.add(sample)
        rows |= {row.time: row for row in maker.rows()}
    return rows


@st.composite
def _log(draw: st.DrawFn, change_driven: bool) -> tuple[list[Sample], list[list[Sample]]]:
    """Samples in time order, and the same as they arrived: in batches, some of them up to two seconds late."""
    steps = draw(st.lists(st.integers(1, 30), min_size=5, max_size=25))
    clock, samples = BEGIN, []
    for step in steps:
        clock += step * 100_000
        names = draw(st.lists(st.sampled_from(["power", "temp", "speed"]), min_size=1, max_size=3, unique=True))
        if not samples or not change_driven:
            names = ["power", "temp", "speed"]
        samples += [Sample(name, draw(st.integers(0, 100)) * 1.0, clock) for name in names]
    if change_driven:
        samples.append(Sample(ALIVE, 1.0, clock + 1_000_000))
    order = [sample.time + draw(st.integers(0, 19)) * 100_000 for sample in samples]
    arrived = [samples[place] for place in sorted(range(len(samples)), key=lambda place: order[place])]
    batches, size = [], draw(st.integers(1, 9))
    for start in range(0, len(arrived), size):
        batches.append(arrived[start : start + size])
    return samples, batches


@pytest.mark.parametrize("change_driven", [False, True])
@given(data=st.data())
@settings(max_examples=25, phases=[Phase.generate])
def test_rows_born_live_are_the_rows_of_ingest(
    data: st.DataObject, change_driven: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    samples, batches = data.draw(_log(change_driven))
    kind = _kind(samples, change_driven, None if change_driven else 10.0)
    table = _ingested(kind, tmp_path_factory.mktemp("none"))
    rows = _final(RowMaker(kind), batches)
    newest = max(sample.time for sample in samples) / 1e6
    begins = {table.time[group.start] for group in table.groups}
    for number, time in enumerate(table.time):
        if time > newest:
            continue
        row = rows[float(time)]
        assert row.begins == (time in begins), time
        wanted = [*table.sensors[number], *table.commands[number]]
        found = [np.nan if row.values[name] is None else row.values[name] for name in ("power", "temp", "speed")]
        np.testing.assert_allclose(np.array(found, float), wanted, rtol=1e-12)
    assert set(rows) <= {float(time) for time in table.time}


def test_a_gap_is_masked_and_never_filled() -> None:
    kind = _kind([], True, None)
    maker = RowMaker(kind)
    for second in range(6):
        for name in ("power", "temp", "speed"):
            maker.add(Sample(name, float(second), BEGIN + second * 1_000_000))
    maker.rows()
    maker.mask(BEGIN + 5_000_000, BEGIN + 9_500_000)
    for name in ("power", "temp", "speed"):
        maker.add(Sample(name, 9.0, BEGIN + 9_500_000))
    maker.add(Sample(ALIVE, 1.0, BEGIN + 12_000_000))
    rows = {round(row.time - BEGIN / 1e6): row.values for row in maker.rows()}
    assert [rows[second]["power"] for second in (6, 7, 8, 9, 10)] == [None] * 5
    assert rows[11]["power"] == pytest.approx(0.009)
    assert rows[12]["temp"] == 9.0


def test_a_sample_later_than_two_seconds_is_refused() -> None:
    maker = RowMaker(_kind([], False, 10.0))
    assert maker.add(Sample("power", 1.0, BEGIN + 5_000_000))
    assert maker.add(Sample("power", 1.0, BEGIN + 3_000_000))
    assert not maker.add(Sample("power", 1.0, BEGIN + 2_999_999))


def test_the_states_a_kind_is_cut_by_are_columns_of_the_frame() -> None:
    kind = replace(_kind([], False, 5.0), segmentation=Segmentation(keep={"State": 3.0}, gap_s=5.0))
    frame = to_frame([Sample("@State", 3.0, BEGIN), Sample("power", 5.0, BEGIN)], kind)
    assert frame["@State"].to_list() == [3.0]
    assert frame.schema["@@program"] == pl.String


def test_of_two_values_of_one_time_a_poll_counts_the_first_and_a_change_the_last() -> None:
    samples = [Sample("power", 1.0, 5), Sample("power", 2.0, 5), Sample("temp", 3.0, 9)]
    polled, changes = (to_frame(samples, _kind([], driven, 10.0)) for driven in (False, True))
    assert polled.select(CLOCK, "power", "temp").rows() == [(5, 1.0, None), (9, None, 3.0)]
    assert changes.select(CLOCK, "power", "temp").rows() == [(5, 2.0, None), (9, 2.0, 3.0)]


def test_what_held_before_goes_on_and_a_sign_of_life_is_no_value() -> None:
    kind = _kind([], True, None)
    frame = to_frame([Sample(ALIVE, 1.0, 7), Sample(PROGRAM, "O1", 3)], kind, {"power": 4.0}, extra=(CONNECTED,))
    assert frame.select(CLOCK, "power", PROGRAM, CONNECTED).rows() == [(3, 4.0, "O1", 1.0), (7, 4.0, "O1", 1.0)]
    assert to_frame([Sample("power", 1.0, 5)], kind)[PROGRAM].to_list() == [""]


def test_constants_are_in_every_row() -> None:
    kind = _kind([], True, None)
    kind = replace(kind, columns=(*kind.columns[:2], NativeColumn("", "speed", "rpm", constant=0.5)))
    assert to_frame([Sample("power", 1.0, 5), Sample("power", 2.0, 6)], kind)["speed"].to_list() == [0.5, 0.5]


def test_a_gap_ends_what_is_known_right_after_its_begin() -> None:
    assert gap_samples(_kind([], False, 10.0), 5, 9) == []
    assert gap_samples(_kind([], True, None), 5, 9) == [
        Sample("power", None, 6), Sample("temp", None, 6), Sample(CONNECTED, 0.0, 6), Sample(CONNECTED, 1.0, 9),
    ]  # fmt: skip
