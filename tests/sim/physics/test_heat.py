"""Temperatures: two time constants of minutes, the right end value, and no drift when nothing happens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.dynamics import Modes
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.parameters import Heat
from crossfeed.sim.physics.rollout import SimulatedMachine


def _time_constants(modes: Modes) -> np.ndarray:
    """Seconds, the quick one first."""
    return np.sort(-1 / modes.rates)


def test_time_constants_are_minutes_and_match_the_node_equations() -> None:
    for model in machine_named("spinner_620").heats:
        quick, slow = _time_constants(Modes.of(model))
        # Sum and product of the two rates are trace and determinant of the heat-flow matrix.
        inner, outer = 1 / model.winding_to_housing, 1 / model.housing_to_surroundings
        determinant = inner * outer / (model.winding_capacity * model.housing_capacity)
        assert 1 / (quick * slow) == pytest.approx(determinant, rel=1e-9)
        assert 5 < quick < 300
        assert 300 < slow < 7200


@given(
    capacities=st.tuples(st.floats(100, 5000), st.floats(1000, 50000)),
    resistances=st.tuples(st.floats(0.005, 0.5), st.floats(0.01, 0.5)),
    loss=st.floats(0, 2000),
)
def test_constant_loss_ends_at_loss_times_resistance(
    capacities: tuple[float, float], resistances: tuple[float, float], loss: float
) -> None:
    heat = Heat(
        winding_capacity=capacities[0],
        housing_capacity=capacities[1],
        winding_to_housing=resistances[0],
        housing_to_surroundings=resistances[1],
    )
    modes = Modes.of(heat)
    steps = int(20 * _time_constants(modes)[1]) + 10
    temperature, _ = modes.warm(1.0, np.full(steps, loss), np.full(steps, 22.0), modes.settled(1.0, 0.0, 22.0))
    assert temperature[0] == pytest.approx(22.0, abs=loss / capacities[0] + 1e-6)
    assert temperature[-1] == pytest.approx(22.0 + loss * sum(resistances), rel=1e-6)
    assert (np.diff(temperature) >= -1e-9).all()


def test_rest_then_63_percent_of_the_slow_rise_after_one_slow_time_constant(calm: SimulatedMachine) -> None:
    modes = Modes.of(calm.parameters.spindle.heat)
    slow = _time_constants(modes)[1]
    loss, air = np.full(int(8 * slow), 500.0), np.full(int(8 * slow), 20.0)
    temperature, _ = modes.warm(1.0, loss, air, modes.settled(1.0, 0.0, 20.0))
    rise = temperature - 20.0
    after_quick = int(10 * _time_constants(modes)[0])
    left = rise[-1] - rise
    assert left[after_quick + int(slow)] / left[after_quick] == pytest.approx(np.exp(-1), rel=0.02)


def test_running_warms_the_spindle_over_minutes(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[15000.0, 0, 0, 0]] * 300, 50), calm.rest())
    temperature = trace["spindle_motor_temp"]
    assert temperature[-1] - temperature[0] > 2.0
    assert np.abs(np.diff(temperature)).max() < 0.1


def test_nothing_drifts_at_idle(calm: SimulatedMachine) -> None:
    trace, after = calm.run(DriveInputs.idle(30_000), calm.rest())
    np.testing.assert_allclose(trace.sensors, trace.sensors[:1].repeat(len(trace), axis=0), rtol=1e-9, atol=1e-9)
    assert after.step == 30_000


def test_idle_noise_has_no_trend(noisy: SimulatedMachine) -> None:
    trace, _ = noisy.run(DriveInputs.idle(60_000), noisy.rest(seed=3))
    for name in ("spindle_current", "x_torque", "z_current", "z_power"):
        first, last = trace[name][:30_000], trace[name][30_000:]
        error = trace[name].std() / np.sqrt(30_000)
        assert abs(first.mean() - last.mean()) < 6 * error


def test_a_library_that_types_real_eigenvalues_complex_does_not_stop_the_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = machine_named("spinner_620").spindle.heat
    usual, eig = Modes.of(model), np.linalg.eig
    monkeypatch.setattr(np.linalg, "eig", lambda matrix: tuple(part.astype(complex) for part in eig(matrix)))
    unusual = Modes.of(model)
    assert unusual.rates.dtype == np.float64
    assert np.array_equal(unusual.winding, usual.winding)
