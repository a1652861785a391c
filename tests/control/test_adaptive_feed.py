"""Adaptive feed control and the oracle: what they keep, and what they report."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from crossfeed.control.adaptive_feed import AdaptiveConfig, AdaptiveFeed
from crossfeed.control.controllers import AsWritten, Moment
from crossfeed.control.cutting_law import CuttingLaw
from crossfeed.control.oracle import _used, oracle
from crossfeed.control.task import read_task
from crossfeed.control.trial import idle_start, trial
from crossfeed.schema import canonical

LAW = CuttingLaw({"spindle_power": (0.0, 6e-5)})


@pytest.fixture(scope="module")
def taught(piece, timeline):
    task, past = read_task(None, {}), idle_start(piece)
    return trial(piece, timeline, task, AsWritten(), past), past


def test_it_regulates_towards_what_was_taught_and_reports_it(piece, timeline, taught):
    task = read_task(None, {})
    control = AdaptiveFeed(canonical(), LAW, timeline, taught[0])
    run = trial(piece, timeline, task, control, taught[1])
    rows = [line.row for line in control.report.values()]
    assert len(rows) == int(timeline.cut_T.max()) + 1
    columns = {"tool", "reference_kW", "highest_percent", "mean_override_percent", "seconds_saved", "overloads"}
    assert columns <= set(rows[0])
    assert run.seconds != pytest.approx(taught[0].seconds)
    assert all(task.feed.min <= knob <= task.feed.max for knob in run.knobs[:, 0])


def test_an_overload_is_counted_and_slows_down(piece, timeline, taught):
    control = AdaptiveFeed(canonical(), LAW, timeline, taught[0])
    control._references = {cut: (0.02, seconds) for cut, (_, seconds) in control._references.items()}
    run = trial(piece, timeline, read_task(None, {}), control, taught[1])
    assert sum(line.overloads for line in control.report.values()) > 0
    assert run.knobs[:, 0].min() == pytest.approx(0.5)


def test_the_oracle_is_never_worse_and_passes_limits_no_more_often(piece, timeline, taught):
    free = read_task(None, {})
    best = oracle(piece, timeline, free, taught[1], rounds=2)
    assert best.seconds < 0.95 * taught[0].seconds
    peak = max(float(row.truth[1]) for row, at in zip(taught[0].rows, taught[0].position) if timeline.cutting[int(at)])
    tight = read_task(None, {"limits": [f"spindle_torque<={peak:.3f}"]})
    written = trial(piece, timeline, tight, AsWritten(), taught[1])
    kept = oracle(piece, timeline, tight, taught[1], rounds=4)
    assert kept.passed <= written.passed
    assert kept.cost <= written.cost


def test_the_last_place_uses_its_part_of_a_limit_as_well(timeline):
    ended = replace(
        timeline, feed_share_T=np.ones(len(timeline)), commands_TA=np.full_like(timeline.commands_TA, 3000.0)
    )
    torque, rows = canonical().sensor_names.index("spindle_torque"), []
    for place in range(len(timeline)):
        truth = np.zeros(17)
        truth[torque] = 1.0 + place
        rows.append(SimpleNamespace(truth=truth))
    run = SimpleNamespace(position=np.arange(len(timeline), dtype=float), rows=rows)
    used = _used(run, ended, read_task(None, {"limits": ["spindle_torque<=40"]}))
    # A row ends in the place in which the next one begins.
    assert used == pytest.approx((1.0 + np.arange(len(timeline))) / 40.0)


def test_a_cut_that_took_no_power_crept_at_the_lowest_feed(piece, timeline, taught):
    """A share of no power is none, whatever the feed: such a cut goes as it is written."""
    control = AdaptiveFeed(canonical(), LAW, timeline, taught[0])
    control._references = {cut: (0.0, seconds) for cut, (_, seconds) in control._references.items()}
    run = trial(piece, timeline, read_task(None, {}), control, taught[1])
    assert run.knobs[:, 0] == pytest.approx(1.0)


def test_the_oracle_keeps_more_room_only_after_a_run_that_passed_a_limit_more_often(timeline, taught, monkeypatch):
    """Every place uses 1.1 of its limit: it is turned down by one factor each round, unless a limit was passed."""
    feeds, passed = [], iter((0, 0, 0, 1, 0))

    def run(*given):
        feeds.append(getattr(given[3], "feed_T", None))
        return replace(taught[0], cost=100.0, above=np.array([next(passed)]))

    monkeypatch.setattr("crossfeed.control.oracle.trial", run)
    monkeypatch.setattr("crossfeed.control.oracle.PlannedKnobs", lambda _, feed_T, __: SimpleNamespace(feed_T=feed_T))
    monkeypatch.setattr("crossfeed.control.oracle.reachable", lambda _, feed_T, spindle_T, *__: (feed_T, spindle_T))
    monkeypatch.setattr("crossfeed.control.oracle._used", lambda *_: np.full(len(timeline), 1.1))
    oracle(None, timeline, read_task(None, {}), None, rounds=4)
    fed = [feed_T[timeline.cutting].max() for feed_T in feeds[1:]]
    shares = [after / before for before, after in pairwise(fed)]
    assert shares == pytest.approx([(room / 1.1) ** (1 / 0.78) for room in (0.99, 0.99, 0.98)])


def test_a_cut_is_regulated_row_by_row_and_an_overload_counts_once(timeline, taught):
    """Taught 2 kW above idling; 1, 4 and 2.5 kW come, smoothed to 1, 2.5 and 2.5, and more than 3 is an overload."""
    control = AdaptiveFeed(canonical(), LAW, timeline, taught[0])
    cut = int(timeline.cut_T[np.flatnonzero(timeline.cutting)[0]])
    control._references = {cut: (2.0, 10.0)}
    control.start(timeline, read_task(None, {"slew": 1.0}))
    place = float(np.flatnonzero(timeline.cut_T == cut)[0])
    sensors, commands, found = np.zeros((1, 17)), np.array([[3000.0, 10.0, 0.0, 0.0]]), []
    for above in (1.0, 4.0, 2.5):
        sensors[0, canonical().sensor_names.index("spindle_power")] = above + 0.18
        found.append(control.act(Moment(place, (1.0, 1.0), sensors, commands))[0])
    assert found == pytest.approx([1.2, 0.5, 0.8])
    (line,) = control.report.values()
    assert (line.overloads, line.seconds, line.highest) == pytest.approx((1, 3.0, 4.0))
    assert line.row["seconds_saved"] == pytest.approx(7.0)
    assert line.row["highest_percent"] == pytest.approx(200.0)
    assert line.row["mean_override_percent"] == pytest.approx(250.0 / 3.0)


@pytest.mark.parametrize(
    "setting", [{"reference": 1.01}, {"reference": 0.0}, {"overload": 1.0}, {"smoothing": 1.0}, {"level": 0.0}]
)
def test_a_control_that_could_not_regulate_is_refused(setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        AdaptiveConfig(**setting)
    assert AdaptiveConfig(reference=1.0, smoothing=0.0).reference == 1.0
