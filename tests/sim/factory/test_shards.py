"""Shards: resumed, refused for another fleet, the same bytes on any number of cores."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError
from crossfeed.logs.table import Table, manifest_path
from crossfeed.sim.factory.draw import NEIGHBOURS
from crossfeed.sim.factory.shards import FleetPlan, generate, shard_paths

PLAN = FleetPlan(machines=NEIGHBOURS + 1, minutes=2, seed=1)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "one"
    generate(folder, PLAN, jobs=1)
    return folder


def test_shards_are_tables_of_one_period(fleet: Path) -> None:
    tables = [Table.read(path) for path in shard_paths(fleet)]
    assert [len(table.machines()) for table in tables] == [NEIGHBOURS, 1]
    assert all(len(table) > 0 for table in tables)


def test_two_jobs_write_the_same_bytes(fleet: Path, tmp_path: Path) -> None:
    generate(tmp_path / "two", PLAN, jobs=2)
    for one, two in zip(shard_paths(fleet), shard_paths(tmp_path / "two"), strict=True):
        assert one.read_bytes() == two.read_bytes()
        assert manifest_path(one).read_bytes() == manifest_path(two).read_bytes()


def test_a_lost_shard_is_made_again_and_a_finished_one_is_kept(fleet: Path) -> None:
    first, second = shard_paths(fleet)
    before, kept = second.read_bytes(), first.stat().st_mtime_ns
    manifest_path(second).unlink()  # what a kill between table and manifest leaves
    summaries = generate(fleet, PLAN, jobs=1)
    assert [summary.made for summary in summaries] == [False, True]
    assert second.read_bytes() == before
    assert first.stat().st_mtime_ns == kept


@pytest.mark.parametrize("damage", ["one bit", "cut short", "no letters"])
def test_a_damaged_shard_was_kept_or_ended_in_a_traceback(fleet: Path, damage: str) -> None:
    _, second = shard_paths(fleet)
    before, manifest = second.read_bytes(), manifest_path(second).read_bytes()
    changed = bytearray(before)
    changed[len(changed) // 3] ^= 1
    if damage == "no letters":
        manifest_path(second).write_bytes(b"\xff{")
    else:
        second.write_bytes(bytes(changed) if damage == "one bit" else before[: len(before) // 2])
    made = [summary.made for summary in generate(fleet, PLAN, jobs=1)]
    assert made == [False, damage != "no letters"], "of a table that is whole nobody reads the manifest"
    assert second.read_bytes() == before
    manifest_path(second).write_bytes(manifest)


@pytest.mark.parametrize("other", [FleetPlan(16, 2, 1), FleetPlan(17, 3, 1), FleetPlan(17, 2, 2)])
def test_another_fleet_is_refused_in_the_same_folder(fleet: Path, other: FleetPlan) -> None:
    with pytest.raises(ConfigError, match="not the one asked for"):
        generate(fleet, other)


def test_a_folder_without_a_fleet_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no fleet"):
        shard_paths(tmp_path)


@pytest.mark.parametrize(("machines", "minutes"), [(0, 10.0), (4, 0.5)])
def test_impossible_plans_are_refused(machines: int, minutes: float) -> None:
    with pytest.raises(ConfigError):
        FleetPlan(machines, minutes)


def test_the_command_says_what_it_wrote_as_one_document(fleet: Path) -> None:
    words = ["fleet", "generate", str(fleet), "--machines", "17", "--minutes", "2", "--seed", "1", "--jobs", "1"]
    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert [entry["machines"] for entry in json.loads(result.stdout)] == [NEIGHBOURS, 1]
    assert "17 machines" in CliRunner().invoke(app, words, catch_exceptions=False).stdout
