"""An hour in a minute: does the service beside a machine stay as small as it was?"""

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from live_setting import ended, free_port, run_servers, untrained, whole_mapping


def soak(hours: float, speed: float) -> None:
    """`crossfeed serve --live` beside a machine for hours of its time, with a page that listens and asks."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(
        target=run_servers, args=("mtconnect", [port], speed, 2.0), daemon=True
    )
    process.start()
    with tempfile.TemporaryDirectory() as folder:
        untrained(Path(folder))
        token = Path(folder) / "token"
        command = [sys.executable, "-m", "crossfeed", "serve", str(Path(folder) / "model.safetensors"), "--live"]
        command += [f"http://127.0.0.1:{port}", "--mapping", str(whole_mapping(Path(folder))), "--speed", str(speed)]
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
    how = "`crossfeed serve --live`, 2 Hz, one listener, a what-if every 5 s, begun after the first of them"
    print(f"| {hours:g} h of machine time at {speed:g}-fold speed ({how}) | {rows} rows, {moments} moments told; MB "
          f"in ten parts: {', '.join(f'{size:.0f}' for size in tenths)}; drift from the first to the last "
          f"{tenths[-1] / tenths[0] - 1.0:+.1%} |")  # fmt: skip


async def _listen(address: str, token: str, server: int, seconds: float) -> tuple[list[float], int, int]:
    """Memory of the server in MB once a second, moments heard, and rows at the end."""
    import httpx
    from websockets.asyncio.client import connect

    headers = {"authorization": f"Bearer {token}"}
    question = {"plans": [{}, {"feed": 80}], "samples": 32}
    sizes: list[float] = []
    moments = rows = 0
    # The first answer takes the memory that every other one will use again: what follows must not grow.
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60.0) as client:
        while (await client.post("/api/what-if", json=question)).status_code != httpx.codes.OK:
            await asyncio.sleep(0.5)
    begin = time.monotonic()

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60.0) as client:
            while True:
                await asyncio.sleep(1.0)
                status = Path(f"/proc/{server}/status").read_text(encoding="utf-8")
                sizes.append(int(status.partition("VmRSS:")[2].split()[0]) / 1024.0)
                await client.get("/metrics")
                if len(sizes) % 5 == 0:
                    await client.post("/api/what-if", json=question)

    asking = asyncio.create_task(ask())
    async with connect(f"{address.replace('http', 'ws')}/api/stream", additional_headers=headers) as socket:
        while time.monotonic() - begin < seconds:
            state = json.loads(await socket.recv())
            moments, rows = moments + 1, state["counters"]["rows"]
    await ended(asking)
    return sizes, moments, rows
