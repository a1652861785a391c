"""Telling a fleet from a log: not possible for its own machines, easy for one that is nothing like them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.errors import ConfigError
from crossfeed.files import write_sealed
from crossfeed.logs.table import Group, Table
from crossfeed.sim.factory.compare import _folds, _gap, _parts, area_under_curve, compare_with_real
from crossfeed.sim.factory.describe import FEATURES, Match, _features, describe, detail_of, facts_of, window_features
from crossfeed.sim.factory.draw import NEIGHBOURS, period_of
from crossfeed.sim.factory.generate import draw_table
from crossfeed.sim.factory.motors import fleet_schema
from crossfeed.sim.factory.shards import CLAIM, FleetPlan, shard_paths

pytest.importorskip("lightgbm", reason="comparing needs the extra `trees`")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six machines with a row every second, as `generate` would have written them."""
    folder = tmp_path_factory.mktemp("fleet")
    shard = next(shard for shard in range(100) if period_of(2, shard * NEIGHBOURS) == 1.0)
    numbers = range(shard * NEIGHBOURS, shard * NEIGHBOURS + 6)
    write_sealed(folder / CLAIM, FleetPlan(6, 8, 2).identity())
    (table,) = draw_table(2, numbers, 8)
    table.write(folder / "shard_00000.parquet")
    return folder


@pytest.fixture(scope="module")
def unlike(fleet: Path) -> Table:
    """A log of pure noise with the commands of the fleet's first machine."""
    whole = Table.read(shard_paths(fleet)[0])
    table = whole.select([group for group in whole.groups if group.machine == whole.machines()[0]])
    noise = np.random.default_rng(0).standard_normal(table.sensors.shape)
    return replace(table, sensors=np.where(table.present(), noise, np.nan))


def test_windows_have_every_feature_and_no_holes(fleet: Path) -> None:
    table = Table.read(shard_paths(fleet)[0])
    found = window_features(
        table, tuple(name for name, shown in zip(table.schema.sensor_names, table.present()) if shown)
    )
    features = np.array([window.features for window in found])
    assert features.shape == (len(found), len(FEATURES))
    assert np.isfinite(features).all()


def test_a_window_is_told_by_what_its_features_are_called() -> None:
    values = np.array([0.0, 0.0, 2.0, 2.0, -2.0, 4.0])
    commands = np.zeros((6, 4))
    commands[2:, :2], commands[4:, 2] = (100.0, 5.0), -5.0
    found = dict(zip(FEATURES, _features(values, commands, 4.0), strict=True))
    told_by_feeds = found.pop("told by feeds")
    assert found == pytest.approx(
        {
            "standing rows": 2 / 6, "unchanged command": 3 / 5, "moving axes": 6 / 6, "spindle on": 4 / 6,
            "unchanged": 2 / 5, "zero": 2 / 6, "distinct values": 4 / 6,
            "memory": np.corrcoef(values[1:], values[:-1])[0, 1],
            "memory of three rows": np.corrcoef([0, 0, 2], [2, -2, 4])[0, 1],
            "jump": 2.4 / 4, "largest jump": 6 / 4, "spread": np.sqrt(22 / 6) / 4, "level": 1 / 4, "negative": 1 / 6,
            "told by speed": 3 / 22, "unrest while standing": 2 / 2.4,
        }
    )  # fmt: skip
    assert found["told by speed"] < told_by_feeds < 0.2


def test_noise_is_told_from_a_fleet(fleet: Path, unlike: Table) -> None:
    comparison = compare_with_real(fleet, unlike)
    assert comparison.auc > 0.9
    assert comparison.gaps[0].auc > 0.8 or comparison.gaps[0].auc < 0.2


def test_a_table_without_shared_sensors_is_refused(fleet: Path, unlike: Table) -> None:
    with pytest.raises(ConfigError, match="no sensor in common"):
        compare_with_real(fleet, unlike, {name: f"my_{name}" for name in unlike.schema.sensor_names})


def test_the_area_under_the_curve_is_that_of_the_textbook() -> None:
    scores = np.array([0.1, 0.4, 0.35, 0.8])
    assert area_under_curve(scores, np.array([False, False, True, True])) == pytest.approx(0.75)


def test_facts_of_a_channel() -> None:
    facts = facts_of(np.array([0.0, 0.0, 1.0, 1.5, np.nan]))
    assert facts is not None
    assert facts.zero == 0.5
    assert facts.whole == 0.75
    assert facts.unchanged == pytest.approx(1 / 3)
    assert facts_of(np.full(9, np.nan)) is None


def test_a_machine_of_the_fleet_lies_within_it(fleet: Path) -> None:
    whole = Table.read(shard_paths(fleet)[0])
    own = whole.select([group for group in whole.groups if group.machine == whole.machines()[4]])
    matches = describe(fleet, own)
    assert sum(match.inside for match in matches) > 0.5 * len(matches)
    assert all(match.machines >= 1 for match in matches)


def test_both_commands_answer(fleet: Path, unlike: Table, tmp_path: Path) -> None:
    unlike.write(tmp_path / "real.parquet")
    for command in ("describe", "compare"):
        words = ["fleet", command, str(fleet), "--table", str(tmp_path / "real.parquet")]
        assert json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
        assert "simulated machines" in CliRunner().invoke(app, words, catch_exceptions=False).stdout


def test_a_real_median_is_told_beside_those_of_nine_in_ten_machines() -> None:
    values = np.concatenate([[7.0, 8.0, 9.0], np.repeat(np.arange(101.0), 3)])
    gap = _gap("jump", values, 3, np.repeat([f"m{number}" for number in range(101)], 3).tolist())
    assert (gap.real, gap.low, gap.middle, gap.high) == (8.0, 5.0, 50.0, 95.0)


def test_facts_of_a_channel_are_counted_by_hand() -> None:
    values = np.concatenate([np.arange(101.0), [50.0, 50.0]])
    facts = facts_of(values)
    assert facts is not None
    assert (facts.low, facts.high) == pytest.approx((1.02, 98.98))
    assert (facts.zero, facts.unchanged, facts.whole) == pytest.approx((1 / 103, 1 / 102, 1.0))
    assert facts.noise == pytest.approx(1.0 / (98.98 - 1.02))
    assert facts.memory == pytest.approx(np.corrcoef(values[1:], values[:-1])[0, 1])
    still = facts_of(np.full(3, 2.5))
    assert still is not None
    assert (still.noise, still.memory, still.whole, still.unchanged) == (0.0, 1.0, 0.0, 1.0)
    assert facts_of(np.array([1.0, 2.0])) is None
    assert facts_of(np.array([1.0, 2.0, 4.0])) is not None


def test_a_match_lies_between_a_twentieth_and_nineteen_of_twenty() -> None:
    match = Match("a", "low", 2.0, 1.0, 2.0, 3.0, 9)
    inside = [replace(match, real=real).inside for real in (0.99, 1.0, 3.0, 3.01)]
    assert inside == [False, True, True, False]


def standing(sessions: dict[str, int]) -> Table:
    """A machine that stands still for so many rows a session, one sensor counting its rows."""
    schema = fleet_schema()
    rows, groups = sum(sessions.values()), []
    for run, count in sessions.items():
        start = groups[-1].stop if groups else 0
        groups.append(Group("mill", f"s{run}", run, "", start, start + count))
    sensors = np.full((rows, len(schema.sensors)), np.nan)
    sensors[:, schema.sensor_names.index("x_output_current")] = np.arange(float(rows))
    return Table(schema, tuple(groups), np.arange(float(rows)), sensors, np.zeros((rows, 4)), 1.0, {})


def test_windows_are_whole_beside_each_other_and_spread_over_the_log() -> None:
    table = standing({"a": 63, "b": 64, "c": 200, "d": 64 * 6})
    found = window_features(table, ("x_output_current",))
    starts = [63, 127, 191, 255, *range(327, 711, 64)]
    assert [(look.run, look.row) for look in found] == [
        ("mill/" + ("b" if start == 63 else "c" if start < 327 else "d"), start) for start in starts
    ]
    assert {(look.detail, look.machine) for look in found} == {("current", "mill")}
    few = window_features(table, ("x_output_current",), most=3)
    assert [look.row for look in few] == [63, 327, 647]
    scale = np.percentile(np.arange(711.0), 99) - np.percentile(np.arange(711.0), 1)
    features = dict(zip(FEATURES, found[0].features))
    assert features["level"] == pytest.approx((63 + 31.5) / scale)
    assert features["jump"] == features["largest jump"] == pytest.approx(1.0 / scale)
    table.sensors[130, :] = np.nan
    assert [look.row for look in window_features(table, ("x_output_current",))] == [63, *starts[2:]]


@pytest.mark.parametrize(
    ("channel", "detail"),
    [("x_output_current", "current"), ("spindle_actual_speed", "velocity"), ("spindle_mod_depth", "voltage")],
)
def test_a_channel_measures_what_its_last_word_says(channel: str, detail: str) -> None:
    assert detail_of(channel) == detail


def test_runs_are_held_out_together_and_a_log_of_few_runs_by_fifths() -> None:
    table = standing({f"r{number}": 128 for number in range(5)})
    assert _parts(window_features(table, ("x_output_current",))) == [
        f"mill/r{number}" for number in range(5) for _ in range(2)
    ]
    alone = window_features(standing({"only": 640}), ("x_output_current",))
    assert _parts(alone) == ["0", "0", "1", "1", "2", "2", "3", "3", "4", "4"]
    fold = _folds([f"m{number}" for number in range(12)] * 2)
    assert (fold[:12] == fold[12:]).all()
    assert sorted(np.bincount(fold[:12]).tolist()) == [2, 2, 2, 3, 3]
