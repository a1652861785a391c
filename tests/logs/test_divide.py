"""Dividing the runs of a machine: every run on one side, sensors hidden on the second alone."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError, TableError
from crossfeed.logs.align import choose_runs, divide
from crossfeed.logs.table import Group, Table
from crossfeed.schema import canonical


def table(runs: int = 6, rows: int = 5) -> Table:
    schema = canonical()
    groups = tuple(Group("mill", f"s{n}", f"run_{n}", "p", n * rows, (n + 1) * rows) for n in range(runs))
    count = runs * rows
    draw = np.random.default_rng(0)
    return Table(
        schema=schema, groups=groups, time=np.tile(np.arange(rows, dtype=float), runs),
        sensors=draw.normal(size=(count, len(schema.sensors))), commands=np.zeros((count, len(schema.commands))),
        period=1.0, manifest={}, extras={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("way", "expected"),
    [({"last": 2}, {"run_4", "run_5"}), ({"every": 3}, {"run_2", "run_5"}), ({"names": ["run_1"]}, {"run_1"})],
)
def test_each_run_is_on_one_side_and_keeps_its_rows(way: dict[str, object], expected: set[str]) -> None:
    whole = table()
    first, second = divide(whole, choose_runs(whole, **way), ["spindle_power"], "mill_b")
    assert {group.run for group in second.groups} == expected
    assert {group.run for group in first.groups} == {group.run for group in whole.groups} - expected
    assert first.machines() == ("mill",)
    assert second.machines() == ("mill_b",)
    assert len(first) + len(second) == len(whole)
    hidden = whole.schema.sensor_names.index("spindle_power")
    assert first.present().all()
    assert list(np.flatnonzero(~second.present())) == [hidden]


@pytest.mark.parametrize("way", [{}, {"last": 2, "every": 3}, {"last": 0}, {"every": 0}])
def test_unclear_choices_are_refused(way: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        choose_runs(table(), **way)


def test_an_unknown_run_and_an_empty_side_are_refused() -> None:
    with pytest.raises(TableError, match="no run run_9"):
        choose_runs(table(), ["run_9"])
    with pytest.raises(TableError, match="No run is left for the first table"):
        divide(table(), choose_runs(table(), last=6))


def test_the_command_writes_two_tables_that_can_be_read(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("whole.parquet", "a.parquet", "b.parquet")]
    table().write(paths[0])
    result = CliRunner().invoke(app, ["data", "divide", *map(str, paths), "--last", "2", "--hide", "spindle_power"])
    assert result.exit_code == 0, result.output
    assert "2 runs, 10 rows" in result.output
    assert [len(Table.read(path)) for path in paths[1:]] == [20, 10]
