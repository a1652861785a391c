"""A sweep over overlapping windows predicts what the model predicts window by window."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crossfeed.ingest.table import Group, Table
from crossfeed.model.sweep import Sweep
from crossfeed.windows.windows import WindowSet
from tests.model import toy


@pytest.fixture(scope="module")
def windows() -> WindowSet:
    random = np.random.default_rng(0)
    sensors = random.normal(3.0, 2.0, size=(60, 5))
    sensors[:, 2] = np.nan
    sensors[10:13, 1] = np.nan
    sensors[40] = np.nan
    table = Table(
        schema=toy.SCHEMA,
        groups=(Group("a", "s1", "r", "p", 0, 25), Group("a", "s2", "r", "p", 25, 60)),
        time=np.concatenate([np.arange(25.0), np.arange(35.0)]),
        sensors=sensors,
        commands=random.normal(100.0, 50.0, size=(60, 2)),
        period=1.0,
        manifest={},
    )
    return WindowSet.build(table, None, replace(toy.normaliser()), context=8, horizons=toy.HORIZONS)


@pytest.mark.parametrize("kind", ["none", "centred"])
@pytest.mark.parametrize("empty_row", ["zero", "first_channel"])
def test_sharing_rows_changes_nothing_but_the_cost(windows: WindowSet, kind: str, empty_row: str) -> None:
    model = toy.model(toy.method({"model.instance_norm.kind": kind, "model.encoder.empty_row": empty_row}))
    sweep = Sweep(model, windows, rows_at_once=16)
    assert sweep.rows_are_shared == (kind == "none")
    index = torch.randperm(len(windows), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model(windows.batch(index))
    found = sweep.predict(index)
    torch.testing.assert_close(found.mean_BHC, wanted.mean_BHC, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.log_variance_BHC, wanted.log_variance_BHC, atol=1e-5, rtol=1e-5)
