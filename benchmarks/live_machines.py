"""How old forecasts are when one core watches many machines."""

import asyncio
import logging
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from live_setting import answering, free_port, run_servers, untrained, whole_mapping

from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.live.monitor import Monitor, SharedForecasts
from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.sim.servers.serve import ProtocolName


def machines(count: int, seconds: float, protocol: ProtocolName) -> None:
    """Machines at 10 Hz, all monitors on one core, their servers on another."""
    logging.getLogger("asyncua").setLevel(logging.CRITICAL)
    ports = [free_port() for _ in range(count)]
    process = multiprocessing.get_context("spawn").Process(target=run_servers, args=(protocol, ports), daemon=True)
    process.start()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = untrained(Path(folder))
        ages, sensors, counts, cpu = asyncio.run(_watch(model, protocol, ports, seconds))
    process.terminate()
    p50, p99 = np.percentile(ages, (50, 99))
    print(f"| {count} machines x {sensors} sensors at 10 Hz ({protocol}), all on one core, {seconds:g} s | "
          f"forecast age p50 {p50:.2f} s, p99 {p99:.2f} s; {counts} rows forecast; "
          f"{cpu / seconds:.0%} of the core |")  # fmt: skip


async def _watch(
    model: OpenedModel, protocol: ProtocolName, ports: list[int], seconds: float
) -> tuple[list[float], int, int, float]:
    for port in ports:
        await answering(port)
    addresses = {"opcua": "opc.tcp://127.0.0.1:{}/crossfeed", "mtconnect": "http://127.0.0.1:{}"}
    options = SourceOptions(whole_mapping(model.path.parent) if protocol == "mtconnect" else None)
    shared = SharedForecasts(model.model)
    monitors = [
        Monitor(model, open_source(addresses[protocol].format(port), options), forecasts=shared, waits_for_source=True)
        for port in ports
    ]
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
