"""Counterfactuals on the simulator: same past, other futures, and an oracle that foresees them all."""

import numpy as np
import pytest
import torch

from crossfeed.evaluation.forecaster import Forecaster, naive_baselines
from crossfeed.logs.table import Table
from crossfeed.model.distribution import Gaussian
from crossfeed.schema import canonical
from crossfeed.sim.counterfactual import ALTERATIONS, FACTUAL, _rows, counterfactual_error, counterfactual_tables
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.dynamics import Physics
from crossfeed.sim.physics.parameters import MachineParameters
from crossfeed.sim.physics.rollout import SimulatedMachine, Trace
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from crossfeed.windows.windows import WindowBatch

CONTEXT, HORIZONS = 12, (1, 4, 8)


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return counterfactual_tables(
        SimulatedMachine(machine_named("spinner_630")), CONTEXT, 8, cases_per_job=3, seconds=90
    )


@pytest.fixture(scope="module")
def normaliser(tables: dict[str, Table]) -> Normaliser:
    table = tables[FACTUAL]
    return Normaliser.fit(split_table(table).train_rows(table))


def test_every_alteration_shares_the_past_and_changes_the_future(tables: dict[str, Table]) -> None:
    factual = tables[FACTUAL]
    length = CONTEXT + 8
    past = np.arange(len(factual)) % length < CONTEXT
    assert set(tables) == {FACTUAL, *ALTERATIONS}
    assert {len(group) for group in factual.groups} == {length}
    assert factual.present().sum() == 10
    for name in ALTERATIONS:
        np.testing.assert_array_equal(tables[name].sensors[past], factual.sensors[past])
        np.testing.assert_array_equal(tables[name].commands[past], factual.commands[past])
        assert (tables[name].commands[~past] != factual.commands[~past]).any()
        assert not np.array_equal(tables[name].sensors[~past], factual.sensors[~past], equal_nan=True)
    assert not tables["spindle stop"].commands[~past].any()


def test_other_commands_are_told_as_asked_and_an_override_as_the_control_makes_it(tables: dict[str, Table]) -> None:
    past = np.arange(len(tables[FACTUAL])) % (CONTEXT + 8) < CONTEXT
    as_planned = tables[FACTUAL].commands[~past]
    np.testing.assert_allclose(tables["feed 60 %"].commands[~past], as_planned * [1, 0.6, 0.6, 0.6], atol=1e-9)
    np.testing.assert_allclose(tables["feed hold"].commands[~past], as_planned * [1, 0, 0, 0], atol=1e-9)
    overridden = tables["override 60 %"].commands[~past]
    assert np.abs(overridden[:, 1:] - as_planned[:, 1:]).max() > 1.0
    assert np.abs(overridden - tables["feed 60 %"].commands[~past]).max() > 1.0


class Oracle(Forecaster):
    """Has seen every future."""

    name, uses_future_commands = "oracle", True

    def predict(self, batch: WindowBatch) -> Gaussian:
        return Gaussian(batch.future_x_BHC, torch.ones_like(batch.future_x_BHC))


def test_an_oracle_foresees_every_effect_and_persistence_none(tables: dict[str, Table], normaliser: Normaliser) -> None:
    oracle = counterfactual_error(Oracle(), tables, normaliser, normaliser, CONTEXT, HORIZONS)
    deaf = counterfactual_error(naive_baselines(HORIZONS)[0], tables, normaliser, normaliser, CONTEXT, HORIZONS)
    assert oracle["cases"] == len(tables[FACTUAL].groups)
    for name in ALTERATIONS:
        assert oracle[name]["rmse"] == 0.0
        assert oracle[name]["effect_r2"].estimate == 1.0
        assert deaf[name]["effect_r2"].estimate == 0.0
        assert deaf[name]["ratio_to_not_told"].estimate == 1.0
        assert deaf[name]["ratio_to_persistence"].estimate == 1.0
        assert deaf[name]["rmse"] > 0.0


@pytest.mark.parametrize(
    ("machine", "sampled"), [(machine_named("spinner_620"), True), (machine_named("spinner_630"), False)]
)
def test_a_log_of_whole_seconds_is_sampled_and_a_faster_one_averaged(machine: MachineParameters, sampled: bool) -> None:
    """As the two real logs are: one value a second as it stands then, or the mean of all cycles of the second."""
    simulated = SimulatedMachine(machine)
    second = round(1.0 / simulated.time_step)
    draw = np.random.default_rng(0)
    sensors, commands = draw.normal(size=(3 * second, 17)), draw.normal(size=(3 * second, 4))
    time = np.arange(1, 3 * second + 1) * simulated.time_step
    physics = Physics(*(np.zeros((*shape, 3 * second)) for shape in [()] * 7 + [(3,)] * 3 + [(4,)]))
    rows, told = _rows(simulated, Trace(time, sensors, commands, physics, simulated.time_step))
    seen = np.isfinite(rows[0])
    names = [name for name, there in zip(canonical().sensor_names, seen, strict=True) if there]
    assert names == list(machine.logging.sensors)

    def by_second(values: np.ndarray) -> np.ndarray:
        return values[second - 1 :: second] if sampled else values.reshape(3, second, -1).mean(1)

    np.testing.assert_allclose(rows[:, seen], by_second(sensors)[:, seen], atol=1e-9)
    np.testing.assert_allclose(told[:, 1:], by_second(commands)[:, 1:], atol=1e-9)
    np.testing.assert_allclose(told[:, 0], np.abs(by_second(commands)[:, 0]), atol=1e-9)
