"""A small machine whose sensors follow its commands by a known linear law, as tables and evaluation sets."""

import numpy as np
import torch

from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.logs.table import Group, Table
from crossfeed.model.distribution import Gaussian
from crossfeed.schema import Channel, Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from crossfeed.windows.windows import WindowBatch, WindowSet

SCHEMA = Schema(
    name="small",
    sensors=(
        Channel(name="current", quantity="current", unit="A"),
        Channel(name="power", quantity="power", unit="kW"),
        Channel(name="temperature", quantity="temperature", unit="degC"),
    ),
    commands=(
        Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_x", quantity="feed", unit="mm/min"),
    ),
)
MEMORY, GAIN = 0.8, np.array([[0.002, 0.001], [0.0008, 0.0004], [0.0001, 0.0]])
CONTEXT, HORIZONS = 8, (1, 2, 4)


def small_table(
    runs: int = 8, rows: int = 60, machine: str = "mill", level: float = 0.0, noise: float = 0.05, seed: int = 0
) -> Table:
    """`level` shifts every sensor, as another machine would have it."""
    generator = np.random.default_rng(seed)
    sensors, commands, groups = [], [], []
    for run in range(runs):
        held = generator.integers(3, 9, size=rows)
        speed = np.repeat(generator.choice([0.0, 1000.0, 3000.0], size=rows), held)[:rows]
        feed = np.repeat(generator.choice([0.0, 200.0, 800.0], size=rows), held)[:rows] * (speed > 0)
        command = np.stack([speed, feed], 1)
        state, trace = np.zeros(3), np.empty((rows, 3))
        for row in range(rows):
            state = MEMORY * state + GAIN @ command[row] + generator.normal(0.0, noise, 3)
            trace[row] = state + level + [0.0, 0.0, 20.0]
        sensors.append(trace)
        commands.append(command)
        groups.append(Group(machine, f"session{run}", f"run{run}", f"program{run % 3}", run * rows, (run + 1) * rows))
    time = np.tile(np.arange(rows, dtype=np.float64), runs)
    return Table(SCHEMA, tuple(groups), time, np.concatenate(sensors), np.concatenate(commands), 1.0, {})


def normaliser_of(table: Table) -> Normaliser:
    return Normaliser.fit(split_table(table).train_rows(table))


def window_set(table: Table, normaliser: Normaliser, hidden: tuple[str, ...] = ()) -> WindowSet:
    return WindowSet.build(table, None, normaliser, context=CONTEXT, horizons=HORIZONS, hidden=hidden)


def evaluation_set(table: Table | None = None, normaliser: Normaliser | None = None) -> EvaluationSet:
    table = table or small_table()
    normaliser = normaliser or normaliser_of(table)
    return EvaluationSet(window_set(table, normaliser), SCHEMA, normaliser, normaliser)


class Physicist(Forecaster):
    """Knows the law of the small machine: the best forecast there is, step by step under the planned commands."""

    name = "physicist"
    uses_future_commands = True

    def __init__(self, normaliser: Normaliser, level: float = 0.0, spread: float = 0.1) -> None:
        self.normaliser, self.spread = normaliser, spread
        self.rest = torch.tensor([0.0, 0.0, 20.0], dtype=torch.float64) + level

    def predict(self, batch: WindowBatch) -> Gaussian:
        state = self.normaliser.inverse_sensors(batch.x_BKC[:, -1].double()) - self.rest
        commands = self.normaliser.inverse_commands(batch.future_a_BTA.double())
        means = []
        for step in range(max(HORIZONS)):
            state = MEMORY * state + commands[:, step] @ torch.tensor(GAIN.T)
            if step + 1 in HORIZONS:
                means.append(self.normaliser.transform_sensors(state + self.rest))
        mean = torch.stack(means, 1)
        return Gaussian(mean, torch.full_like(mean, self.spread))
