"""Tables to windows: order of operations, several machines, and what cannot work."""

import numpy as np
import pytest
import torch

from crossfeed.errors import CrossfeedError, TableError
from crossfeed.logs.table import Table
from crossfeed.schema import Channel, Schema
from crossfeed.training.data import prepare
from crossfeed.windows.normalise import Normaliser
from tests.training.conftest import TOY, small_config, toy_table

CPU = torch.device("cpu")


def test_normaliser_sees_train_rows_only(table: Table) -> None:
    data = prepare([table], small_config(), CPU)
    (split,) = data.source.splits
    assert data.normaliser == Normaliser.fit(split.train_rows(table))
    held_back = table.sensors.copy()
    held_back[split.rows(table, "validation")] += 1e3
    held_back[split.rows(table, "test")] -= 1e3
    other = Table(**{**vars(table), "sensors": held_back})
    assert prepare([other], small_config(), CPU).normaliser.hash() == data.normaliser.hash()


def test_training_seed_does_not_touch_the_split(table: Table) -> None:
    splits = [prepare([table], small_config({"training.seed": seed}), CPU).source.splits for seed in (0, 1)]
    assert splits[0] == splits[1]
    moved = prepare([table], small_config({"data.split_seed": 3}), CPU).source.splits
    assert moved != splits[0]


def test_one_normaliser_over_several_machines_with_other_sensors() -> None:
    first, second = toy_table("a"), toy_table("b", seed=1, absent=("current_0", "current_3"))
    data = prepare([first, second], small_config(), CPU)
    assert data.train.machines == ("a", "b")
    assert data.normaliser.unseen == ()
    batch = data.train.batch(torch.arange(len(data.train)))
    of_second = batch.machine_B == 1
    assert not batch.m_BKC[of_second][:, :, [0, 3]].any()
    assert batch.m_BKC[of_second][:, :, [1, 2, 4]].all()
    parts = zip(data.source.splits, (first, second), strict=True)
    joined = np.concatenate([each.sensors[split.rows(each, "train")] for split, each in parts])
    np.testing.assert_allclose(data.normaliser.sensor_location, np.nanmean(joined, axis=0))


def test_table_without_any_channel_of_the_schema_is_refused(table: Table) -> None:
    empty = table.without(TOY.sensor_names)
    with pytest.raises(TableError, match="no value in any of the 5 sensors"):
        prepare([table, empty], small_config(), CPU)


def test_tables_of_different_schemas_are_refused(table: Table) -> None:
    sensors = (*TOY.sensors[:4], Channel(name="other", quantity="current", unit="A"))
    other = Table(**{**vars(table), "schema": Schema(name="second", sensors=sensors, commands=TOY.commands)})
    with pytest.raises(TableError, match="'second', the first one 'toy'"):
        prepare([table, other], small_config(), CPU)


def test_horizon_longer_than_the_data_allow_is_explained(table: Table) -> None:
    with pytest.raises(CrossfeedError, match="No window fits"):
        prepare([table], small_config({"model.horizons": [1, 100], "model.encoder.positions": 512}), CPU)


def test_no_table_is_an_error() -> None:
    with pytest.raises(TableError, match="No table"):
        prepare([], small_config(), CPU)
