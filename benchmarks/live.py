"""What live connections stand: kills, outages, restarts, eight machines on one core, an hour in a minute.

    python benchmarks/live.py kills --times 20
    python benchmarks/live.py outage
    python benchmarks/live.py restart
    python benchmarks/live.py machines --seconds 60
    python benchmarks/live.py soak --speed 60
    python benchmarks/live.py demo --folder demo

Everything runs against real servers on the loopback address; benchmarks/live.md keeps what was seen.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.ingest.pipeline import ingest
from crossfeed.ingest.table import Group, Table
from crossfeed.live.monitor import Monitor
from crossfeed.live.recorder import record
from crossfeed.live.simulated.faults import Fault
from crossfeed.live.simulated.feed import SimulatedFeed
from crossfeed.live.simulated.mtconnect_agent import MtconnectAgent
from crossfeed.live.simulated.opcua_server import OpcUaServer
from crossfeed.live.simulated.serve import Protocol_, make_server, serve
from crossfeed.live.sources import SourceOptions, open_source
from crossfeed.live.spool import read_spool
from crossfeed.live.to_table import spool_to_table
from crossfeed.machines.simulated.single import simulate_program
from crossfeed.machines.table import mapped_format
from crossfeed.model.presets import crossfeed
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table

PERIOD = 1.0


def kills(times: int, seed: int) -> None:
    """A logger writes, the recorder is killed at random moments and started again; the table must be ingest's own."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        simulate_program(root / "whole", "bundled:drill_plate", "spinner_620")
        lines = (root / "whole" / "log.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        log, spool, mapping = root / "log.csv", root / "spool", root / "whole" / "mapping.yaml"
        log.write_text("".join(lines[:3]), encoding="utf-8")
        command = [sys.executable, "-m", "crossfeed.cli", "live", "record", f"file:{log}", "--mapping", str(mapping)]
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
    server = OpcUaServer(feed, _free_port())
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
        await _ended(recording)
        table = spool_to_table(spool)
    await _ended(serving)
    told = table.manifest["live"]
    known = np.isfinite(table.sensors).any(axis=1)
    whole = round((table.time[-1] - table.time[0]) / table.period) + 1
    print(f"| outage of {seconds:g} s (OPC UA, {speed:g}-fold speed) | {whole} rows from the first to the last, "
          f"{whole - int(known.sum())} of them lost in {told['gaps']} gap, "
          f"{len(table) - len(set(table.time))} doubled |")  # fmt: skip


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def restart() -> None:
    """An MTConnect agent restarts with new sequences: a gap as long as its absence, nothing twice."""
    asyncio.run(_restart())


async def _restart() -> None:
    feed = SimulatedFeed("spinner_620")
    agent = MtconnectAgent(feed, _free_port())
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


def soak(hours: float, speed: float) -> None:
    """`crossfeed serve --live` beside a machine for hours of its time, with a page that listens and asks."""
    port = _free_port()
    process = multiprocessing.get_context("spawn").Process(
        target=_servers, args=("mtconnect", [port], speed, 2.0), daemon=True
    )
    process.start()
    with tempfile.TemporaryDirectory() as folder:
        _untrained(Path(folder))
        token = Path(folder) / "token"
        command = [sys.executable, "-m", "crossfeed.cli", "serve", str(Path(folder) / "model.safetensors"), "--live"]
        command += [f"http://127.0.0.1:{port}", "--mapping", str(_whole_mapping(Path(folder))), "--speed", str(speed)]
        command += ["--port", "0", "--token-file", str(token)]
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "400"}
        ) as server:
            assert server.stderr is not None
            address = next(line.split()[1].partition("/enter")[0] for line in server.stderr if line.startswith("Open"))
            try:
                threading.Thread(target=server.stderr.read, daemon=True).start()
                sizes, moments, rows = asyncio.run(
                    _listen(address, token.read_text().strip(), server.pid, 3600.0 * hours / speed)
                )
            finally:
                server.terminate()
    process.terminate()
    tenths = [float(np.median(part)) for part in np.array_split(sizes, 10)]
    how = "`crossfeed serve --live`, 2 Hz, one listener, a what-if every 5 s"
    print(f"| {hours:g} h of machine time at {speed:g}-fold speed ({how}) | {rows} rows, {moments} moments told; MB "
          f"in ten parts: {', '.join(f'{size:.0f}' for size in tenths)}; drift after the third part "
          f"{tenths[-1] / tenths[2] - 1.0:+.1%} |")  # fmt: skip


async def _listen(address: str, token: str, server: int, seconds: float) -> tuple[list[float], int, int]:
    """Memory of the server in MB once a second, moments heard, and rows at the end."""
    import httpx
    from websockets.asyncio.client import connect

    headers = {"authorization": f"Bearer {token}"}
    sizes: list[float] = []
    moments = rows = 0
    begin = time.monotonic()

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60.0) as client:
            while True:
                await asyncio.sleep(1.0)
                status = Path(f"/proc/{server}/status").read_text(encoding="utf-8")
                sizes.append(int(status.partition("VmRSS:")[2].split()[0]) / 1024.0)
                await client.get("/metrics")
                if len(sizes) % 5 == 0:
                    await client.post("/api/what-if", json={"plans": [{}, {"feed": 80}], "samples": 32})

    asking = asyncio.create_task(ask())
    async with connect(f"{address.replace('http', 'ws')}/api/stream", additional_headers=headers) as socket:
        while time.monotonic() - begin < seconds:
            state = json.loads(await socket.recv())
            moments, rows = moments + 1, state["counters"]["rows"]
    await _ended(asking)
    return sizes, moments, rows


def machines(count: int, seconds: float, protocol: Protocol_) -> None:
    """Machines at 10 Hz, all monitors on one core, their servers on another."""
    logging.getLogger("asyncua").setLevel(logging.CRITICAL)
    ports = [_free_port() for _ in range(count)]
    process = multiprocessing.get_context("spawn").Process(target=_servers, args=(protocol, ports), daemon=True)
    process.start()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = _untrained(Path(folder))
        ages, sensors, counts, cpu = asyncio.run(_watch(model, protocol, ports, seconds))
    process.terminate()
    p50, p99 = np.percentile(ages, (50, 99))
    print(f"| {count} machines x {sensors} sensors at 10 Hz ({protocol}), all on one core, {seconds:g} s | "
          f"forecast age p50 {p50:.2f} s, p99 {p99:.2f} s; {counts} rows forecast; "
          f"{cpu / seconds:.0%} of the core |")  # fmt: skip


def demo(folder: Path) -> None:
    """`crossfeed demo --live` after a finished demo: until the page is there, and until it forecasts."""
    from tests.studio.browser import Browser

    begin = time.monotonic()
    command = [sys.executable, "-m", "crossfeed.cli", "demo", "--out", str(folder), "--live", "--port", "0"]
    quiet = os.environ | {"COLUMNS": "400", "BROWSER": "true"}  # our own browser opens the page
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=quiet) as server:
        assert server.stderr is not None
        try:
            link = next(line.split()[1] for line in server.stderr if line.startswith("Open"))
            threading.Thread(target=server.stderr.read, daemon=True).start()
            ready = time.monotonic() - begin
            with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
                browser.go(link)
                browser.wait("document.querySelectorAll('#live-figure path.js-line').length > 3")
                shown = time.monotonic() - begin
                browser.wait("!document.querySelector('#live-facts').textContent.includes('forecast fromnone')")
                forecast = time.monotonic() - begin
        finally:
            server.terminate()
    print(f"| `crossfeed demo --live` after the demo: link / rows on the page / first forecast (after 32 rows) | "
          f"{ready:.0f} s / {shown:.0f} s / {forecast:.0f} s |")  # fmt: skip


def _servers(protocol: Protocol_, ports: list[int], speed: float = 1.0, rate: float = 10.0) -> None:
    async def work() -> None:
        feeds = [SimulatedFeed("spinner_620", rate_hz=rate, seed=number) for number in range(len(ports))]
        servers = [make_server(protocol, feed, port) for feed, port in zip(feeds, ports)]
        await asyncio.gather(*(serve(feed, server, speed=speed) for feed, server in zip(feeds, servers)))

    asyncio.run(work())


async def _watch(
    model: OpenedModel, protocol: Protocol_, ports: list[int], seconds: float
) -> tuple[list[float], int, int, float]:
    for port in ports:
        await _answering(port)
    addresses = {"opcua": "opc.tcp://127.0.0.1:{}/crossfeed", "mtconnect": "http://127.0.0.1:{}"}
    options = SourceOptions(_whole_mapping(model.path.parent) if protocol == "mtconnect" else None)
    monitors = [Monitor(model, open_source(addresses[protocol].format(port), options), patient=True) for port in ports]
    running = [asyncio.create_task(monitor.run()) for monitor in monitors]
    while any(monitor.forecast_age is None for monitor in monitors):
        for task in running:
            if task.done():
                task.result()
        await asyncio.sleep(0.5)
    ages: list[float] = []
    begin, used = time.monotonic(), time.process_time()
    rows = sum(monitor.snapshot().counters.rows for monitor in monitors)
    while time.monotonic() - begin < seconds:
        await asyncio.sleep(0.05)
        ages += [age for monitor in monitors if (age := monitor.forecast_age) is not None]
    told = sum(monitor.snapshot().counters.rows for monitor in monitors) - rows
    busy = time.process_time() - used
    sensors = min(len(monitor.snapshot().lights) for monitor in monitors)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return ages, sensors, told, busy


def _whole_mapping(folder: Path) -> Path:
    """All channels by name; without it the modulation depth, which has no type in the standard, would be missing."""
    columns = [{"native": channel.name, "channel": channel.name} for channel in canonical().channels]
    path = folder / "mapping.yaml"
    path.write_text(json.dumps({"machine": "mill", "schema": "canonical", "columns": columns}), encoding="utf-8")
    return path


async def _answering(port: int) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.2)


def _untrained(folder: Path) -> OpenedModel:
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


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "outage", "restart", "machines", "soak", "demo"))
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, default=Path("demo"))
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--protocol", choices=("opcua", "mtconnect"), default="mtconnect")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.what == "kills":
        kills(asked.times, asked.seed)
    elif asked.what == "outage":
        outage(asked.seconds, asked.speed)
    elif asked.what == "restart":
        restart()
    elif asked.what == "demo":
        demo(asked.folder)
    elif asked.what == "soak":
        soak(asked.hours, asked.speed)
    else:
        machines(asked.count, asked.seconds, asked.protocol)


if __name__ == "__main__":
    main()
