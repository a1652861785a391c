from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossfeed.distribution import Mixture
from crossfeed.errors import ConfigError, ForecastError
from crossfeed.ingest.table import Group, Table
from crossfeed.model.jepa.predictor import Head
from crossfeed.model.presets import mended, paper
from crossfeed.model.world_model import WorldModel
from crossfeed.serving.history import read_history
from crossfeed.serving.noise import standard_noise
from crossfeed.serving.plan import PlannedCommands
from crossfeed.serving.rollout import Rollout, company
from crossfeed.training.run import train
from tests.evaluation.conftest import small_config
from tests.evaluation.small_machine import CONTEXT, HORIZONS, SCHEMA, normaliser_of, small_table
from tests.serving.conftest import Place, make_model

STEPS = 20
NOISE = standard_noise(24, STEPS, 3, 0, 0.8)
ALONE = {"sensors": {"members": 1}}  # what a model of several says is not what any of them says


def some_plan(steps: int = STEPS) -> PlannedCommands:
    speeds = np.repeat([0.0, 1000.0, 3000.0, 1000.0], -(-steps // 4))[:steps]
    return PlannedCommands("some", "array", None, np.stack([speeds, speeds / 5.0], 1))


@pytest.fixture
def rollout(place: Place) -> Rollout:
    return Rollout(place.opened.model, read_history(place.table, place.opened.model, at=30.0))


@given(samples=st.integers(20, 90), read=st.integers(2, 40))
def test_paths_that_are_read_follow_themselves_and_mirrored_ones_follow_mirrored_ones(samples: int, read: int) -> None:
    follows_N, pairs = company(samples, read), (samples + 1) // 2
    read_G = np.unique(follows_N)
    assert len(read_G) <= max(2, read)
    assert (follows_N[read_G] == read_G).all()
    mirrored = np.arange(pairs, samples)
    np.testing.assert_array_equal(follows_N[mirrored], follows_N[mirrored - pairs] + pairs)
    counts = np.unique(follows_N, return_counts=True)[1]
    assert counts.max() - counts.min() <= 1 + samples % 2


def test_a_model_without_horizon_one_cannot_be_rolled(place: Place) -> None:
    model = make_model(place.table, horizons=(2, 4))
    with pytest.raises(ConfigError, match="shortest horizon of this model is 2 rows"):
        Rollout(model, read_history(place.table, model))


@pytest.mark.parametrize("network", ["sensors", "jepa"])
def test_at_trained_horizons_the_samples_are_the_models_own_forecast(place: Place, network: str) -> None:
    model = make_model(place.table, network, **ALONE.get(network, {}))
    # With no more than the context at hand, the level is that of the window.
    rollout = Rollout(model, read_history(place.table, model, at=CONTEXT - 1.0))
    plan = some_plan()
    paths = rollout.sample(plan, NOISE)
    history = np.concatenate([rollout.history.sensors, rollout.history.commands], 1)
    direct = model.forecast(history, plan.commands[: HORIZONS[-1]])
    rows = [horizon - 1 for horizon in HORIZONS]
    for slot, row in enumerate(rows):
        wanted = direct.distribution[slot].draw(torch.from_numpy(NOISE[:, row]))
        np.testing.assert_allclose(paths[:, row], wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("network", ["sensors", "jepa"])
def test_rows_between_the_trained_horizons_are_asked_at_the_next_one_after_waiting(place: Place, network: str) -> None:
    model = make_model(place.table, network, **ALONE.get(network, {}))
    rollout = Rollout(model, read_history(place.table, model, at=CONTEXT - 1.0))
    plan, row = some_plan(), 3
    paths = rollout.sample(plan, NOISE)
    history = np.concatenate([rollout.history.sensors, rollout.history.commands], 1)
    longer = np.concatenate([rollout.history.commands[-1:], plan.commands[:3]])
    direct = model.forecast(history, longer, horizons=[4])
    wanted = direct.distribution[0].draw(torch.from_numpy(NOISE[:, row - 1]))
    np.testing.assert_allclose(paths[:, row - 1], wanted, rtol=1e-3, atol=1e-3)


def test_plans_are_rolled_together_as_each_alone_whatever_the_number_of_cores(place: Place) -> None:
    model = make_model(place.table)
    rollout, plans = Rollout(model, read_history(place.table, model)), [some_plan(), some_plan(7)]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        together = rollout.sample_all(plans, [NOISE, NOISE])
        assert torch.get_num_threads() == 3
        torch.set_num_threads(1)
        alone = [rollout.sample(plan, NOISE) for plan in plans]
    finally:
        torch.set_num_threads(before)
    for one, two in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("samples", [20, 21, 64, 200, 201])
def test_mirrored_paths_are_followed_by_the_same_member_and_every_path_by_one(place: Place, samples: int) -> None:
    model = make_model(place.table, members=3)
    shares = Rollout(model, read_history(place.table, model))._shares(samples)
    assert sorted(np.concatenate([share.samples_S for share in shares]).tolist()) == list(range(samples))
    member_N = np.empty(samples, dtype=int)
    for share in shares:
        member_N[share.samples_S] = share.member
    pairs = (samples + 1) // 2
    np.testing.assert_array_equal(member_N[pairs:], member_N[: samples - pairs])
    assert set(member_N.tolist()) == {0, 1, 2}
    counts = np.bincount(member_N[company(samples) == np.arange(samples)])
    assert counts.max() - counts.min() <= 2, "each member reads about as many"


def test_nobody_waiting_stops_all_cores(rollout: Rollout) -> None:
    asked = []

    def go_on() -> None:
        asked.append(1)
        if len(asked) > 2:
            raise ForecastError("nobody waits")

    with pytest.raises(ForecastError, match="nobody waits"):
        rollout.sample_all([some_plan(200)] * 3, [standard_noise(24, 200, 3, 0, 0.8)] * 3, go_on)
    assert len(asked) < 20


@settings(max_examples=8)
@given(change=st.integers(1, STEPS - 1), value=st.floats(0.0, 5000.0))
def test_a_later_change_of_the_plan_changes_nothing_before_it(change: int, value: float) -> None:
    table = small_table(runs=6, rows=60)
    model = make_model(table)
    rollout = Rollout(model, read_history(table, model, at=30.0))
    plan = some_plan()
    commands = plan.commands.copy()
    commands[change:] += value + 1.0
    before, after = rollout.sample(plan, NOISE), rollout.sample(replace(plan, commands=commands), NOISE)
    np.testing.assert_array_equal(before[:, :change], after[:, :change])
    assert (before[:, change:] != after[:, change:]).any()


def test_a_shorter_plan_is_the_beginning_of_a_longer_one(rollout: Rollout) -> None:
    long, short = rollout.sample(some_plan(), NOISE), rollout.sample(some_plan().first(7), NOISE)
    np.testing.assert_allclose(long[:, :7], short, rtol=1e-5, atol=1e-5)


def test_nothing_after_the_moment_is_read(place: Place) -> None:
    model, table = place.opened.model, place.table
    sensors, commands = table.sensors.copy(), table.commands.copy()
    sensors[331:], commands[331:] = 1e30, np.nan
    spoiled = replace(table, sensors=sensors, commands=commands)
    here, there = (Rollout(model, read_history(t, model, at=30.0)).sample(some_plan(), NOISE) for t in (table, spoiled))
    np.testing.assert_array_equal(here, there)


def test_absent_sensors_stay_absent_and_are_not_read(place: Place) -> None:
    model = place.opened.model
    without = Rollout(model, read_history(place.table.without(["current"]), model))
    assert without.present.tolist() == [False, True, True]
    paths = without.sample(some_plan(), NOISE)
    assert np.isnan(paths[..., 0]).all()
    assert np.isfinite(paths[..., 1:]).all()
    other = NOISE.copy()
    other[..., 0] = 1e6
    np.testing.assert_array_equal(paths, without.sample(some_plan(), other))


def test_a_peak_before_the_forecast_does_not_pass_for_the_level(place: Place) -> None:
    model = place.opened.model
    sensors = place.table.sensors.copy()
    sensors[-CONTEXT:-2] += 50.0
    spiked = replace(place.table, sensors=sensors)
    calm, after = (Rollout(model, read_history(t, model)).sample(some_plan(), NOISE) for t in (place.table, spiked))
    lifted = (after - calm).mean(axis=(0, 1))
    assert (np.abs(lifted) < 25.0).all()


def test_a_sensor_missing_for_a_while_is_forecast_again(place: Place) -> None:
    sensors = place.table.sensors.copy()
    sensors[-3:, 1] = np.nan
    model = place.opened.model
    paths = Rollout(model, read_history(replace(place.table, sensors=sensors), model)).sample(some_plan(), NOISE)
    assert np.isfinite(paths).all()


@pytest.mark.parametrize("kind", ["none", "pure", "floored", "split"])
def test_every_kind_of_instance_normalisation_can_be_rolled(place: Place, kind: str) -> None:
    norm = mended().jepa.instance_norm.model_copy(update={"kind": kind})
    model = make_model(place.table, "jepa", instance_norm=norm)
    assert np.isfinite(Rollout(model, read_history(place.table, model)).sample(some_plan(), NOISE)).all()


def test_a_model_that_knows_its_horizons_by_slot_can_be_rolled(place: Place) -> None:
    config = paper("tiny").model.model_copy(update={"context": CONTEXT, "horizons": HORIZONS})
    model = WorldModel.build(config, SCHEMA, normaliser_of(place.table)).eval()
    assert np.isfinite(Rollout(model, read_history(place.table, model)).sample(some_plan(), NOISE)).all()


def test_a_mixture_is_drawn_from_by_its_components(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def two_ways(_: Head, mean_BHC: Tensor, log_variance_BHC: Tensor) -> Mixture:
        mean_M, scale_M = torch.stack([mean_BHC, mean_BHC + 3.0], -1), torch.exp(0.5 * log_variance_BHC)[..., None]
        return Mixture(torch.tensor([0.0, -1.0]), mean_M, scale_M * torch.tensor([0.1, 1.0]))

    monkeypatch.setattr(Head, "distribution", two_ways)
    model = make_model(place.table, "jepa")
    history, plan = read_history(place.table, model, at=CONTEXT - 1.0), some_plan()
    paths = Rollout(model, history).sample(plan, NOISE)
    direct = model.forecast(np.concatenate([history.sensors, history.commands], 1), plan.commands[: HORIZONS[-1]])
    wanted = direct.distribution[0].draw(torch.from_numpy(NOISE[:, 0]))
    np.testing.assert_allclose(paths[:, 0], wanted, rtol=1e-3, atol=1e-3)
    assert (direct.median != direct.mean).all()


def test_forecasts_that_are_no_numbers_are_an_error(rollout: Rollout) -> None:
    with pytest.raises(ForecastError, match="no longer numbers"):
        rollout.sample(some_plan(), np.full_like(NOISE, np.nan))


def wandering_table() -> Table:
    """Sensors that wander at random, so that nobody can know them far ahead."""
    random = np.random.default_rng(0)
    rows, runs = 80, 12
    sensors = np.cumsum(random.normal(size=(runs, rows, 3)), axis=1).reshape(-1, 3)
    commands = np.repeat(random.choice([0.0, 1000.0], size=(runs * rows // 8, 2)), 8, axis=0)
    groups = tuple(Group("mill", f"s{n}", f"r{n}", "p", n * rows, (n + 1) * rows) for n in range(runs))
    return Table(SCHEMA, groups, np.tile(np.arange(float(rows)), runs), sensors, commands, 1.0, {})


def test_uncertainty_grows_with_the_distance(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = wandering_table()
    config = small_config()
    training = config.training.model_copy(
        update={"finetune_epochs": 3, "steps_per_epoch": 30, "learning_rate": 0.002, "warmup_steps": 10}
    )
    result = train(
        table, config.model_copy(update={"training": training}), tmp_path_factory.mktemp("walk") / "run", device="cpu"
    )
    model = WorldModel.load(result.model)
    noise = standard_noise(64, 48, 3, 0, 0.8)
    spreads = []
    for session in ("s0", "s5", "s11"):
        moment = read_history(table, model, session, at=40.0)
        spreads.append(Rollout(model, moment).sample(some_plan(48), noise).std(0).mean(1))
    spread = np.mean(spreads, axis=0)
    assert spread[0] < spread[3] < spread[7:12].mean() < spread[40:].mean()
