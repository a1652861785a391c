"""The bench on a terminal: every figure, and advice only where there is a choice."""

from dataclasses import replace

import pytest

from crossfeed.cli.render.bench import remarks, show_bench
from crossfeed.training.devices.bench import Bench

FOUND = Bench(
    machine="box", device="cpu", torch="2.5", preset="crossfeed", size="tiny", batch=8, precision="float32", threads=2,
    threads_ms={1: 12.0, 2: 8.0}, step_ms=8.0, plain_ms=160.0, windows_a_second=1000.0, gigaflop=3.0,
    peak_gigaflops=50.0, share_of_peak=0.5, parts_ms={"forward": 3.0, "backward": 4.0}, peak_gib=None,
)  # fmt: skip


def test_every_figure_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_bench(FOUND)
    shown = capsys.readouterr().out
    for words in ("8.00 ms", "160 ms", "1,000", "50%", "forward", "backward", "2 threads", "Set OMP_NUM_THREADS=2"):
        assert words in shown
    assert "memory" not in shown


def test_a_single_thread_leaves_no_choice(capsys: pytest.CaptureFixture[str]) -> None:
    alone = replace(FOUND, threads=1, threads_ms={1: 8.0}, peak_gib=1.5)
    assert all("OMP_NUM_THREADS" not in line for line in remarks(alone))
    show_bench(alone)
    shown = capsys.readouterr().out
    assert "1 thread" in shown
    assert "1.5 GiB" in shown
