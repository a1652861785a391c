"""What serving costs: the start, the page, forecasts a second, and the time from a slider to its picture.

`python benchmarks/serve.py MODEL TABLE` rewrites benchmarks/serve.md with the real server and a real Chromium. Wall
times depend on whatever else the machine does; the load stands beside them, and CPU times where they can be had.
"""

import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from crossfeed.studio.files import page_files
from tests.studio.browser import Browser, chromium

_BEGIN = """
import json, sys, time
class NoPandas:  # no dependency of ours, but pyarrow loads it where it lies about
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas)
wall, busy = time.monotonic, time.process_time
began = wall(), busy()
import torch
torch_there = wall(), busy()
from pathlib import Path
from crossfeed.studio.server import serve
from crossfeed.studio.settings import ServeSettings
from crossfeed.studio.start import make_service
service = make_service(Path(sys.argv[1]), ServeSettings(port=0), Path(sys.argv[2]), device="cpu", speed=0.1)
def ready(address, link):
    there = wall(), busy()
    times = [[b - a for a, b in zip(began, torch_there)], [b - a for a, b in zip(torch_there, there)]]
    print(json.dumps({"address": address, "link": link, "token": service.keys.token, "times": times}), flush=True)
serve(service, ready)
"""
SLIDES, REQUESTS = 30, 120


def main(model: Path, table: Path) -> None:
    """Start, ask, slide, write."""
    with subprocess.Popen(
        [sys.executable, "-c", _BEGIN, str(model), str(table)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        try:
            speeds = {clients: asyncio.run(per_second(told, clients)) for clients in (1, 8, 32)}
            slides = slider(told)
        finally:
            server.terminate()
    write(told["times"], speeds, slides, model.name)


async def per_second(told: dict[str, Any], clients: int) -> tuple[float, float, float]:
    """Forecasts a second with so many clients that each ask again as soon as they are answered; CPU ms, batch size."""
    headers = {"authorization": f"Bearer {told['token']}"}
    questions = iter(range(REQUESTS))
    async with httpx.AsyncClient(base_url=told["address"], headers=headers, timeout=60.0) as client:
        session = (await client.get("/api/sessions")).json()["sessions"][0]

        async def ask() -> None:
            for number in questions:
                content = {"session": session["session"], "at": session["first"] + number % 16}
                (await client.post("/api/forecast", json=content)).raise_for_status()

        await ask_once(client, session)
        before, began = counted(told), time.monotonic()
        await asyncio.gather(*(ask() for _ in range(clients)))
        seconds, after = time.monotonic() - began, counted(told)
    busy, together, passes = (
        after[name] - before[name]
        for name in ("process_cpu_seconds_total", "crossfeed_batch_size_sum", "crossfeed_batch_size_count")
    )
    return REQUESTS / seconds, 1000.0 * busy / REQUESTS, together / passes


async def ask_once(client: httpx.AsyncClient, session: dict[str, Any]) -> None:
    """Let everything that is made at the first question be made."""
    for number in range(16):
        content = {"session": session["session"], "at": session["first"] + number}
        (await client.post("/api/forecast", json=content)).raise_for_status()


def counted(told: dict[str, Any]) -> dict[str, float]:
    """What the service has counted so far."""
    headers = {"authorization": f"Bearer {told['token']}"}
    text = httpx.get(f"{told['address']}/metrics", headers=headers, timeout=60.0).text
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if not line.startswith("#")}


def slider(told: dict[str, Any]) -> np.ndarray:
    """Milliseconds from a step of a slider to the frame that shows it.

    Two plans, four sensors, four commands; the numbers that follow when a slider rests are not asked for.
    """
    if chromium() is None:
        return np.array([])
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
        browser.go(told["link"])
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        browser.click("#tab-whatif")
        browser.ask("(() => { const one = document.querySelector('#session'); one.selectedIndex = 1; })()")
        browser.ask("document.querySelector('#session').dispatchEvent(new Event('change'))")
        browser.wait("document.querySelectorAll('#compared table').length > 0")
        browser.ask("document.querySelector('#feed-1').focus()")
        count = "performance.getEntriesByName('slider to picture').length"
        for step in range(SLIDES):
            browser.press("ArrowLeft" if step % 20 < 10 else "ArrowRight", 37 if step % 20 < 10 else 39)
            browser.wait(f"{count} > {step}")
        entries = "performance.getEntriesByName('slider to picture').map((one) => one.duration)"
        return np.array(browser.ask(entries))


def write(
    times: list[list[float]], speeds: dict[int, tuple[float, float, float]], slides: np.ndarray, model: str
) -> None:
    """The table."""
    page = page_files()
    packed = sum(len(one.packed) for path, one in page.items() if path != "/docs")
    plotly = len(page["/page/plotly.min.js"].packed)
    (torch_wall, torch_busy), (wall, busy) = times
    load = os.getloadavg()[0]
    shown = "no Chromium here" if not len(slides) else f"{np.median(slides):.0f} / {np.quantile(slides, 0.95):.0f}"
    rows = [
        ("server ready after the import of torch: seconds, wall / CPU", f"{wall:.1f} / {busy:.1f}", "<= 2"),
        ("(import of torch itself: seconds, wall / CPU)", f"{torch_wall:.1f} / {torch_busy:.1f}", ""),
        ("page, compressed: MB in all / of it plotly.js", f"{packed / 1e6:.2f} / {plotly / 1e6:.2f}", "<= 1.6"),
        *(
            (
                f"{clients} client{'s' if clients > 1 else ''}: forecasts a second / CPU ms each / sharing a pass",
                f"{speed:.0f} / {cost:.0f} / {shared:.1f}",
                "",
            )
            for clients, (speed, cost, shared) in speeds.items()
        ),
        ("slider to picture: milliseconds, median / p95", shown, "<= 300"),
    ]
    lines = [
        "# What serving costs",
        "",
        f"Model {model}, {date.today()}, {platform.machine()}, Python {platform.python_version()}; load average "
        f"{load:.1f} on {os.cpu_count()} cores while measuring, so wall times are those of a busy machine. Made by "
        "`python benchmarks/serve.py MODEL TABLE`.",
        "",
        "| what | measured | wanted |",
        "| --- | --- | --- |",
        *(f"| {what} | {measured} | {wanted} |" for what, measured, wanted in rows),
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
