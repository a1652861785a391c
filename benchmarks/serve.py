"""What serving costs: the start, the page, forecasts a second, and the time from a slider to its picture.

`python benchmarks/serve.py MODEL TABLE` rewrites benchmarks/serve.md with the real server and a real Chromium. Run it
on a machine that does nothing else: these are wall times.
"""

import asyncio
import gzip
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from measuring import parser

from crossfeed.studio.app import page_files
from tests.studio.browser import Browser, chromium

_BEGIN = """
import sys, time
class NoPandas:  # no dependency of ours, but pyarrow loads it where it lies about
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas)
began = time.monotonic()
import torch
print("torch", began, time.monotonic(), flush=True)
from crossfeed.cli import main
sys.argv = ["crossfeed", "serve", *sys.argv[1:]]
main()
"""
SLIDES, REQUESTS, STARTS = 40, 120, 3


@contextmanager
def started(*words: str) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """`crossfeed serve` as a user starts it: where it is; seconds of torch's import, and of all that followed."""
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        command = [sys.executable, "-c", _BEGIN, *words, "--port", "0", "--token-file", str(token), "--device", "cpu"]
        # Told on the standard error stream, without the width of a terminal.
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {"COLUMNS": "400"}
        ) as server:
            try:
                assert server.stdout is not None
                seconds: list[float] = []
                for line in server.stdout:
                    if line.startswith("torch"):
                        began, there = map(float, line.split()[1:])
                    if line.startswith("Open"):
                        link = line.split()[1]
                        seconds = [there - began, time.monotonic() - there]
                        break
                assert seconds, "the server did not start"
                secret = token.read_text().strip()
                yield {"address": link.partition("/enter")[0], "link": link, "token": secret}, seconds
            finally:
                server.terminate()


def main(model: Path, table: Path) -> None:
    """Start, ask, slide, write."""
    replay = (str(model), "--history", str(table), "--speed", "0.1")
    starts = [_start(*replay) for _ in range(STARTS)]
    live = [_start(str(model), "--live", "opc.tcp://127.0.0.1:9") for _ in range(STARTS)]
    with started(*replay) as (told, _):
        speeds = {clients: asyncio.run(per_second(told, clients)) for clients in (1, 8, 32)}
        slides = slider(told)
    write(np.median(starts, axis=0).tolist(), np.median(live, axis=0).tolist(), speeds, slides, model.name)


def _start(*words: str) -> list[float]:
    with started(*words) as (_, seconds):
        return seconds


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


def slider(told: dict[str, Any]) -> dict[str, np.ndarray]:
    """Milliseconds from a step of a slider to the frame that shows it: two plans, four sensors, four commands.

    Moved on at once, the numbers of a resting slider are never asked for; moved after a rest, each step meets a
    comparison of 64 futures that is under way and has to be given up.
    """
    if chromium() is None:
        return {}
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
        browser.go(told["link"])
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        browser.click("#tab-whatif")
        browser.ask("(() => { const one = document.querySelector('#session'); one.selectedIndex = 1; })()")
        browser.ask("document.querySelector('#session').dispatchEvent(new Event('change'))")
        browser.wait("document.querySelectorAll('#compared table').length > 0")
        browser.ask("document.querySelector('#feed-1').focus()")
        return {
            "moved on at once": _slide(browser, 0.0),
            "moved while numbers are rolled": _slide(browser, 0.6),
        }


def _slide(browser: Browser, rest: float) -> np.ndarray:
    browser.ask("performance.clearMeasures('slider to picture')")
    count = "performance.getEntriesByName('slider to picture').length"
    for step in range(SLIDES):
        browser.press("ArrowLeft" if step % 20 < 10 else "ArrowRight", 37 if step % 20 < 10 else 39)
        browser.wait(f"{count} > {step}")
        time.sleep(rest)
    return np.array(browser.ask("performance.getEntriesByName('slider to picture').map((one) => one.duration)"))


def write(
    start: list[float],
    live: list[float],
    speeds: dict[int, tuple[float, float, float]],
    slides: dict[str, np.ndarray],
    model: str,
) -> None:
    """The table."""
    page = page_files()
    sizes = {path: len(gzip.compress(file.read_bytes(), 6)) for path, file in page.items() if path != "/docs"}
    packed, plotly = sum(sizes.values()), sizes["/page/plotly.min.js"]
    rows = [
        (f"link printed after the import of torch ({start[0]:.1f} s): a table, seconds", f"{start[1]:.2f}", "<= 2"),
        ("the same with `--live`: seconds", f"{live[1]:.2f}", "<= 2"),
        ("page, compressed: MB in all / of it plotly.js", f"{packed / 1e6:.2f} / {plotly / 1e6:.2f}", "<= 1.6"),
        *(
            (
                f"{clients} client{'s' if clients > 1 else ''}: forecasts a second / CPU ms each / sharing a pass",
                f"{speed:.0f} / {cost:.0f} / {shared:.1f}",
                "",
            )
            for clients, (speed, cost, shared) in speeds.items()
        ),
        *(
            (
                f"slider to picture, {how}: milliseconds, median / p95 of {len(found)}",
                f"{np.median(found):.0f} / {np.quantile(found, 0.95):.0f}",
                "<= 300",
            )
            for how, found in slides.items()
        ),
    ]
    lines = [
        "# What serving costs",
        "",
        f"Model {model}, {date.today()}, {os.cpu_count()} cores of a {platform.machine()} server, Python "
        f"{platform.python_version()}, browser and server on the same cores. Made by `python benchmarks/serve.py MODEL "
        f"TABLE`; the seconds of a start are the median of {STARTS}.",
        "",
        "| what | measured | wanted |",
        "| --- | --- | --- |",
        *(f"| {what} | {measured} | {wanted} |" for what, measured, wanted in rows),
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("model", type=Path)
    options.add_argument("table", type=Path)
    main(**vars(options.parse_args()))
