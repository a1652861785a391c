"""Estimates from logs against a world whose truth is known, and against the simulator's."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from crossfeed.control.offpolicy import (
    DecisionLog,
    LinearPolicy,
    LinearPolicyConfig,
    effective_size,
    judge,
    read_log,
    with_fitted_propensities,
)
from crossfeed.control.task import read_task
from crossfeed.control.trial import collect
from crossfeed.errors import ConfigError, TableError

STRETCHES = 4


def policy(shift: float = 0.0, slope: float = 0.0, spread: float = 0.04) -> LinearPolicy:
    return LinearPolicy(1.0 + shift, np.array([slope]), spread)


def world(chosen: LinearPolicy, runs: int, seed: int = 0) -> DecisionLog:
    """The state drifts with the override; the reward is quadratic in it and wants more where the state is low."""
    draw = np.random.default_rng(seed)
    state, override, reward = (np.empty((runs, STRETCHES)) for _ in range(3))
    now = 0.3 * draw.standard_normal(runs)
    for step in range(STRETCHES):
        state[:, step] = now
        override[:, step] = chosen.mean(now[:, None]) + chosen.spread * draw.standard_normal(runs)
        turned = (override[:, step] - 1.0) / 0.1
        reward[:, step] = 2.0 * turned - turned**2 - 0.5 * now * turned - now + 0.3 * draw.standard_normal(runs)
        now = 0.6 * now + 0.4 * turned + 0.1 * draw.standard_normal(runs)
    mean = chosen.intercept + state * chosen.weights_F[0]
    return DecisionLog(("load",), state[..., None], override, reward, mean, np.full(state.shape, chosen.spread))


def test_the_truth_lies_in_the_interval_for_most_policies():
    log, held, estimates = world(policy(), 400), 0, []
    targets = [policy(shift, slope) for shift in (-0.015, 0.0, 0.015) for slope in (-0.02, 0.02)]
    truths = [float(world(target, 20_000, 9).reward_NH.sum(1).mean()) for target in targets]
    for target, true in zip(targets, truths):
        estimate = judge(log, target, resamples=120)
        assert estimate.value is not None
        held += estimate.low <= true <= estimate.high
        estimates.append(estimate.value)
    assert held >= 4
    assert np.corrcoef(estimates, truths)[0, 1] > 0.8


def test_a_policy_far_from_the_log_is_refused_with_a_reason():
    estimate = judge(world(policy(), 60), policy(0.15))
    assert estimate.value is None
    assert estimate.effective < 10.0
    assert "runs would count" in estimate.refused


def test_equally_impossible_runs_do_not_count_as_equally_good_ones():
    assert effective_size(np.full(50, 1e-30)) < 1e-20
    assert judge(world(policy(), 60), policy(0.5, spread=0.01)).value is None


def test_propensities_can_be_fitted_to_the_log():
    log = world(policy(0.01, 0.03), 500)
    fitted = with_fitted_propensities(replace(log, mean_NH=np.zeros_like(log.mean_NH)))
    assert fitted.mean_NH == pytest.approx(log.mean_NH, abs=0.01)
    assert fitted.spread_NH.mean() == pytest.approx(0.04, rel=0.1)


def test_a_log_survives_its_file_and_bad_ones_are_explained(tmp_path):
    log = world(policy(), 20)
    log.write(tmp_path / "log.csv")
    again = read_log(tmp_path / "log.csv")
    assert again.override_NH == pytest.approx(log.override_NH)
    assert again.features == ("load",)
    replace(log, override_NH=np.ones_like(log.override_NH), spread_NH=np.zeros_like(log.spread_NH)).write(
        tmp_path / "b.csv"
    )
    with pytest.raises(TableError, match="hardly vary"):
        read_log(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("run,stretch,override,reward\n0,0,1,1\n0,1,1,1\n1,0,1,1\n")
    with pytest.raises(TableError, match="stretches"):
        read_log(tmp_path / "c.csv")
    with pytest.raises(ConfigError, match="does not have"):
        LinearPolicy.of(LinearPolicyConfig(weights={"colour": 1.0}), ("load",))


def test_few_runs_are_refused_and_equal_weights_count_fully():
    with pytest.raises(ConfigError, match="runs"):
        judge(world(policy(), 4), policy())
    assert effective_size(np.ones(7)) == pytest.approx(7.0)


def test_the_simulator_agrees_with_what_was_judged_from_its_log(piece, timeline):
    """A faster policy earns more, and the estimate made from dithered runs alone knows by how much."""
    task = read_task(None, {})
    around = LinearPolicy(1.0, np.zeros(2), 0.04)
    log = collect(piece, timeline, task, around, runs=40, stretch=13)
    faster = LinearPolicy(1.02, np.zeros(2), 0.04)
    true = float(collect(piece, timeline, task, faster, runs=40, stretch=13, seed=5).reward_NH.sum(1).mean())
    estimate = judge(log, faster)
    assert estimate.low - 0.25 <= true <= estimate.high + 0.25
    assert true > log.reward_NH.sum(1).mean()


def test_how_likely_an_override_was_is_the_density_of_its_dither():
    log = world(policy(0.01, 0.02), 5)
    expected = norm.logpdf(log.override_NH, log.mean_NH, log.spread_NH)
    assert log.log_density() == pytest.approx(expected)
    chosen = policy(0.02, -0.01)
    expected = norm.logpdf(log.override_NH, 1.02 - 0.01 * log.state_NHF[..., 0], chosen.spread)
    assert chosen.log_density(log.state_NHF, log.override_NH) == pytest.approx(expected)


def test_a_program_is_cut_into_stretches_of_twenty_places(piece, timeline):
    log = collect(piece, timeline, read_task(None, {}), LinearPolicy(1.0, np.zeros(2), 0.03), runs=1)
    assert log.override_NH.shape == (1, -(-len(timeline) // 20))
    assert log.state_NHF[0, 0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("runs", "stretch"), [(0, 13), (2, 0)])
def test_a_log_without_runs_or_stretches_is_refused(piece, timeline, runs, stretch):
    with pytest.raises(ConfigError, match=f"{runs} runs in stretches of {stretch} places"):
        collect(piece, timeline, read_task(None, {}), LinearPolicy(1.0, np.zeros(2), 0.04), runs, stretch)
