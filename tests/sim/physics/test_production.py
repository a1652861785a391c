"""The plan of the days gives exactly the rows and sessions that were ordered."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import MachineError
from crossfeed.sim.joanneum import RUNS, session_cycles
from crossfeed.sim.physics.production import JOG_PROGRAM, Order, Phase, Product, Status, plan_days
from crossfeed.sim.simulate import SCALES

PRODUCTS = (Product("A", "aluminium", 320.0), Product("B", "steel", 700.0), Product("C", "pla", 190.0))
WARM_UP = Product("W", "aluminium", 110.0)


def segmented(days: list[list[Phase]]) -> list[int]:
    """Rows of every session that survives: running, no jog, no gap over 5 s, one program, at least 64 rows."""
    sessions: list[int] = []
    for number, day in enumerate(days):
        clock = 100_000 * number
        last: tuple[int, str] | None = None
        for phase in day:
            for second in range(phase.seconds):
                now = clock + second
                running = phase.status == Status.RUNNING and phase.program != JOG_PROGRAM
                if not running or second in phase.lost:
                    continue
                if last is None or now - last[0] > 5 or phase.program != last[1]:
                    sessions.append(0)
                sessions[-1] += 1
                last = (now, phase.program)
            clock += phase.seconds
    return [rows for rows in sessions if rows >= 64]


@settings(max_examples=25)
@given(sessions=st.integers(3, 30), mean=st.integers(75, 400), lost=st.integers(0, 5), seed=st.integers(0, 99))
def test_exactly_the_ordered_rows_and_sessions_survive(sessions: int, mean: int, lost: int, seed: int) -> None:
    rows = sessions * mean
    order = Order(rows=rows, sessions=sessions, raw_rows=rows + 400 * sessions + 500, duplicates=3, lost_rows=lost)
    days = plan_days(order, PRODUCTS, WARM_UP, seed)
    lengths = segmented(days)
    assert (len(lengths), sum(lengths)) == (sessions, rows)
    logged = sum(phase.seconds - len(phase.lost) for day in days for phase in day)
    assert logged + order.duplicates == order.raw_rows
    assert len(days) == 3


@pytest.mark.parametrize("seed", range(3))
def test_the_full_scale_has_the_rows_and_sessions_of_the_real_log(seed: int) -> None:
    order = SCALES["full"].thws
    lengths = segmented(plan_days(order, PRODUCTS, WARM_UP, seed))
    assert (len(lengths), sum(lengths)) == (62, 29_785)
    assert max(lengths) < 2000


def test_the_days_hold_everything_a_shop_day_holds() -> None:
    phases = [phase for day in plan_days(SCALES["full"].thws, PRODUCTS, WARM_UP, 0) for phase in day]
    assert {phase.kind for phase in phases} == {"idle", "jog", "run", "hold"}
    assert {phase.status for phase in phases} == set(Status)
    assert any(phase.kind == "run" and phase.seconds < 64 for phase in phases)
    assert any(phase.kind == "run" and len(phase.lost) > 5 for phase in phases)
    assert {phase.program for phase in phases} >= {"A", "B", "C", "W", JOG_PROGRAM}


@pytest.mark.parametrize(
    "size",
    [{"rows": 100, "sessions": 10}, {"rows": 5000, "sessions": 2}, {"rows": 5000, "sessions": 14, "raw_rows": 5001}],
)
def test_orders_that_cannot_be_met_are_refused(size: dict[str, int]) -> None:
    with pytest.raises(MachineError, match="cannot be planned"):
        Order(**({"raw_rows": 9000, "duplicates": 0, "lost_rows": 0} | size))


def test_too_little_room_for_idle_times_is_refused() -> None:
    order = Order(rows=3000, sessions=30, raw_rows=4100, duplicates=0, lost_rows=0)
    with pytest.raises(MachineError, match="no room for the idle times"):
        plan_days(order, PRODUCTS, WARM_UP, 1)


@given(cycles=st.integers(321_310, 2_000_000))
def test_the_thirteen_sessions_of_seven_runs_have_exactly_the_ordered_cycles(cycles: int) -> None:
    lengths = session_cycles(cycles)
    every = [length for run in RUNS for length in lengths[run.name]]
    assert sum(every) == cycles
    assert (len(RUNS), len(every)) == (7, 13)
    assert sorted(length < 24_000 for length in every) == [False] * 12 + [True]


def test_too_few_cycles_are_refused() -> None:
    with pytest.raises(MachineError, match="too few for thirteen sessions"):
        session_cycles(100_000)
