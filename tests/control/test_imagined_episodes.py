"""Imagined episodes: what a passed limit costs, and what the time and the energy of a step are worth."""

from dataclasses import replace

import numpy as np
import pytest

from crossfeed.control.imagined_episodes import PENALTY, ImaginedEpisodes, draw_branches
from crossfeed.control.load_forecast import CuttingLaw
from crossfeed.control.task import read_task
from crossfeed.schema import canonical
from tests.control.conftest import HORIZONS, logged, small_model

LAW = CuttingLaw({"spindle_torque": (0.2, 1e-4), "spindle_power": (0.0, 1e-4)})


def imagined(limit, tool=""):
    limits = [f"spindle_torque<={limit}"]
    where = {"tools": {tool: limits}} if tool else {"limits": limits}
    task = read_task(None, {**where, "objective": {"base_load": "1.4 kW"}})
    branches = draw_branches(small_model(logged()), logged(), task, count=12)
    return ImaginedEpisodes(branches, LAW, task, canonical(), 24, seed=1)


def test_a_passed_limit_costs_as_much_again_for_each_height_above_it():
    loose, tight = imagined(1000.0), imagined(0.8)
    column = loose.branches.sensors.index("spindle_torque")
    passed = 0
    for _ in range(6):
        free, held = (each.step(np.zeros((24, 1))) for each in (loose, tight))
        load = loose._load_BP[:, column]
        np.testing.assert_array_equal(tight._load_BP[:, column], load)
        above = held.info["passed"]
        assert not free.info["passed"].any()
        assert not above[load <= 0.8].any()
        expected = np.where(above, PENALTY * (1.0 + (load / 0.8 - 1.0)), 0.0)
        assert free.reward_B - held.reward_B == pytest.approx(expected)
        passed += int(above.sum())
    assert passed > 5


def test_disagreement_beyond_the_usual_costs_by_how_far_a_knob_is_turned():
    rewards, turned = {}, 0.0
    for doubt in (0.3, 1.0, 3.0):
        episodes = imagined(1000.0)
        episodes.branches = replace(episodes.branches, doubt_BT=np.full_like(episodes.branches.doubt_BT, doubt))
        rewards[doubt] = episodes.step(np.linspace(-1.0, 1.0, 24)[:, None]).reward_B
        turned = np.abs(episodes.knobs_B2 - 1.0).max(axis=1)
    assert turned.max() > 0.05
    np.testing.assert_array_equal(rewards[0.3], rewards[1.0])
    assert rewards[1.0] - rewards[3.0] == pytest.approx(0.2 * turned * 2.0)
    loose = imagined(1000.0)
    loose.branches = replace(loose.branches, doubt_BT=np.zeros_like(loose.branches.doubt_BT))
    stepped = loose.step(np.ones((24, 1)))
    pace = loose.rows_done_B
    expected = loose.task.time_price * (pace - 1.0) - loose.task.energy_price * stepped.info["energy"]
    assert stepped.reward_B == pytest.approx(expected)


def test_an_episode_lasts_as_many_rows_as_the_model_sees_ahead():
    episodes = imagined(1000.0)
    done = [episodes.step(np.zeros((24, 1))).done_B.all() for _ in range(HORIZONS[-1])]
    assert done == [False] * (HORIZONS[-1] - 1) + [True]
    episodes.reset(np.arange(24) < 10)
    assert episodes.rows_done_B.tolist() == [0.0] * 10 + [float(HORIZONS[-1])] * 14


def test_where_no_limit_holds_none_is_passed():
    everywhere, free = imagined(0.001), imagined(1000.0)
    elsewhere = imagined(0.001, "T9")
    rewards = [each.step(np.zeros((24, 1))).reward_B for each in (elsewhere, free, everywhere)]
    np.testing.assert_array_equal(rewards[0], rewards[1])
    assert (rewards[2] < rewards[1] - PENALTY + 1e-9).any()
