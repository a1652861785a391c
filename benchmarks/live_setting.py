"""What the measurements of live connections share: simulated machines in a process of their own, and a model."""

import asyncio
import json
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.logs.table import Group, Table
from crossfeed.model.presets import crossfeed
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.sim.servers.serve import ProtocolName, SimulatedFeed, make_server, serve
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table

PERIOD = 1.0


def run_servers(protocol: ProtocolName, ports: list[int], speed: float = 1.0, rate: float = 10.0) -> None:
    async def work() -> None:
        feeds = [SimulatedFeed("spinner_620", rate_hz=rate, seed=number) for number in range(len(ports))]
        servers = [make_server(protocol, feed, port) for feed, port in zip(feeds, ports)]
        await asyncio.gather(*(serve(feed, server, speed=speed) for feed, server in zip(feeds, servers)))

    asyncio.run(work())


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it is gone."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def whole_mapping(folder: Path) -> Path:
    """All channels by name; without it the modulation depth, which has no type in the standard, would be missing."""
    columns = [{"native": channel.name, "channel": channel.name} for channel in canonical().channels]
    path = folder / "mapping.yaml"
    path.write_text(json.dumps({"machine": "mill", "schema": "canonical", "columns": columns}), encoding="utf-8")
    return path


async def answering(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.2)


def untrained(folder: Path) -> OpenedModel:
    """A model of the base size with random weights: its forecasts cost what those of a trained one cost."""
    feed = SimulatedFeed("spinner_620", rate_hz=1.0)
    steps = feed.steps()
    values = [next(steps).values for _ in range(300)]
    schema = canonical()
    sensors = np.array([[one[name] for name in schema.sensor_names] for one in values])
    commands = np.array([[one[name] for name in schema.command_names] for one in values])
    groups = tuple(Group(feed.name, f"{at}", f"run {at}", "", at, at + 30) for at in range(0, len(values), 30))
    table = Table(schema, groups, np.arange(float(len(values))), sensors, commands, PERIOD, {})
    normaliser = Normaliser.fit(split_table(table).train_rows(table))
    model = WorldModel.build(crossfeed("base").model, schema, normaliser)
    model.save(folder / "model.safetensors", {"machines": [feed.name], "row_period": PERIOD})
    return open_model(folder / "model.safetensors", "cpu")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
