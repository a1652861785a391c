"""The machine second by second is the machine of whole programs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from crossfeed.control.machine import MachineRow, MachineRun, Workpiece
from crossfeed.control.task import read_task
from crossfeed.control.trial import account, along, cost_by_place, idle_start, trial
from crossfeed.sim.physics.catalogue import machine_named
from tests.control.conftest import PROGRAM


def test_as_written_it_is_the_planned_run_to_the_bit(piece):
    run, whole = MachineRun(piece, seed=4), piece.machine.run(piece.planned.inputs, piece.machine.rest(4))[0]
    rows = []
    while not run.done:
        rows.append(run.step(1.0, 1.0))
    means = whole.resample(1.0)
    assert np.array([row.truth for row in rows])[: len(means)] == pytest.approx(means.sensors, abs=1e-12)
    assert sum(row.seconds for row in rows) == pytest.approx(len(piece.planned) * piece.machine.time_step)


@pytest.mark.parametrize("feed", [0.6, 1.2])
def test_the_feed_knob_changes_feed_moves_only(piece, timeline, feed):
    task = read_task(None, {})
    ones = np.ones(len(timeline))
    found = trial(piece, timeline, task, along(feed * ones, ones), idle_start(piece)[1])
    assert found.seconds == pytest.approx(timeline.taken(feed * ones, ones).sum(), abs=1.5)


def test_a_limit_passed_in_the_cut_is_counted(piece, timeline):
    task = read_task(None, {"limits": ["spindle_torque<=0.5"]})
    ones = np.ones(len(timeline))
    found = trial(piece, timeline, task, along(ones, ones), idle_start(piece)[1])
    assert 0 < found.passed <= found.cutting


def test_what_a_row_beyond_the_last_place_cost_belongs_to_the_last_place(timeline):
    """A machine may need a moment more than its plan has places."""
    task = read_task(None, {"objective": {"minimise": "cost", "base_load": "0 W"}})
    rows = tuple(SimpleNamespace(truth=np.zeros(17), seconds=seconds) for seconds in (30.0, 0.25))
    run = SimpleNamespace(rows=rows, position=np.array([0.0, len(timeline)]))
    cost_T = cost_by_place(run, timeline, task)
    assert cost_T.sum() == pytest.approx(30.25 * task.time_price)
    assert cost_T[-1] - cost_T[0] == pytest.approx(0.25 * task.time_price)


def test_the_last_row_of_a_program_that_ends_in_the_cut_is_in_the_cut(timeline):
    last = np.arange(len(timeline)) == len(timeline) - 1
    ended = replace(timeline, feed_share_T=last.astype(float), commands_TA=np.full_like(timeline.commands_TA, 3000.0))
    task = read_task(None, {"limits": ["spindle_torque<=0.5"]})
    row = MachineRow(np.ones(17), np.zeros(4), np.ones(17), float(len(timeline)), 1.0)
    run = account(ended, task, [row, row], np.ones((2, 2)), np.array([len(timeline) - 2.0, len(timeline) - 1.0]))
    assert (run.cutting, run.passed) == (1, 1)


def test_with_the_feed_at_nought_the_program_stands_still(piece):
    run = MachineRun(piece, seed=1)
    while piece.planned.motion[int(run.position / piece.machine.time_step)] < 1:
        run.step(1.0, 1.0)
    before = run.position
    run.step(0.0, 1.0)
    assert run.position == before, "a rapid waits for the feed, too"
    run.step(0.5, 1.0)
    assert run.position > before


def test_a_quick_log_shows_means_of_a_second_and_a_slow_one_its_last_moment():
    for name, sampled in (("spinner_620", True), ("spinner_630", False)):
        piece = Workpiece.of(PROGRAM.replace("S3000 M3", "S3000 M4"), "small", machine_named(name))
        whole, _ = piece.machine.run(piece.planned.inputs, piece.machine.rest(2))
        run, steps = MachineRun(piece, seed=2), round(1.0 / piece.machine.time_step)
        for second in range(12):
            row, own = run.step(1.0, 1.0), slice(second * steps, (second + 1) * steps)
            commands = whole.commands[own][-1] if sampled else whole.commands[own].mean(axis=0)
            assert row.commands == pytest.approx(np.append(abs(commands[0]), commands[1:]), abs=1e-9)
            assert row.truth == pytest.approx(whole.sensors[own].mean(axis=0), abs=1e-9)
            shown = whole.sensors[own][-1] if sampled else row.truth
            known = np.isfinite(row.sensors)
            assert known.any()
            assert row.sensors[known] == pytest.approx(shown[known], abs=1e-9)


def test_who_turns_the_knobs_is_told_where_they_stand_and_what_was_logged_so_far(piece, timeline):
    moments = []

    def act(position, knobs, rows):
        moments.append((position, knobs, len(rows)))
        return 1.0 + 0.01 * len(moments), 1.0 - 0.001 * len(moments)

    run = trial(piece, timeline, read_task(None, {}), act, idle_start(piece)[1])
    assert moments[0] == (0.0, (1.0, 1.0), 0)
    assert [knobs for _, knobs, _ in moments[1:]] == [tuple(knobs) for knobs in run.knobs[:-1].tolist()]
    assert [position for position, _, _ in moments] == run.position.tolist()
    assert [count for _, _, count in moments] == list(range(len(run.rows)))
