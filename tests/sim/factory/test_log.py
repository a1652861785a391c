"""How controllers tell: steps, dead bands, delays, gaps; and what drives add to the textbook."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.sim.factory.draw import draw_machine
from crossfeed.sim.factory.generate import _commands, _drop_out, as_written, polled
from crossfeed.sim.factory.habits import Dial
from crossfeed.sim.factory.motors import Servo, dice, held_torque
from crossfeed.sim.factory.people import Person, _played, _turn

DRAW = dice(0, 0, "habits")
SERVO = Servo(
    stick=1.0, creep=5.0, hunting=0.0, hunting_memory=1.0, jitter=0.0, waver=0.0, ripple=0.0, ripple_memory=1.0
)


def one_look(values: np.ndarray) -> np.ndarray:
    return values[:, None]


def test_a_plain_dial_tells_the_truth() -> None:
    values = np.linspace(-5, 5, 50)
    np.testing.assert_array_equal(as_written(one_look(values), Dial(), DRAW), values)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from((0.1, 0.5, 1.0)), st.integers(0, 2), st.booleans())
def test_steps_delays_and_signs(step: float, delay: int, unsigned: bool) -> None:
    values = 10 * np.sin(np.arange(60) / 7)
    told = as_written(one_look(values), Dial(step=step, delay=delay, unsigned=unsigned), DRAW)
    wanted = np.abs(values) if unsigned else values
    np.testing.assert_allclose(told / step, np.rint(told / step), atol=1e-9)
    assert np.abs(told[delay:] - wanted[: 60 - delay]).max() <= step / 2 + 1e-9


def test_a_dead_band_keeps_the_last_value_until_it_is_left() -> None:
    values = np.array([0.0, 0.4, 0.9, 1.2, 1.0, 0.3, 5.0])
    told = as_written(one_look(values), Dial(band=1.0), DRAW)
    np.testing.assert_array_equal(told, [0.0, 0.0, 0.0, 1.2, 1.2, 1.2, 5.0])


def test_a_load_never_passes_its_highest() -> None:
    assert as_written(one_look(np.array([90.0, 400.0])), Dial(highest=200.0), DRAW).tolist() == [90.0, 200.0]


def test_three_digits_are_three_digits() -> None:
    told = as_written(one_look(np.array([0.0, 1234.5, -0.0012345])), Dial(digits=3), DRAW)
    np.testing.assert_allclose(told, [0.0, 1230.0, -0.00123], rtol=1e-12)


def test_looks_are_the_last_moment_of_each_part_of_a_row_or_the_mean() -> None:
    values = np.arange(20.0)
    assert polled(values, 2, 10, 1).tolist() == [[9.0], [19.0]]
    assert polled(values, 2, 10, 2).tolist() == [[4.0, 9.0], [14.0, 19.0]]
    assert polled(values, 2, 10, 0).tolist() == [[4.5], [14.5]]


def test_an_axis_that_stops_holds_against_its_friction_and_lets_go() -> None:
    axis = draw_machine(0, 0).parameters.x
    velocity = np.concatenate((np.full(50, 20.0), np.zeros(1000), np.full(50, -20.0)))
    torque = held_torque(SERVO, axis, velocity, 0.02, dice(1, 0, "physics"))
    most = axis.lever * axis.coulomb
    assert not torque[:50].any()
    assert not torque[1050:].any()
    assert 0 < abs(torque[50]) <= most
    assert abs(torque[1049]) < 0.1 * abs(torque[50])


def test_a_knob_is_turned_by_at_most_a_fifth_a_second() -> None:
    knob = np.ones(30)
    _turn(knob, 5, 0.3, jumps=False)
    assert knob[4] == 1.0
    assert knob[-1] == pytest.approx(0.3)
    assert np.abs(np.diff(knob)).max() <= 0.2 + 1e-9


def test_a_button_turns_a_knob_at_once() -> None:
    knob = np.ones(30)
    _turn(knob, 5, 0.3, jumps=True)
    assert knob.tolist() == [1.0] * 5 + [0.3] * 25


def test_one_gap_in_five_takes_all_sensors() -> None:
    sensors = np.zeros((400_000, 6))
    _drop_out(sensors, 2000.0, np.random.default_rng(0))
    lost = np.isnan(sensors).sum(axis=1)
    assert (lost == 6).sum() / ((lost == 6) | (lost == 1)).sum() == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(
    ("turned", "feed", "spindle"),
    [
        ("knob", [1.0, 1.0, None], [1.0, 1.0, 1.0]),
        ("spindle_knob", [1.0, 1.0, 1.0], [1.0, 1.0, None]),
        ("hold", [1.0, 1.0, 0.3], [1.0, 1.0, 1.0]),
        ("stop", [1.0, 1.0, 0.3], [1.0, 1.0, 0.5]),
    ],
)
def test_a_program_that_is_held_in_the_last_row_of_its_schedule_goes_on(
    turned: str, feed: list[float | None], spindle: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row is in force for good: there a hold would have no end, and other knobs stay where they were put."""
    rates = dict.fromkeys(("knob", "spindle_knob", "hold", "stop"), 0.0) | {turned: 1.0}
    person = Person(idle=0.0, jumps=1.0, reset=0.0, setting_up=0.0, warm_up=False, feed=1.0, rapid=1.0, sleeps=False,
                    **rates)  # fmt: skip
    monkeypatch.setattr("crossfeed.sim.factory.people._moments", lambda _, rate, rows: [rows - 1] if rate else [])
    monkeypatch.setattr(
        "crossfeed.sim.factory.people.play_under", lambda _job, schedule, *_: SimpleNamespace(inputs=schedule)
    )
    piece = SimpleNamespace(job=SimpleNamespace(seconds=10.0), material=None, second_spindle=False)
    played = [_played(SimpleNamespace(time_step=0.1), piece, person, dice(0, number, "people")) for number in range(9)]
    assert len({(schedule.feed[-1], schedule.spindle[-1]) for schedule in played}) > (
        4 if None in feed + spindle else 0
    )
    for schedule in played:
        for found, wanted in ((schedule.feed, feed), (schedule.spindle, spindle)):
            for value, one in zip((found[1], found[-2], found[-1]), wanted, strict=True):
                assert one is None or value == one


def test_an_axis_that_creeps_is_told_to_stand_where_a_log_shows_measured_feeds() -> None:
    velocity = np.array([[0.04, 0.06, -0.04, -0.06], [0.0] * 4, [10.0] * 4])
    signals = SimpleNamespace(
        trace=SimpleNamespace(physics=SimpleNamespace(axis_velocity=velocity, spindle_speed=np.full(4, 10.0 * np.pi))),
        axis_velocity=velocity,
        machine=SimpleNamespace(kind=SimpleNamespace(turning=False)),
    )
    habits = SimpleNamespace(measured_commands=True, unsigned_feeds=False, command_step=0.0, polls=1)
    told = _commands(signals, habits, 4, 1)
    np.testing.assert_allclose(told, np.array([[300.0] * 4, [0.0, 3.6, 0.0, -3.6], [0.0] * 4, [600.0] * 4]).T)
