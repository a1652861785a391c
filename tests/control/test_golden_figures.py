"""Figures of control, held still: what runs took, what judging a log says, what a policy sees, what branches bring."""

import numpy as np
import pytest

from crossfeed.control.imagined_episodes import ImaginedEpisodes, draw_branches
from crossfeed.control.load_forecast import CuttingLaw
from crossfeed.control.offpolicy import LinearPolicy, judge, with_fitted_propensities
from crossfeed.control.policy import PolicyFeatures
from crossfeed.control.task import read_task
from crossfeed.control.trial import Trial, along, collect, cost_by_place, idle_start, passed_by_place, trial
from crossfeed.schema import canonical
from tests.control.conftest import logged, small_model
from tests.control.test_offpolicy import policy, world

LAW = CuttingLaw({"spindle_power": (0.0, 6e-5), "spindle_torque": (0.2, 1e-4)})
SETTINGS = {"objective": {"minimise": "cost", "base_load": "1.4 kW"}, "limits": ["spindle_torque<=0.9"]}
RUNS = {
    "as written": [24.08, 11.1847741, 24.2477716, 7.0, 15.0, 285.0, 136.197708, 40.0],
    "wavy": [24.92, 11.5702482, 25.0935537, 7.0, 16.0, 283.8854, 139.683133, 48.0],
}
JUDGED = [0.300639989, 0.0677202013, 0.699283768, 28.8151188]
COLLECTED = [
    5.85504368,
    69.5523197,
    -1038.48564,
    68.4644604,
]
SEEN = [
    108.9,
    50.1501144,
    34.279298,
    114.02,
    30.2687017,
    35.5599607,
    124.2,
]
GROWN = {
    "mean_EBTP": 2332.20792,
    "spread_BTP": 310.271539,
    "doubt_BT": 356.227302,
    "load_BP": 138.49235,
    "seen": 215.660112,
    "reward 0": -392.513854,
    "reward 1": -438.547036,
    "reward 2": -490.772278,
    "reward 3": -543.545064,
    "knobs": 134.872727,
    "rows done": 270.309091,
}


def spread_out(values: np.ndarray) -> float:
    """One number in which every place counts differently."""
    flat = np.asarray(values, dtype=float).ravel()
    return float(flat @ (1.0 + np.arange(len(flat)) % 11))


def test_runs_take_what_they_took(piece, timeline) -> None:
    task, (_, state), places = read_task(None, SETTINGS), idle_start(piece), np.arange(len(timeline))
    ones = np.ones(len(timeline))
    taught = trial(piece, timeline, task, along(ones, ones), state)
    wavy = along(1.0 + 0.2 * np.sin(places / 3.0), 1.0 + 0.05 * np.cos(places / 4.0))
    runs: dict[str, Trial] = {"as written": taught, "wavy": trial(piece, timeline, task, wavy, state)}
    found = {
        name: [
            run.seconds, run.energy, run.cost, run.passed, run.cutting, spread_out(run.knobs),
            spread_out(cost_by_place(run, timeline, task)), spread_out(passed_by_place(run, timeline, task)),
        ]
        for name, run in runs.items()
    }  # fmt: skip
    assert found == {name: pytest.approx(figures, rel=1e-6) for name, figures in RUNS.items()}


def test_a_log_is_judged_as_it_was() -> None:
    log = with_fitted_propensities(world(policy(0.01, 0.02), 60))
    estimate = judge(log, policy(0.02, -0.01), resamples=30)
    assert [estimate.value, estimate.low, estimate.high, estimate.effective] == pytest.approx(JUDGED, rel=1e-6)


def test_dithered_runs_earn_what_they_earned(piece, timeline) -> None:
    chosen = LinearPolicy(1.02, np.array([-0.05, 0.3]), 0.03)
    log = collect(piece, timeline, read_task(None, SETTINGS), chosen, runs=3, stretch=7, seed=2)
    found = [spread_out(part) for part in (log.state_NHF, log.override_NH, log.reward_NH, log.mean_NH)]
    assert found == pytest.approx(COLLECTED, rel=1e-6)


def test_a_policy_sees_what_it_saw(timeline) -> None:
    features = PolicyFeatures.of(timeline, read_task(None, SETTINGS).limits_of(canonical()))
    found = [*(spread_out(column) for column in features.plan_TF.T), spread_out(features.highest_TL)]
    assert found == pytest.approx(SEEN, rel=1e-6)


def test_branches_bring_what_they_brought() -> None:
    task = read_task(None, SETTINGS)
    branches = draw_branches(small_model(logged()), logged(), task, count=8, seed=4)
    found = {name: spread_out(getattr(branches, name)) for name in ("mean_EBTP", "spread_BTP", "doubt_BT", "load_BP")}
    episodes = ImaginedEpisodes(branches, LAW, task, canonical(), 12, seed=3)
    found["seen"] = spread_out(episodes.observation())
    for step in range(4):
        stepped = episodes.step(np.linspace(-1.0, 1.0, 12)[:, None] * (-1.0) ** step)
        found[f"reward {step}"] = spread_out(stepped.reward_B)
    found |= {"knobs": spread_out(episodes.knobs_B2), "rows done": spread_out(episodes.rows_done_B)}
    assert found == pytest.approx(GROWN, rel=2e-4)
