"""What `crossfeed live watch` draws, and how it and the recorder end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from crossfeed.cli.live import picture
from crossfeed.live.monitor import Monitor
from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.live.snapshot import Snapshot
from tests.evaluation.small_machine import CONTEXT
from tests.live.conftest import LIMIT_S, Shop, within


def test_on_a_narrow_terminal_a_sensor_took_three_lines(shop: Shop, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(shop.header() + shop.lines(0, CONTEXT + 2), encoding="utf-8")

    async def work() -> Snapshot:
        monitor = Monitor(shop.opened, open_source(f"file:{log}", SourceOptions(mapping=shop.mapping)))
        running = asyncio.create_task(monitor.run())
        async for snapshot in monitor.updates():
            if snapshot.forecast:
                running.cancel()
                return snapshot
        raise AssertionError("the monitor ended")

    snapshot = within(LIMIT_S, work)
    for width, horizons in ((110, 1), (170, 2)):
        screen = Console(width=width, color_system=None)
        with screen.capture() as captured:
            screen.print(picture(snapshot, screen.width))
        lines = captured.get().splitlines()
        head = next(place for place, line in enumerate(lines) if "may it be believed" in line)
        assert lines[head].count(" in ") == horizons
        sensors = lines[head + 2 : head + 2 + len(snapshot.lights)]
        assert all(line.startswith("●") for line in sensors), captured.get()


def test_ctrl_c_ended_a_recording_as_if_it_had_failed(shop: Shop, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(shop.header() + shop.lines(0, 10), encoding="utf-8")
    words = ["live", "record", f"file:{log}", "--mapping", str(shop.mapping), "--out", str(tmp_path / "spool")]
    recorder = subprocess.Popen(
        [sys.executable, "-m", "crossfeed", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    until = time.monotonic() + LIMIT_S
    while not list(tmp_path.glob("spool/*.spool")) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(recorder.pid, signal.SIGINT)
    told, _ = recorder.communicate(timeout=LIMIT_S)
    assert recorder.returncode == 0, told
    assert "recording" in told
    assert "next: crossfeed live to-table" in told
