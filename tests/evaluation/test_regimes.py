"""Regimes are read off the planned commands: the last spindle change up to the horizon decides."""

import numpy as np
import torch

from crossfeed.evaluation.metrics import REGIMES, regimes
from crossfeed.schema import Channel, Schema
from crossfeed.windows.normalise import Normaliser
from tests.evaluation.small_machine import SCHEMA, normaliser_of, small_table


def label(speeds: list[float], horizons: tuple[int, ...] = (1, 2, 4), feed: float = 0.0) -> list[str]:
    normaliser = normaliser_of(small_table())
    commands = torch.tensor(normaliser.transform_commands(np.array([[speed, feed] for speed in speeds])))
    found = regimes(commands[None, 0].float(), commands[None, 1:].float(), horizons, SCHEMA, normaliser)
    return [REGIMES[int(index)] for index in found[0]]


def test_the_four_regimes() -> None:
    assert label([0, 0, 0, 0, 0]) == ["idle", "idle", "idle"]
    assert label([3000, 3000, 1000, 3000, 3000]) == ["steady", "steady", "steady"]
    assert label([0, 0, 1000, 1000, 1000]) == ["idle", "start-up", "start-up"]
    assert label([1000, 1000, 1000, 1000, 0]) == ["steady", "steady", "stop"]


def test_a_tool_change_is_first_a_stop_and_then_a_start_up() -> None:
    assert label([3000, 0, 0, 0, 3000]) == ["stop", "stop", "start-up"]


def test_the_feed_does_not_make_a_standing_spindle_run() -> None:
    assert label([0, 0, 0, 0, 0], feed=800.0) == ["idle", "idle", "idle"]


def test_a_schema_without_a_spindle_looks_at_all_commands() -> None:
    schema = Schema(name="axes", sensors=SCHEMA.sensors, commands=(Channel(name="f", quantity="feed", unit="mm/min"),))
    normaliser = Normaliser(
        "zscore",
        0.05,
        SCHEMA.sensor_names,
        ("f",),
        np.zeros(3),
        np.ones(3),
        np.array([100.0]),
        np.array([50.0]),
        (),
        "",
    )
    z = torch.tensor(normaliser.transform_commands(np.array([[0.0], [0.0], [300.0]])))
    found = regimes(z[None, 0], z[None, 1:], (1, 2), schema, normaliser)
    assert [REGIMES[int(index)] for index in found[0]] == ["idle", "start-up"]
