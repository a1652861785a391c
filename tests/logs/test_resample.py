"""Resampling against the definition, written out slowly; and that no row ever knows the future."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ConfigError
from crossfeed.logs.declaration import CLOCK
from crossfeed.logs.resample import AHEAD, SESSION, UNTIL, Resampling, values_ahead

SECOND = 1_000_000


def frame_of(clock: list[int], sensor: list[float | None], command: list[float | None], until: list[int] | None = None):
    columns = {SESSION: [1] * len(clock), CLOCK: clock, "s": sensor, "c": command}
    types = {SESSION: pl.UInt32, CLOCK: pl.Int64, "s": pl.Float64, "c": pl.Float64}
    if until is not None:
        columns[UNTIL], types[UNTIL] = until, pl.Int64
    return pl.DataFrame(columns, schema=types)


def resampling(**changes) -> Resampling:
    return Resampling(**({"sensors": ["s"], "commands": ["c"], "period": 1.0} | changes))


def rows(frame: pl.DataFrame, **changes) -> dict[str, list]:
    return resampling(**changes).apply(frame)[0].to_dict(as_series=False)


@st.composite
def polled(draw) -> pl.DataFrame:
    """A jittered log with gaps, missing readings and a command that is known from the first row on."""
    steps = draw(st.lists(st.integers(1, 4_000_000), min_size=2, max_size=40))
    clock = np.cumsum(steps).tolist()
    value = st.one_of(st.none(), st.floats(-100, 100))
    sensor = draw(st.lists(value, min_size=len(clock), max_size=len(clock)))
    command = draw(st.lists(value, min_size=len(clock), max_size=len(clock)))
    command[0] = draw(st.floats(-100, 100))
    return frame_of(clock, sensor, command)


def naive(frame: pl.DataFrame, rule: str) -> dict[str, list]:
    """The definition: means of bins (t-1, t] or [t, t+1), commands weighted by the time since the sample before."""
    clock, sensor, command = frame[CLOCK].to_list(), frame["s"].to_list(), frame["c"].to_list()
    bins = [t // SECOND + 1 if rule == "paper" else math.ceil(t / SECOND) for t in clock]
    out: dict[str, list] = {"time": [], "s": [], "c": []}
    last_command, age = None, 0
    for number in range(bins[0], bins[-1] + 1):
        inside = [i for i, b in enumerate(bins) if b == number]
        values = [sensor[i] for i in inside if sensor[i] is not None]
        mean = sum(values) / len(values) if values else None
        age = 0 if values else age + 1
        if mean is None and rule == "crossfeed" and out["s"] and age <= 2:
            mean = out["s"][-1]
        known = [i for i in inside if command[i] is not None]
        if known and rule == "paper":
            last_command = command[known[-1]]
        elif known:
            begin = (number - 1) * SECOND
            weight = {i: min(clock[i] - clock[i - 1], clock[i] - begin) if i else 0 for i in known}
            total = sum(weight.values())
            plain = sum(command[i] for i in known) / len(known)
            last_command = sum(command[i] * weight[i] for i in known) / total if total else plain
        out["time"].append(float(number - 1 if rule == "paper" else number))
        out["s"].append(mean)
        out["c"].append(last_command)
    there = [i for i, value in enumerate(out["s"]) if value is not None]
    if rule == "paper" and there:
        out["s"] = np.interp(range(len(out["s"])), there, [out["s"][i] for i in there]).tolist()
    return out


@pytest.mark.parametrize("rule", ["crossfeed", "paper"])
@given(frame=polled())
@settings(max_examples=60)
def test_polled_logs_follow_the_definition(rule, frame) -> None:
    found, wanted = rows(frame, rule=rule), naive(frame, rule)
    assert found["time"] == wanted["time"]
    for name in ("s", "c"):
        assert [value is None for value in found[name]] == [value is None for value in wanted[name]]
        pairs = [(a, b) for a, b in zip(found[name], wanted[name], strict=True) if b is not None]
        assert all(a == pytest.approx(b, rel=1e-9, abs=1e-9) for a, b in pairs)


@given(frame=polled(), cut=st.integers(0, 60), drop=st.booleans())
@settings(max_examples=60)
def test_nothing_at_or_before_t_changes_when_everything_after_t_does(frame, cut, drop) -> None:
    before = frame.filter(pl.col(CLOCK) <= cut * SECOND)
    if drop:
        after = before
    else:
        late = pl.col(CLOCK) > cut * SECOND
        after = frame.with_columns(pl.when(late).then(-7.5).otherwise(pl.col(name)).alias(name) for name in ("s", "c"))
    full = resampling(deviation=True).apply(frame)[0].filter(pl.col("time") <= cut)
    other = resampling(deviation=True).apply(after)[0].filter(pl.col("time") <= cut)
    # A log that simply ends has no rows for the empty bins after its last sample; those it has are the same.
    assert full.head(other.height).equals(other)
    assert drop or full.height == other.height


@given(cycles=st.integers(1000, 4000), start=st.integers(0, 3000))
@settings(max_examples=20)
def test_a_two_millisecond_stream_has_500_samples_in_every_whole_bin(cycles, start) -> None:
    cycle = np.arange(start, start + cycles)
    frame = frame_of((cycle * 2000).tolist(), [1.0] * cycles, [1.0] * cycles)
    counted = frame.with_columns((-((-pl.col(CLOCK)) // SECOND)).alias("bin")).group_by("bin").len().sort("bin")
    assert counted["len"][1:-1].to_list() == [500] * (counted.height - 2)
    assert rows(frame)["time"] == [float(value) for value in counted["bin"]]


def test_a_sample_on_the_boundary_belongs_to_the_bin_that_ends_there() -> None:
    found = rows(frame_of([SECOND, SECOND + 2000, 2 * SECOND], [1.0, 2.0, 4.0], [0.0, 0.0, 0.0]))
    assert found["time"] == [1.0, 2.0]
    assert found["s"] == [1.0, 3.0]


def test_accumulated_float_stamps_would_have_moved_rows_integer_cycles_do_not() -> None:
    accumulated = np.cumsum(np.full(100_000, 0.002))
    exact = np.arange(1, 100_001) * 2000
    moved = int((np.ceil(accumulated) != -(-exact // SECOND)).sum())
    found = rows(frame_of(exact.tolist(), [1.0] * 100_000, [1.0] * 100_000))
    assert moved > 0
    assert found["time"] == [float(t) for t in range(1, 201)]


def test_the_rule_of_the_paper_has_bins_that_hold_their_beginning() -> None:
    frame = frame_of([SECOND, SECOND + 2000, 2 * SECOND], [1.0, 2.0, 4.0], [5.0, 6.0, 7.0])
    assert rows(frame, rule="paper") == {SESSION: [1, 1], "time": [1.0, 2.0], "s": [1.5, 4.0], "c": [6.0, 7.0]}


def test_the_rule_of_the_paper_fills_every_gap_from_both_sides_and_counts_what_knew_the_future() -> None:
    clock = [SECOND * second for second in (0, 1, 2, 12, 13)]
    frame = frame_of(clock, [None, 1.0, 2.0, 12.0, None], [None, 3.0, None, 4.0, None])
    filled, counts = resampling(rule="paper").apply(frame)
    assert filled["s"].to_list() == pytest.approx([1.0, *range(1, 13), 12.0])
    assert filled["c"].to_list() == [3.0] * 12 + [4.0] * 2
    assert counts[AHEAD["sensor"]] == 10
    assert counts["sensor values carried forward"] == 1
    assert (counts[AHEAD["command"]], counts["command values carried forward"]) == (1, 11)
    assert values_ahead({"counts": {what.replace(" ", "_"): count for what, count in counts.items()}}) == 11
    other = rows(frame.with_columns(pl.col("s").replace(12.0, 22.0)), rule="paper")["s"]
    assert other[3] != filled["s"][3], "its second row after the gap began knows how the gap ends"
    absent = rows(frame.with_columns(pl.lit(None, pl.Float64).alias("s")), rule="paper")["s"]
    assert absent == [None] * 14, "what was never measured stays absent"


def test_inside_a_bin_the_rules_differ_only_in_the_command() -> None:
    clock = [round((0.1 + 0.2 * i) * SECOND) for i in range(5)]
    frame = frame_of(clock, [1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, 0.0, 0.0, 100.0])
    ours, paper = rows(frame), rows(frame, rule="paper")
    assert ours["s"] == paper["s"] == [3.0]
    assert paper["c"] == [100.0]
    assert ours["c"] == [pytest.approx(25.0)]


def test_a_one_hertz_log_on_the_grid_keeps_its_commands_beside_its_sensors() -> None:
    frame = frame_of([SECOND, 2 * SECOND, 3 * SECOND], [1.0, 2.0, 3.0], [10.0, 20.0, 30.0])
    assert rows(frame)["c"] == rows(frame, rule="paper")["c"] == [10.0, 20.0, 30.0]


def test_gaps_are_carried_two_seconds_and_then_absent_while_commands_hold() -> None:
    found = rows(frame_of([SECOND, 6 * SECOND], [5.0, 7.0], [3.0, 4.0]))
    assert found["s"] == [5.0, 5.0, 5.0, None, None, 7.0]
    assert found["c"] == [3.0, 3.0, 3.0, 3.0, 3.0, 4.0]


def test_rows_before_the_first_known_command_are_dropped_and_counted() -> None:
    frame, counts = resampling().apply(frame_of([SECOND, 2 * SECOND, 3 * SECOND], [1.0, 2.0, 3.0], [None, 4.0, None]))
    assert frame["time"].to_list() == [2.0, 3.0]
    assert frame["c"].to_list() == [4.0, 4.0]
    assert counts["rows before the first known command, dropped"] == 1
    assert counts["of them without c"] == 1


def test_an_absent_sensor_stays_null() -> None:
    found = rows(frame_of([SECOND * i for i in range(1, 9)], [None] * 8, [1.0] * 8))
    assert found["s"] == [None] * 8


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_the_mean_of_a_whole_bin_is_conserved(seed) -> None:
    values = np.random.default_rng(seed).normal(0.0, 1e3, 500).tolist()
    frame = frame_of([2000 * (i + 1) for i in range(500)], values, values)
    assert rows(frame)["s"][0] == pytest.approx(np.mean(values), abs=1e-9)
    # Equal spacing gives equal weights, but the first sample of a session has no time before it.
    assert rows(frame)["c"][0] == pytest.approx(np.mean(values[1:]), abs=1e-9)


def test_the_deviation_inside_a_bin_is_kept_and_one_sample_has_none() -> None:
    frame = frame_of([SECOND // 2, SECOND, 2 * SECOND], [1.0, 3.0, 9.0], [0.0, 0.0, 0.0])
    assert rows(frame, deviation=True)["s__std"] == [1.0, None]
    assert "s__std" not in rows(frame), "it is asked for"


def test_change_driven_values_hold_until_the_next_change() -> None:
    clock, until = [0, 1_500_000, 4_000_000], [1_500_000, 4_000_000, 4_500_000]
    frame = frame_of(clock, [10.0, 20.0, 30.0], [1.0, 2.0, 3.0], until)
    found = rows(frame, change_driven=True)
    assert found["time"] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert found["s"] == [10.0, 15.0, 20.0, 20.0, 30.0]
    assert found["c"] == [1.0, 1.5, 2.0, 2.0, 3.0]
    assert rows(frame, change_driven=True, rule="paper")["c"] == [1.0, 2.0, 2.0, 2.0, 3.0]


@given(
    st.lists(st.integers(1, 2_500_000), min_size=1, max_size=12),
    st.lists(st.floats(-100, 100), min_size=12, max_size=12),
    st.integers(0, 3_000_000),
)
@settings(max_examples=60)
def test_change_driven_bins_weigh_every_value_by_its_time_inside_the_bin(
    steps: list[int], values: list[float], start: int
) -> None:
    """A bin's weights once counted from the wrong edge, and no test saw it."""
    edges = (start + np.cumsum([0, *steps])).tolist()
    clock, until, held = edges[:-1], edges[1:], values[: len(steps)]
    found = rows(frame_of(clock, held, held, until), change_driven=True, deviation=True)
    for row, time in enumerate(found["time"]):
        begin, end = round((time - 1.0) * SECOND), round(time * SECOND)
        weights = [max(0, min(end, stop) - max(begin, first)) for first, stop in zip(clock, until, strict=True)]
        mean = sum(w * v for w, v in zip(weights, held, strict=True)) / sum(weights)
        assert found["s"][row] == pytest.approx(mean, abs=1e-9)
        assert found["c"][row] == pytest.approx(mean, abs=1e-9)
        if sum(weight > 0 for weight in weights) > 1:
            variance = sum(w * (v - mean) ** 2 for w, v in zip(weights, held, strict=True)) / sum(weights)
            assert found["s__std"][row] == pytest.approx(math.sqrt(variance), abs=1e-6)
    assert len(found["time"]) == math.ceil(edges[-1] / SECOND) - edges[0] // SECOND


def test_change_driven_means_ignore_the_time_in_which_nothing_is_known() -> None:
    frame = frame_of([0, 250_000, 750_000], [4.0, None, 8.0], [1.0, 1.0, 1.0], [250_000, 750_000, SECOND])
    assert rows(frame, change_driven=True)["s"] == [6.0]


@pytest.mark.parametrize("period", [0.0, -1.0, float("nan"), float("inf"), 1e-9])
def test_an_impossible_period_is_refused(period) -> None:
    with pytest.raises(ConfigError, match="period"):
        resampling(period=period)


def test_another_period_gives_other_bins() -> None:
    frame = frame_of([100_000 * i for i in range(1, 11)], [float(i) for i in range(1, 11)], [1.0] * 10)
    assert rows(frame, period=0.1)["s"] == [float(i) for i in range(1, 11)]
    assert rows(frame, period=0.5)["s"] == [3.0, 8.0]
