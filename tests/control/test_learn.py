"""Policies learned in the model: better than nothing there, and unable to leave their limits anywhere."""

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="the extra `control` is not installed")


from crossfeed.control.imagined_episodes import ImaginedEpisodes
from crossfeed.control.learn import BranchVecEnv, LearnConfig, _layers, _learner, learn
from crossfeed.control.policy import LearnedPolicy
from crossfeed.control.task import read_task
from crossfeed.errors import CheckpointError
from tests.control.conftest import logged, small_model

TASK = read_task(None, {"limits": ["spindle_torque<=400"], "objective": {"base_load": "1.4 kW"}})


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    file = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    config = LearnConfig(steps=8_000, seeds=1, copies=32, branches=8, learning_rate=3e-3)
    return learn(small_model(logged()), logged(), TASK, config, file), file


def test_far_from_every_limit_it_learns_to_go_faster(learned):
    about = learned[0].about
    assert about["earned"] > about["as_written"] + 0.01


def test_the_file_says_the_same_as_the_policy(learned):
    policy, file = learned
    again = LearnedPolicy.load(file)
    seen = np.random.default_rng(0).standard_normal((5, 9)).astype(np.float32)
    assert again.action(seen) == pytest.approx(policy.action(seen), abs=1e-6)
    assert again.task == TASK


def test_the_exported_network_does_what_the_learner_does():
    """PPO leaves the squashing of actions to its environment; the file has it built in."""
    branches = ImaginedEpisodes.of_log(small_model(logged()), logged(), TASK, 8, 4)
    learner = _learner(BranchVecEnv(branches), LearnConfig(copies=8), 0)
    learner.learn(256)
    seen = branches.reset(np.ones(8, dtype=bool))
    action, _ = learner.predict(seen, deterministic=True)
    exported = LearnedPolicy(_layers(learner), TASK, {}).action(seen)
    assert exported == pytest.approx(np.tanh(action), abs=1e-5)


def test_whatever_the_network_says_the_knobs_stay_in_range_and_turn_slowly():
    wild = LearnedPolicy(((np.full((1, 9), 50.0), np.zeros(1)),), TASK, {})
    now = (1.0, 1.0)
    for seen in np.random.default_rng(1).standard_normal((60, 9)):
        after = wild.knobs(seen, now, used=0.2)
        assert TASK.feed.min - 1e-9 <= after[0] <= TASK.feed.max + 1e-9
        assert abs(after[0] - now[0]) <= TASK.slew + 1e-9
        now = after
    assert wild.knobs(np.ones(9), (1.0, 1.0), used=0.99)[0] <= 1.0


def test_a_file_that_is_no_policy(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="cannot be read"):
        LearnedPolicy.load(tmp_path / "x.safetensors")
