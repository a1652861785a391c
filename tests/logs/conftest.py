"""A lathe's log that nobody knows yet, and the mapping that describes it."""

import numpy as np
import polars as pl
import pytest
import yaml

from crossfeed.logs.mapped_logs import mapped_format
from tests.logs.lathe import MAPPING


@pytest.fixture
def described(tmp_path):
    """Write a mapping and read it back as a kind of log."""

    def make(**changes):
        path = tmp_path / "mapping.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in (MAPPING | changes).items() if value is not None}))
        return mapped_format(path)

    return make


@pytest.fixture
def log(tmp_path):
    """Two parts of 30 s at 2 Hz with a status column and one impossible load."""
    half = np.arange(60)
    frame = pl.DataFrame(
        {
            "t": np.concatenate([half, half + 200]) * 500,
            "Load": [20.0] * 119 + [999.0],
            "Power": [1500.0] * 120,
            "n": [800.0] * 120,
            "State": [3] * 100 + [1] * 20,
            "Part": ["a"] * 60 + ["b"] * 60,
            "clock": ["x"] * 120,
        }
    )
    path = tmp_path / "logs" / "shift.csv"
    path.parent.mkdir()
    frame.write_csv(path)
    return path
