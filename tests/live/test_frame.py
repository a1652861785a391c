"""Samples that arrived one by one as rows: what is told first, what holds, and what a gap ends."""

from dataclasses import replace

from crossfeed.live.row_maker import gap_samples, to_frame
from crossfeed.live.source import ALIVE, CONNECTED, Sample
from crossfeed.machines.declaration import CLOCK, PROGRAM, NativeColumn
from tests.live.test_row_maker import _kind


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
