"""What the control reports: DC link, modulation depth, smoothing, noise, resolution."""

import numpy as np
import pytest

from crossfeed.schema import canonical
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.parameters import MachineParameters
from crossfeed.sim.physics.rollout import SimulatedMachine

START = [[0, 0, 0, 0]] * 2 + [[18000.0, 0, 0, 0]] * 5 + [[0, 0, 0, 0]] * 6


def test_the_dc_link_sags_with_power_and_rises_up_to_the_line_modules_limit(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held(START, 50), calm.rest())
    voltage, link = trace["spindle_dc_voltage"], calm.parameters.link
    rest = link.voltage - link.sag * (link.standing_load / 1000 + trace["z_power"][0])
    assert voltage[0] == pytest.approx(rest, abs=0.01)
    assert voltage.min() < rest - 0.8 * link.sag * trace["spindle_power"].max()
    assert rest + 5 < voltage.max() <= link.regeneration_limit + 1e-9


def test_modulation_depth_follows_speed_and_peaks_while_accelerating(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held(START, 50), calm.rest())
    depth = trace["spindle_mod_depth"]
    assert depth[0] == 0.0
    steady = depth[330]
    spindle = calm.parameters.spindle
    assert steady == pytest.approx(100 * spindle.weakened_voltage / trace["spindle_dc_voltage"][330], rel=0.05)
    assert depth.max() > 1.3 * steady


def test_drive_values_pass_a_first_order_filter(calm: SimulatedMachine) -> None:
    trace, _ = calm.run(DriveInputs.held([[0, 0, 6000.0, 0]] * 3, 50), calm.rest())
    physics = trace.physics
    kept = np.exp(-calm.time_step / calm.parameters.logging.smoothing)
    expected, value = [], 0.0
    for torque in physics.axis_torque[1]:
        value = kept * value + (1 - kept) * torque
        expected.append(value)
    np.testing.assert_allclose(trace["y_torque"], expected, rtol=1e-9, atol=1e-12)


def test_without_smoothing_the_log_shows_the_drive_itself(calm: SimulatedMachine) -> None:
    values = calm.parameters.model_dump()
    values["logging"] |= {"smoothing": 0.0}
    raw = SimulatedMachine(MachineParameters(**values))
    trace, _ = raw.run(DriveInputs.held([[5000.0, 0, 0, 0]], 50), raw.rest())
    np.testing.assert_array_equal(trace["spindle_torque"], trace.physics.spindle_torque)


def test_noise_has_the_declared_size_and_thermometers_their_resolution(noisy: SimulatedMachine) -> None:
    trace, _ = noisy.run(DriveInputs.idle(20_000), noisy.rest(1))
    for name in ("spindle_current", "x_torque", "z_power"):
        assert trace[name].std() == pytest.approx(noisy.parameters.logging.noise[name], rel=0.05)
    tenths = trace["z_motor_temp"] * 10
    np.testing.assert_allclose(tenths, np.rint(tenths), atol=1e-6)
    assert set(np.unique(trace["ambient_temp"])) <= {44.0, 45.0, 46.0, 47.0}
    assert trace["spindle_mod_depth"].min() >= 0.0


def test_a_trace_holds_every_canonical_channel(noisy: SimulatedMachine) -> None:
    trace, _ = noisy.run(DriveInputs.held([[8000.0, 500.0, -200.0, 100.0]] * 3, 50), noisy.rest())
    schema = canonical()
    assert trace.sensors.shape == (150, len(schema.sensor_names))
    assert np.isfinite(trace.sensors).all()
    for name, value in zip(schema.command_names, (8000.0, 500.0, -200.0, 100.0)):
        assert (trace[name] == value).all()
