"""Paths that are sampled row after row: whom they follow, where they stand, and the chance they share."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.logs.table import Group, Table
from crossfeed.model.distribution import Mixture
from crossfeed.model.jepa.predictor import Head
from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig
from crossfeed.model.presets import mended, paper
from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.history import read_history
from crossfeed.scenarios.plan import PlannedCommands
from crossfeed.scenarios.rollout import (
    CONTEXTS,
    FEWEST,
    PERSISTENCE,
    Rollout,
    followed_paths,
    levels,
    shared_chance,
    standard_noise,
)
from crossfeed.training.run import train
from tests.evaluation.conftest import small_config
from tests.evaluation.small_machine import CONTEXT, HORIZONS, SCHEMA, normaliser_of, small_table
from tests.scenarios.conftest import Place, make_model

STEPS = 20
NOISE = standard_noise(24, STEPS, 3, 0, 0.8)
ALONE = {"sensors": {"members": 1}}  # what a model of several says is not what any of them says
CENTRED = InstanceNorm(InstanceNormConfig(kind="centred"))


def some_plan(steps: int = STEPS) -> PlannedCommands:
    speeds = np.repeat([0.0, 1000.0, 3000.0, 1000.0], -(-steps // 4))[:steps]
    return PlannedCommands("some", "array", None, np.stack([speeds, speeds / 5.0], 1))


@pytest.fixture
def rollout(place: Place) -> Rollout:
    return Rollout(place.opened.model, read_history(place.table, place.opened.model, at=30.0))


@given(samples=st.integers(20, 90), read=st.integers(2, 40))
def test_paths_that_are_read_follow_themselves_and_mirrored_ones_follow_mirrored_ones(samples: int, read: int) -> None:
    follows_N, pairs = followed_paths(samples, read), (samples + 1) // 2
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
    counts = np.bincount(member_N[followed_paths(samples) == np.arange(samples)])
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


@settings(max_examples=20)
@given(short=st.integers(1, 20), more=st.integers(0, 20), seed=st.integers(0, 1000), samples=st.integers(FEWEST, 41))
def test_a_longer_plan_begins_with_the_draws_of_a_shorter_one(short: int, more: int, seed: int, samples: int) -> None:
    first = standard_noise(samples, short, 3, seed, 0.8)
    second = standard_noise(samples, short + more, 3, seed, 0.8)
    assert first.shape == (samples, short, 3)
    np.testing.assert_array_equal(first, second[:, :short])


def test_paths_come_in_mirrored_pairs() -> None:
    noise = standard_noise(64, 30, 2, 0, 0.8)
    np.testing.assert_array_equal(noise[:32], -noise[32:])
    np.testing.assert_allclose(noise.mean(0), 0.0, atol=1e-12)


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.9, PERSISTENCE])
def test_every_row_has_unit_spread_and_the_persistence_asked_for(persistence: float) -> None:
    noise = standard_noise(4000, 12, 2, 1, persistence)
    np.testing.assert_allclose(noise.std(0), 1.0, atol=0.06)
    following = (noise[:, 1:] * noise[:, :-1]).mean()
    assert following == pytest.approx(persistence, abs=0.03)


def test_seeds_differ() -> None:
    assert (standard_noise(20, 5, 1, 0, 0.8) != standard_noise(20, 5, 1, 1, 0.8)).all()


def test_too_few_samples_and_endless_persistence_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 20"):
        standard_noise(FEWEST - 1, 5, 1, 0, 0.8)
    with pytest.raises(ConfigError, match="0 to below 1"):
        standard_noise(FEWEST, 5, 1, 0, 1.0)


def test_plans_share_their_chance_where_their_commands_agree() -> None:
    first = np.array([[1000.0, 0.0], [1000.0, 500.0], [1000.0, 500.0], [1000.0, 500.0]])
    other = np.array([[1000.0, 0.0], [1000.0001, 500.0], [1000.0, 450.0], [1000.0, 0.0], [0.0, 0.0]])
    shared = shared_chance(first, other, np.array([1000.0, 1000.0]))
    assert shared[:2].tolist() == [1.0, 1.0]
    assert shared[2] == pytest.approx(np.exp(-0.99), abs=1e-3)
    assert shared[3] < 1e-4
    assert shared[4] == 0.0
    # A hundredth of the scale is what a small command is compared with.
    slow = shared_chance(np.array([[0.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([1000.0, 1000.0]))
    assert slow == pytest.approx(np.exp(-0.99))
    # Noise around a standstill is no change of plan.
    assert shared_chance(first * 0.0, first * 0.0 + 1e-3, np.array([1000.0, 1000.0])).tolist() == [1.0] * 4


def test_futures_fork_where_plans_fork_and_keep_their_spread() -> None:
    shared = np.repeat([1.0, 0.0], 10)
    here = standard_noise(4000, 20, 1, 0, 0.5)[..., 0]
    there = standard_noise(4000, 20, 1, 0, 0.5, shared)[..., 0]
    np.testing.assert_array_equal(here[:, :10], there[:, :10])
    together = [np.corrcoef(here[:, row], there[:, row])[0, 1] for row in (10, 19)]
    assert together == pytest.approx([0.25, 0.0], abs=0.06)
    np.testing.assert_allclose(there.std(0), 1.0, atol=0.06)


def test_the_chance_that_is_not_shared_is_that_of_the_seed_as_well() -> None:
    """Held still: the numbers behind a forecast are the same wherever and whenever its seed is named."""
    noise = standard_noise(20, 3, 1, 7, PERSISTENCE, np.array([1.0, 0.6, 0.0]))
    np.testing.assert_allclose(noise[0, :, 0], [0.00123015335748, -0.338033892703, -0.826183842904], rtol=1e-9)
    np.testing.assert_allclose(noise[13, :, 0], [0.890591838757, 0.931567869807, 0.849450087558], rtol=1e-9)


def test_with_one_window_measured_every_path_has_its_level() -> None:
    x_RC = torch.arange(8.0)[:, None].expand(-1, 2)
    found = levels(CENTRED.statistics, x_RC, context=8, samples=20)
    assert found is not None
    torch.testing.assert_close(found.centre_BC, torch.full((20, 2), 3.5))


def test_levels_are_spread_over_the_last_windows_and_no_further() -> None:
    x_RC = torch.arange(100.0)[:, None]
    found = levels(CENTRED.statistics, x_RC, context=10, samples=21)
    assert found is not None
    centre_N = found.centre_BC[:, 0]
    assert centre_N[0] == 94.5
    assert centre_N.min() == 100.0 - 10 * CONTEXTS + 4.5
    # Eleven pairs; the last path has no twin.
    torch.testing.assert_close(centre_N[:10], centre_N[11:])
    assert len(set(centre_N.tolist())) == 11


@pytest.mark.parametrize("samples", [20, 21])
def test_mirrored_paths_share_a_level(samples: int) -> None:
    found = levels(CENTRED.statistics, torch.arange(100.0)[:, None], context=10, samples=samples)
    assert found is not None
    centre_N, pairs = found.centre_BC[:, 0], (samples + 1) // 2
    torch.testing.assert_close(centre_N[: samples - pairs], centre_N[pairs:])
    assert len(set(centre_N[:pairs].tolist())) == pairs


def test_a_window_that_lacks_a_sensor_borrows_the_newest_level() -> None:
    x_RC = torch.full((40, 2), 5.0)
    x_RC[:30, 0] = torch.nan
    x_RC[:, 1] = torch.nan
    found = levels(CENTRED.statistics, x_RC, context=10, samples=20)
    assert found is not None
    torch.testing.assert_close(found.centre_BC[:, 0], torch.full((20,), 5.0))
    torch.testing.assert_close(found.centre_BC[:, 1], torch.zeros(20))


@pytest.mark.parametrize("kind", ["pure", "floored", "blended", "split"])
def test_scales_are_levels_too(kind: str) -> None:
    norm = InstanceNorm(InstanceNormConfig.model_validate({"kind": kind}))
    found = levels(
        norm.statistics, torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), context=8, samples=30
    )
    assert found is not None
    assert found.scale_BC.shape == (30, 3)
    assert (found.scale_BC > 0.0).all()


def test_without_instance_normalisation_there_is_no_level() -> None:
    assert levels(InstanceNorm(InstanceNormConfig(kind="none")).statistics, torch.zeros(20, 2), 8, 20) is None
