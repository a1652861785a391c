"""Sessions from rows: what begins one, what is left out, and that every row is accounted for."""

from dataclasses import replace

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.logs.declaration import CLOCK, LABEL, PROGRAM, LogFormat, NativeColumn, RawRun, Segmentation
from crossfeed.logs.resample import SESSION, UNTIL, Segments, Tally, segment
from crossfeed.schema import Channel, Schema

SECOND = 1_000_000
SCHEMA = Schema(
    name="two",
    sensors=(Channel(name="s", quantity="current", unit="A"),),
    commands=(Channel(name="c", quantity="feed", unit="mm/min"),),
)


def log_format_of(**rules) -> LogFormat:
    return LogFormat(
        name="toy",
        title="toy",
        machine="toy",
        schema=SCHEMA,
        columns=(NativeColumn("S", "s", "A"), NativeColumn("C", "c", "mm/min")),
        period=1.0,
        segmentation=Segmentation(**rules),
        read=lambda *_: iter(()),
    )


def segmented(raw: RawRun, log_format: LogFormat) -> tuple[Segments, Tally]:
    tally = Tally()
    return segment(raw, log_format, log_format.period, tally), tally


def raw_of(seconds: list[float | None], program: str = "p", **columns) -> RawRun:
    clock = [None if second is None else round(second * SECOND) for second in seconds]
    frame = pl.DataFrame(
        {CLOCK: pl.Series(clock, dtype=pl.Int64), "s": [1.0] * len(clock), "c": [1.0] * len(clock)} | columns
    )
    frame = frame.with_columns(pl.lit(program).alias(PROGRAM)) if PROGRAM not in columns else frame
    return RawRun("r", frame, len(clock), ())


def test_a_gap_longer_than_the_limit_begins_a_session_and_an_equal_one_does_not() -> None:
    found, _ = segmented(raw_of([0, 1, 6, 11.1]), log_format_of(gap_s=5.0))
    assert found.frame[SESSION].to_list() == [1, 1, 1, 2]
    assert found.sessions["session"].to_list() == ["r-001", "r-002"]


def test_a_change_of_program_begins_a_session() -> None:
    found, _ = segmented(raw_of([0, 1, 2, 3], **{"@path": ["a", "a", "b", "a"]}), log_format_of(boundaries=("path",)))
    assert found.frame[SESSION].to_list() == [1, 1, 2, 3]


def test_rows_are_kept_by_value_and_the_gap_is_measured_afterwards() -> None:
    found, tally = segmented(
        raw_of([0, 1, 2, 3, 4], **{"@status": [3.0, 5.0, 5.0, 5.0, 3.0]}),
        log_format_of(keep={"status": 3.0}, gap_s=2.0),
    )
    assert found.frame[SESSION].to_list() == [1, 2]
    assert tally.dropped_rows == {"status is not 3": 3}


def test_duplicate_stamps_keep_the_first_row() -> None:
    raw = raw_of([0, 1, 1, 2])
    raw = replace(raw, frame=raw.frame.with_columns(pl.Series("s", [1.0, 2.0, 9.0, 3.0])))
    found, tally = segmented(raw, log_format_of())
    assert found.frame["s"].to_list() == [1.0, 2.0, 3.0]
    assert tally.duplicates == 1


def test_a_clock_that_runs_backwards_is_sorted_and_counted() -> None:
    found, tally = segmented(raw_of([0, 2, 1, 3]), log_format_of())
    assert found.frame[CLOCK].to_list() == [0, SECOND, 2 * SECOND, 3 * SECOND]
    assert tally.repairs == {"clock ran backwards, rows sorted by time": 1}


def test_rows_without_a_time_and_short_sessions_are_dropped_with_their_reason() -> None:
    found, tally = segmented(raw_of([0, 1, 2, None, 100]), log_format_of(gap_s=5.0, min_rows=2))
    assert found.sessions.height == 1
    assert tally.dropped_rows == {"no readable time": 1, "session shorter than 2 rows": 1}
    assert tally.dropped_sessions == {"shorter than 2 rows": 1}


def test_labels_name_sessions_and_a_label_that_comes_back_gets_a_number() -> None:
    found, _ = segmented(raw_of([0, 1, 2, 3], **{LABEL: ["a", "b", "b", "a"]}), log_format_of())
    assert found.sessions["session"].to_list() == ["r-a", "r-b", "r-a-2"]


def test_without_a_run_name_the_day_of_the_first_row_is_the_run() -> None:
    raw = replace(raw_of([0, 1, 86_399, 86_400, 90_000]), name=None)
    found, _ = segmented(raw, log_format_of(gap_s=5.0))
    assert found.sessions.select("run", "session").rows() == [
        ("1970-01-01", "1970-01-01-001"),
        ("1970-01-01", "1970-01-01-002"),
        ("1970-01-02", "1970-01-02-001"),
    ]


def test_a_change_driven_session_ends_where_the_state_ends() -> None:
    raw = raw_of([0, 10, 30, 40], **{"@execution": ["READY", "ACTIVE", "ACTIVE", "READY"]})
    found, _ = segmented(raw, replace(log_format_of(keep={"execution": "ACTIVE"}, gap_s=0.0), change_driven=True))
    assert found.frame.select(CLOCK, UNTIL).rows() == [(10 * SECOND, 30 * SECOND), (30 * SECOND, 40 * SECOND)]
    assert found.sessions["seconds"].to_list() == [30.0]


@given(
    seconds=st.lists(st.one_of(st.none(), st.integers(0, 60)), min_size=1, max_size=60),
    gap=st.integers(1, 5),
    short=st.integers(1, 6),
)
@settings(max_examples=60)
def test_every_row_is_kept_or_has_a_reason(seconds, gap, short) -> None:
    found, tally = segmented(raw_of(list(seconds)), log_format_of(gap_s=float(gap), min_rows=short))
    assert found.frame.height + tally.duplicates + sum(tally.dropped_rows.values()) == len(seconds)
    assert found.frame[CLOCK].is_sorted()
    for (_,), part in found.frame.group_by(SESSION):
        assert part.height >= short
        assert (part[CLOCK].diff().drop_nulls() <= gap * SECOND).all()


def test_a_pause_is_told_only_where_it_ends_a_session_that_no_rule_ends() -> None:
    """Ten times the usual step: 10 s go on with a session, more end it, and that nobody stated it is said."""
    for last, told in ((13.0, []), (13.1, ["no gap_s is stated, so a session ends at a pause of more than 10 s"])):
        found, tally = segmented(raw_of([0, 1, 2, 3, last]), log_format_of())
        assert list(tally.findings) == told
        assert found.frame[SESSION].n_unique() == 1 + len(told)
        assert not segmented(raw_of([0, 1, 2, 3, last]), log_format_of(gap_s=10.0))[1].findings
