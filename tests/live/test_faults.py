"""Faults on request: each does what its name says, and nothing else."""

from itertools import islice

import pytest

from crossfeed.errors import ConfigError
from crossfeed.sim.servers.serve import FIRST_S, Outage, SimulatedFeed, Step, read_fault, with_faults


def _steps(count: int) -> list[Step]:
    return [Step(number / 10, {"x_current": float(number)}, "", 0) for number in range(count)]


def _told(fault: str, count: int = 600) -> list[Step | Outage]:
    return list(with_faults(_steps(count), [read_fault(fault)], "x_current"))


def test_an_outage_loses_its_own_seconds_and_no_others() -> None:
    told = _told("outage=5")
    assert sum(isinstance(one, Outage) for one in told) == 1
    lost = {step.time for step in _steps(600)} - {one.time for one in told if isinstance(one, Step)}
    assert len(lost) == 50
    assert min(lost) == FIRST_S


def test_late_steps_come_later_and_none_is_lost() -> None:
    told = [one for one in _told("late=1.5") if isinstance(one, Step)]
    late = [after.time - one.time for one, after in zip(told[1:], told) if after.time > one.time]
    assert late
    assert max(late) <= 1.6
    assert len(told) >= 598


def test_doubled_steps_come_twice() -> None:
    told = [one.time for one in _told("doubled=10") if isinstance(one, Step)]
    assert len(told) == 660
    assert len(set(told)) == 600


def test_neighbours_change_places() -> None:
    told = [one.time for one in _told("out-of-order=5") if isinstance(one, Step)]
    assert told != sorted(told)
    assert sorted(told) == [step.time for step in _steps(600)]


def test_a_skewed_clock_is_off_by_what_was_asked() -> None:
    assert [one.time for one in islice(with_faults(_steps(3), [read_fault("skew=3")], "x"), 3)] == [3.0, 3.1, 3.2]


def test_a_dead_node_is_dead_from_its_time_on() -> None:
    told = [one for one in _told("dead-node=1", 20) if isinstance(one, Step)]
    assert [bool(one.missing) for one in told] == [False] * 10 + [True] * 10


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ConfigError, match="no fault 'fire'"):
        read_fault("fire")
    with pytest.raises(ConfigError, match="no number"):
        read_fault("late=much")


def test_the_machine_goes_on_from_pause_to_program_and_back() -> None:
    steps = list(islice(SimulatedFeed(rate_hz=1.0).steps(), 400))
    assert [round(step.time) for step in steps] == list(range(1, 401))
    programs = [step.program for step in steps]
    assert set(programs) == {"", "face_pocket.mpf"}
    assert programs[0] == programs[-1 - programs[::-1].index("")] == ""
    assert len({step.line for step in steps}) > 20
