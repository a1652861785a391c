"""Environments that Gymnasium's own checker accepts, and that say what the trials say."""

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="the extra `control` is not installed")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from crossfeed.control.environments import (  # noqa: E402
    MachineEnvironment,
    ModelVectorEnvironment,
)
from crossfeed.control.machine import MachineRun  # noqa: E402
from crossfeed.control.task import read_task  # noqa: E402
from crossfeed.schema import canonical  # noqa: E402
from tests.control.conftest import logged, small_model  # noqa: E402

TASK = read_task(None, {"limits": ["spindle_torque<=40"], "objective": {"base_load": "1.4 kW"}})


@pytest.fixture(scope="module")
def model():
    return small_model(logged())


def test_the_machine_passes_the_checker(files):
    check_env(MachineEnvironment(str(files.program), task=TASK), skip_render_check=True)


def test_both_can_be_made_by_name(files, model):
    name = "crossfeed.control.environments:crossfeed/Machine-v0"
    machine = gymnasium.make(name, program=str(files.program), task=TASK)
    seen, _ = machine.reset(seed=1)
    many = gymnasium.make_vec("crossfeed/Model-v0", model=model, table=logged(), task=TASK, branches=4, num_envs=3)
    rows, _ = many.reset(seed=1)
    assert rows.shape == (3, *seen.shape)


def test_rewards_add_up_to_what_was_saved(files):
    environment = MachineEnvironment(str(files.program), task=TASK)
    environment.reset(seed=0)
    total = taken = energy = 0.0
    done = False
    while not done:
        _, reward, done, _, info = environment.step(np.array([1.0]))
        total, taken, energy = total + reward, taken + info["seconds"], energy + info["energy"]
    assert total == pytest.approx(environment._run.position - taken - TASK.energy_price * energy, abs=1e-6)
    assert taken < environment._run.position


def test_a_limit_costs_where_it_is_passed(files):
    tight = read_task(None, {"limits": ["spindle_torque<=0.3"]})
    rewards = []
    for task in (TASK, tight):
        environment = MachineEnvironment(str(files.program), task=task)
        environment.reset(seed=0)
        steps = [environment.step(np.zeros(1)) for _ in range(16)]
        rewards.append(sum(step[1] for step in steps))
    assert rewards[1] < rewards[0] - 5.0


def test_a_member_for_every_episode_and_their_disagreement_in_info(model):
    environment = ModelVectorEnvironment(model, logged(), 16, TASK, branches=6)
    environment.reset(seed=3)
    assert set(environment.episodes.member_B.tolist()) == {0, 1}
    _, _, _, _, info = environment.step(np.zeros((16, 1)))
    assert (info["disagreement"] > 0.0).all()


def test_no_knob_moves_faster_than_its_slew_in_imagination(model):
    environment = ModelVectorEnvironment(model, logged(), 8, TASK, branches=4)
    environment.reset(seed=0)
    before = environment.episodes.knobs_B2.copy()
    environment.step(np.ones((8, 1)))
    assert np.abs(environment.episodes.knobs_B2 - before).max() <= TASK.slew + 1e-12


def test_an_ended_branch_begins_anew_with_the_next_step(model):
    environment = ModelVectorEnvironment(model, logged(), 4, TASK, branches=4)
    environment.reset(seed=0)
    ended = np.zeros(4, dtype=bool)
    for _ in range(30):
        _, reward, _, truncated, _ = environment.step(np.ones((4, 1)))
        assert (reward[ended] == 0.0).all()
        assert (environment.episodes.rows_done_B[ended] == 0.0).all()
        ended = truncated
    assert environment.episodes.rows_done_B.max() < 40.0


def test_the_energy_of_a_step_is_that_of_the_time_it_took(files):
    """The last row of a program is shorter than the others."""
    environment = MachineEnvironment(str(files.program), task=TASK)
    environment.reset(seed=0)
    beside, done, seconds = MachineRun(environment.piece, environment._run.state), False, []
    powers = [n for n, channel in enumerate(canonical().sensors) if channel.quantity == "power"]
    while not done:
        _, _, done, _, info = environment.step(np.zeros(1))
        row = beside.step(1.0, 1.0)
        assert info["energy"] == pytest.approx((row.truth[powers].sum() + 1.4) * row.seconds / 3600.0)
        seconds.append(row.seconds)
    assert seconds[-1] < 0.5
