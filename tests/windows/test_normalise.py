"""The normaliser sees train rows only, ignores what is absent, and inverts exactly."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from crossfeed.errors import CheckpointError, TableError
from crossfeed.logs.table import Table
from crossfeed.windows.normalise import Normaliser, channel_statistics
from crossfeed.windows.split import Split, split_table
from tests.windows.tables import random_table


def _split(table: Table) -> Split:
    return split_table(table)


def test_statistics_are_those_of_the_present_train_entries() -> None:
    table = random_table([30] * 10, absent=0.3)
    split = _split(table)
    normaliser = Normaliser.fit(split.train_rows(table))
    train = table.sensors[split.rows(table, "train")]
    np.testing.assert_allclose(normaliser.sensor_location, np.nanmean(train, axis=0), rtol=1e-14)
    np.testing.assert_allclose(normaliser.sensor_scale, np.nanstd(train, axis=0), rtol=1e-14)


def test_rows_outside_the_train_side_never_matter() -> None:
    table = random_table([30] * 10)
    split = _split(table)
    before = Normaliser.fit(split.train_rows(table), "robust")
    for part in ("validation", "test"):
        table.sensors[split.rows(table, part)] = 1e9
        table.commands[split.rows(table, part)] = -1e9
    assert Normaliser.fit(split.train_rows(table), "robust") == before


@pytest.mark.parametrize("wrong", ["table", "array", "rows"])
def test_only_train_rows_can_be_fitted(wrong: str) -> None:
    table = random_table([30] * 10)
    given = {"table": table, "array": table.sensors, "rows": _split(table).rows(table, "train")}[wrong]
    with pytest.raises(TableError, match="cannot be fitted"):
        Normaliser.fit(given)


def test_robust_scale_is_floored_and_without_the_floor_it_explodes() -> None:
    """A channel that rests nearly always has almost no interquartile range: the paper's IQR pathology."""
    table = random_table([100] * 10)
    rng = np.random.default_rng(0)
    table.sensors[:, 0] = 1e-6 * rng.normal(size=len(table))
    table.sensors[::20, 0] = 5.0
    rows = _split(table).train_rows(table)
    deviation = rows.sensors[:, 0].std()
    assert Normaliser.fit(rows, "robust").sensor_scale[0] == pytest.approx(0.05 * deviation)
    assert Normaliser.fit(rows, "robust", floor=0.0).sensor_scale[0] < 1e-5 * deviation
    low, high = np.percentile(rows.sensors[:, 1], [25, 75])
    assert Normaliser.fit(rows, "robust").sensor_scale[1] == pytest.approx((high - low) / 1.349)
    assert Normaliser.fit(rows, "robust").sensor_location[1] == np.median(rows.sensors[:, 1])


def test_commands_are_z_scored_under_both_methods() -> None:
    table = random_table([30] * 10)
    rows = _split(table).train_rows(table)
    one, two = Normaliser.fit(rows, "zscore"), Normaliser.fit(rows, "robust")
    np.testing.assert_array_equal(one.command_scale, two.command_scale)
    np.testing.assert_allclose(one.command_scale, rows.commands.std(axis=0))


@pytest.mark.parametrize("method", ["zscore", "robust"])
def test_a_sensor_never_seen_and_a_constant_one(method: str) -> None:
    table = random_table([30] * 10)
    table.sensors[:, 0] = np.nan
    table.sensors[:, 1] = 0.1
    normaliser = Normaliser.fit(_split(table).train_rows(table), method)
    assert normaliser.unseen == ("s0",)
    assert (normaliser.sensor_location[0], normaliser.sensor_scale[0]) == (0.0, 1.0)
    z = normaliser.transform_sensors(table.sensors)
    assert (z[:, 1] == 0.0).all()
    assert (normaliser.inverse_sensors(z)[:, 1] == 0.1).all()


def test_infinite_train_values_are_refused() -> None:
    table = random_table([30] * 10)
    table.sensors[:, 2] = np.inf
    with pytest.raises(TableError, match="'s2' holds infinite values"):
        Normaliser.fit(_split(table).train_rows(table))


@given(
    arrays(np.float64, (40, 3), elements=st.floats(-1e6, 1e6, allow_subnormal=False)),
    st.sampled_from(["zscore", "robust"]),
)
@settings(max_examples=50)
def test_inverse_undoes_transform(values: np.ndarray, method: str) -> None:
    table = random_table([4] * 10)
    table.sensors[:] = values
    normaliser = Normaliser.fit(_split(table).train_rows(table), method)
    back = normaliser.inverse_sensors(normaliser.transform_sensors(values))
    np.testing.assert_allclose(back, values, rtol=1e-9, atol=1e-9 * np.abs(values).max() + 1e-300)
    commands = normaliser.inverse_commands(normaliser.transform_commands(table.commands))
    np.testing.assert_allclose(commands, table.commands, rtol=1e-9, atol=1e-9)


def test_numpy_and_torch_agree() -> None:
    table = random_table([30] * 10)
    normaliser = Normaliser.fit(_split(table).train_rows(table))
    z = normaliser.transform_sensors(table.sensors)
    np.testing.assert_array_equal(normaliser.transform_sensors(torch.from_numpy(table.sensors)).numpy(), z)
    np.testing.assert_array_equal(
        normaliser.inverse_sensors(torch.from_numpy(z)).numpy(), normaliser.inverse_sensors(z)
    )
    assert normaliser.transform_commands(torch.from_numpy(table.commands).float()).dtype == torch.float32


@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_json_round_trip_is_bitwise(seed: int) -> None:
    table = random_table([7] * 10, seed, absent=0.2)
    normaliser = Normaliser.fit(_split(table).train_rows(table), "robust", floor=0.03)
    again = Normaliser.from_json(normaliser.to_json())
    assert again.sensor_scale.tobytes() == normaliser.sensor_scale.tobytes()
    assert again.command_location.tobytes() == normaliser.command_location.tobytes()
    assert again == normaliser
    assert again.hash() == normaliser.hash()


def test_a_normaliser_cannot_be_changed() -> None:
    table = random_table([30] * 10)
    normaliser = Normaliser.fit(_split(table).train_rows(table))
    with pytest.raises(ValueError, match="read-only"):
        normaliser.sensor_scale[0] = 2.0
    with pytest.raises(AttributeError):
        normaliser.fitted_on = "other"


@pytest.mark.parametrize("damage", ["{", "[]", '{"method": "zscore"}'])
def test_a_damaged_normaliser_is_refused(damage: str) -> None:
    with pytest.raises(CheckpointError):
        Normaliser.from_json(damage)


def test_a_normaliser_with_a_zero_scale_is_refused() -> None:
    table = random_table([30] * 10)
    normaliser = Normaliser.fit(_split(table).train_rows(table))
    text = normaliser.to_json().replace(repr(float(normaliser.sensor_scale[0])), "0.0")
    with pytest.raises(CheckpointError, match="not positive"):
        Normaliser.from_json(text)


@pytest.mark.parametrize("method", ["zscore", "robust"])
def test_a_channel_whose_deviation_is_too_small_for_a_number_has_the_scale_one(method: str) -> None:
    """Squares of 1e-200 are nought: such a channel moves, and yet there is nothing to divide by."""
    values = np.zeros((40, 1))
    values[0] = 1e-200
    location, scale, unseen = channel_statistics(values, ("current",), method, 0.01)
    assert scale.tolist() == [1.0]
    assert location == pytest.approx(0.0)
    assert unseen == ()
