import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossfeed.demo.chapter import DemoSettings
from crossfeed.demo.selection import DIVISIONS, Division, divide_runs, make_tables
from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.table import Table
from tests.training.conftest import toy_table

HIDE = Division(period=None, runs=(3, 2), rows=(math.inf, math.inf), hidden=("current_0",))


def _runs(count: int) -> Table:
    table = toy_table(sessions=count)
    groups = tuple(replace(group, run=f"run-{number:02d}") for number, group in enumerate(table.groups))
    return replace(table, groups=groups)


def test_later_runs_become_a_machine_of_another_name_with_fewer_sensors() -> None:
    source, target = divide_runs(_runs(9), HIDE)
    assert source.machines() == ("toy",)
    assert target.machines() == ("toy_reduced",)
    assert max(group.run for group in source.groups) < min(group.run for group in target.groups)
    assert len({group.run for group in source.groups}) == 3
    assert len({group.run for group in target.groups}) == 2
    assert not np.isfinite(target.sensors[:, 0]).any()
    assert np.isfinite(source.sensors).all()


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(TableError, match="3 runs"):
        divide_runs(_runs(3), HIDE)


def test_unknown_data_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="simulated"):
        DemoSettings.of(("lathe", tmp_path), 0)


def _every_third_day(real: Path, folder: Path) -> Path:
    """As many days as the demo takes; forty would be read for a quarter of a minute."""
    folder.mkdir()
    days = sorted(real.glob("*.txt.gz"))[::3]
    for file in (real / "Devices.xml", *days):
        (folder / file.name).symlink_to(file)
    return folder


@pytest.mark.parametrize("kind", DIVISIONS)
def test_real_logs_divide_into_a_source_and_a_smaller_reduced_target(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    real = request.getfixturevalue({"michigan": "michigan_folder", "mtconnect": "nist_folder"}[kind])
    logs = real if kind == "michigan" else _every_third_day(real, tmp_path / "days")
    source, target = make_tables(tmp_path, DemoSettings.of((kind, logs), 0))
    assert 2_000 < len(source) < 8_000
    assert len(target) < len(source)
    hidden = source.present() & ~target.present()
    assert hidden.sum() == len(DIVISIONS[kind].hidden)
