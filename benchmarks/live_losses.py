"""What is lost when something breaks: the recorder is killed, a server vanishes, an agent restarts."""

import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from live_setting import ended, free_port

from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.live.recorder import read_spool, record, spool_to_table
from crossfeed.logs.mapped_logs import mapped_format
from crossfeed.logs.pipeline import ingest
from crossfeed.sim.servers.mtconnect_agent import MtconnectAgent
from crossfeed.sim.servers.opcua_server import OpcUaServer
from crossfeed.sim.servers.serve import Fault, SimulatedFeed, serve
from crossfeed.sim.simulate import simulate_program


def kills(times: int, seed: int) -> None:
    """A logger writes, the recorder is killed at random moments and started again; the table must be ingest's own."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        simulate_program(root / "whole", "bundled:drill_plate", "spinner_620")
        lines = (root / "whole" / "log.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        log, spool, mapping = root / "log.csv", root / "spool", root / "whole" / "mapping.yaml"
        log.write_text("".join(lines[:3]), encoding="utf-8")
        command = [sys.executable, "-m", "crossfeed", "live", "record", f"file:{log}", "--mapping", str(mapping)]
        command += ["--out", str(spool)]
        written = 3
        begin = time.monotonic()
        for _ in range(times):
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            until = time.monotonic() + draw.uniform(1.0, 8.0)
            while time.monotonic() < until:
                written = _append(log, lines, written, draw.randint(1, 3))
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        written = _append(log, lines, written, len(lines))
        asyncio.run(_finish(log, mapping, spool, written - 1))
        found, wanted = spool_to_table(spool), ingest(mapped_format(mapping), log)
        same = all(
            np.array_equal(getattr(found, name), getattr(wanted, name), equal_nan=True)
            for name in ("time", "sensors", "commands")
        )
        doubled = found.manifest["live"]["doubled_samples"]
        print(f"| SIGKILL at {times} random moments, {time.monotonic() - begin:.0f} s | {len(wanted)} rows written, "
              f"{len(found)} recorded, {doubled} samples doubled, tables equal: {same} |")  # fmt: skip


def _append(log: Path, lines: list[str], written: int, count: int) -> int:
    with log.open("a", encoding="utf-8") as file:
        file.write("".join(lines[written : written + count]))
    return min(written + count, len(lines))


async def _finish(log: Path, mapping: Path, spool: Path, rows: int) -> None:
    """Record what is still missing."""
    source = open_source(f"file:{log}", SourceOptions(mapping=mapping))
    enough = asyncio.Event()

    def look(_: dict[str, float]) -> None:
        told = {sample.time for one in read_spool(spool) for sample in one.samples if sample.channel == "@@run"}
        if len(told) >= rows:
            enough.set()

    recording = asyncio.create_task(record(source, spool, on_flush=look))
    await asyncio.wait_for(enough.wait(), 120.0)
    recording.cancel()
    with suppress(asyncio.CancelledError):
        await recording


def outage(seconds: float, speed: float) -> None:
    """An OPC UA server vanishes for a minute of the machine's time and comes back."""
    asyncio.run(_outage(seconds, speed))


async def _outage(seconds: float, speed: float) -> None:
    logging.getLogger("asyncua").setLevel(logging.CRITICAL)
    feed = SimulatedFeed("spinner_620", rate_hz=5.0)
    server = OpcUaServer(feed, free_port())
    ready = asyncio.Event()
    faults = [Fault("outage", seconds)]
    serving = asyncio.create_task(serve(feed, server, speed=speed, faults=faults, on_ready=lambda _: ready.set()))
    await ready.wait()
    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder) / "spool"
        counts: dict[str, float] = {}
        recording = asyncio.create_task(record(open_source(server.address), spool, speed=speed, on_flush=counts.update))
        while not counts.get("gap"):
            await asyncio.sleep(0.5)
        await asyncio.sleep(20.0 / speed)
        await ended(recording)
        table = spool_to_table(spool)
    await ended(serving)
    told = table.manifest["live"]
    known = np.isfinite(table.sensors).any(axis=1)
    whole = round((table.time[-1] - table.time[0]) / table.period) + 1
    print(f"| outage of {seconds:g} s (OPC UA, {speed:g}-fold speed) | {whole} rows from the first to the last, "
          f"{whole - int(known.sum())} of them lost in {told['gaps']} gap, "
          f"{len(table) - len(set(table.time))} doubled |")  # fmt: skip


def restart() -> None:
    """An MTConnect agent restarts with new sequences: a gap as long as its absence, nothing twice."""
    asyncio.run(_restart())


async def _restart() -> None:
    feed = SimulatedFeed("spinner_620")
    agent = MtconnectAgent(feed, free_port())
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(feed, agent, speed=5.0, on_ready=lambda _: ready.set()))
    await ready.wait()
    with tempfile.TemporaryDirectory() as folder:
        spool = Path(folder) / "spool"
        recording = asyncio.create_task(record(open_source(agent.address), spool, speed=5.0))
        await asyncio.sleep(8.0)
        await agent.vanish()
        agent.restart()
        await asyncio.sleep(3.0)
        await agent.return_()
        await asyncio.sleep(8.0)
        recording.cancel()
        with suppress(asyncio.CancelledError):
            await recording
        table = spool_to_table(spool)
    serving.cancel()
    told = table.manifest["live"]
    print(f"| restart of an MTConnect agent, 15 s of machine time away | {len(table)} rows, {told['gaps']} gap, "
          f"{told['rows_in_gaps']} rows masked, {len(table) - len(set(table.time))} doubled |")  # fmt: skip
