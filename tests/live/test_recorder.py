"""The recorder: nothing lost but the open second, nothing doubled, and the table that ingest would make."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from crossfeed.errors import LogError, StorageError
from crossfeed.files import locked
from crossfeed.live import recorder
from crossfeed.live.open_source import SourceOptions, open_source
from crossfeed.live.recorder import (
    ENDING,
    LOCK,
    Damage,
    LiveRecorder,
    SpoolWriter,
    last_position,
    read_spool,
    record,
    spool_to_table,
)
from crossfeed.live.source import BoundedQueue, Mark, Notice, Sample
from crossfeed.logs.mapped_logs import mapped_format
from crossfeed.logs.pipeline import ingest
from tests.live.conftest import LIMIT_S, Shop, within


@pytest.fixture(autouse=True)
def _flushed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests wait for what is on the disk, not for the second after which a recorder writes."""
    monkeypatch.setattr(recorder, "FLUSH_S", 0.05)


def _recorded(spool: Path) -> int:
    return sum(sample.channel == "@@run" for found in read_spool(spool) for sample in found.samples)


async def _record_until(shop: Shop, log: Path, spool: Path, rows: int) -> None:
    source = open_source(f"file:{log}", SourceOptions(mapping=shop.mapping))
    enough = asyncio.Event()

    def look(_: dict[str, float]) -> None:
        if _recorded(spool) >= rows:
            enough.set()

    recording = asyncio.create_task(record(source, spool, on_flush=look))
    waiting = asyncio.create_task(enough.wait())
    await asyncio.wait({recording, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if recording.done():
        recording.result()
    recording.cancel()


def _same(left: object, right: object) -> None:
    for name in ("time", "sensors", "commands"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert left.groups == right.groups  # type: ignore[attr-defined]


def test_what_was_recorded_live_and_what_was_ingested_are_the_same_table(shop: Shop, tmp_path: Path) -> None:
    log, spool = tmp_path / "log.csv", tmp_path / "spool"
    text = shop.header() + shop.lines(0, 40, step=0.5) + shop.lines(100, 130, step=0.7)
    log.write_text(text[: len(text) // 2], encoding="utf-8")

    async def work() -> None:
        writing = asyncio.create_task(_record_until(shop, log, spool, 70))
        await asyncio.sleep(0)
        with log.open("a", encoding="utf-8") as file:
            for start in range(len(text) // 2, len(text), 777):
                file.write(text[start : start + 777])
                file.flush()
                await asyncio.sleep(0)
        await writing

    within(LIMIT_S, work)
    table = spool_to_table(spool)
    _same(table, ingest(mapped_format(shop.mapping), log))
    assert len({group.session for group in table.groups}) == 2


def test_two_recorders_of_one_spool_kept_everything_twice(shop: Shop, tmp_path: Path) -> None:
    log, spool = tmp_path / "log.csv", tmp_path / "spool"
    log.write_text(shop.header() + shop.lines(0, 20), encoding="utf-8")
    with locked(spool / LOCK), pytest.raises(LogError, match="Another process records into"):
        within(LIMIT_S, lambda: _record_until(shop, log, spool, 20))
    within(LIMIT_S, lambda: _record_until(shop, log, spool, 20))
    assert _recorded(spool) == 20


def test_a_segment_that_cannot_be_made_ended_in_a_traceback(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / f"000001{ENDING}"
    taken.touch()
    monkeypatch.setattr(SpoolWriter, "_segment", lambda _: taken)
    with pytest.raises(StorageError, match="Writing"):
        SpoolWriter(tmp_path, mapped_format(shop.mapping), "a mill")


def test_the_end_of_a_spool_that_was_cut_off_is_told_in_the_table(shop: Shop, tmp_path: Path) -> None:
    log, spool = tmp_path / "log.csv", tmp_path / "spool"
    log.write_text(shop.header() + shop.lines(0, 60), encoding="utf-8")
    for rows in (60, 120):
        within(LIMIT_S, lambda rows=rows: _record_until(shop, log, spool, rows))
        with log.open("a", encoding="utf-8") as file:
            file.write(shop.lines(60, 120))
    last = sorted(spool.glob(f"*{ENDING}"))[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert spool_to_table(spool).manifest["repairs"]["ends of the spool that were cut off, left out"] == 1


def test_a_changed_unit_in_the_header_of_a_spool_was_believed(shop: Shop, tmp_path: Path) -> None:
    log, spool = tmp_path / "log.csv", tmp_path / "spool"
    log.write_text(shop.header() + shop.lines(0, 60), encoding="utf-8")
    within(LIMIT_S, lambda: _record_until(shop, log, spool, 60))
    header = spool / "source.json"
    header.write_text(header.read_text(encoding="utf-8").replace('"unit": "A"', '"unit": "mA"'), encoding="utf-8")
    with pytest.raises(StorageError, match="was changed after it was written"):
        spool_to_table(spool)


def test_a_rotated_log_is_read_to_its_end_and_then_the_new_one(shop: Shop, tmp_path: Path) -> None:
    log, spool = tmp_path / "log.csv", tmp_path / "spool"
    log.write_text(shop.header() + shop.lines(0, 20), encoding="utf-8")

    async def work() -> None:
        recording = asyncio.create_task(_record_until(shop, log, spool, 45))
        while _recorded_or_none(spool) < 20:
            await asyncio.sleep(0.01)
        with log.open("a", encoding="utf-8") as file:
            file.write(shop.lines(20, 25))
        log.rename(tmp_path / "log.csv.1")
        log.write_text(shop.header() + shop.lines(25, 45), encoding="utf-8")
        await recording

    within(LIMIT_S, work)
    assert len(spool_to_table(spool)) == 45


def _recorded_or_none(spool: Path) -> int:
    return _recorded(spool) if spool.is_dir() else 0


def test_a_recorder_that_was_killed_goes_on_where_it_stopped(shop: Shop, tmp_path: Path) -> None:
    log, spool = tmp_path / "log.csv", tmp_path / "spool"
    log.write_text(shop.header() + shop.lines(0, 10), encoding="utf-8")
    command = [sys.executable, "-m", "crossfeed", "live", "record", f"file:{log}"]
    command += ["--mapping", str(shop.mapping), "--out", str(spool)]
    row = 10
    for enough in (10, 20):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        begin = time.monotonic()
        while _recorded_or_none(spool) < enough and time.monotonic() - begin < LIMIT_S:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with log.open("a", encoding="utf-8") as file:
            file.write(shop.lines(row, row + 10))
        row += 10
    within(LIMIT_S, lambda: _record_until(shop, log, spool, 30))
    table = spool_to_table(spool)
    _same(table, ingest(mapped_format(shop.mapping), log))
    assert table.manifest["live"]["doubled_samples"] == 0


def test_a_record_that_was_cut_off_or_damaged_costs_no_other(shop: Shop, tmp_path: Path) -> None:
    kind = mapped_format(shop.mapping)
    sizes = []
    spooling = LiveRecorder(tmp_path, kind, "a test")
    for number in range(4):
        spooling.take(Sample("@@run", "log", number * 1_000_000))
        spooling.take(Mark({"offset": number}))
        spooling.flush()
        sizes.append((tmp_path / f"000001{ENDING}").stat().st_size)
    spooling.close()
    content = bytearray((tmp_path / f"000001{ENDING}").read_bytes())
    content[sizes[0] + 12] ^= 0xFF
    for end in range(sizes[2] + 1, sizes[3]):
        (tmp_path / f"000001{ENDING}").write_bytes(content[:end])
        damage = Damage()
        found = [record.position for record in read_spool(tmp_path, damage)]
        assert found == [{"offset": 0}, {"offset": 2}]
        assert (damage.cut_off, damage.broken) == (1, 1)
    assert last_position(tmp_path) == {"offset": 2}


def test_late_and_doubled_samples_are_counted_and_a_late_one_within_two_seconds_is_kept(
    shop: Shop, tmp_path: Path
) -> None:
    spooling = LiveRecorder(tmp_path, mapped_format(shop.mapping), "a test")
    for stamp in (10_000_000, 8_000_000, 7_999_999, 10_000_000):
        spooling.take(Sample("@@run", "log", stamp))
    spooling.take(Notice("gap", "lost", 1, 2))
    spooling.close()
    assert spooling.counts == {"samples": 2, "late": 1, "doubled": 1, "gap": 1}
    (found,) = read_spool(tmp_path)
    assert [sample.time for sample in found.samples] == [10_000_000, 8_000_000]
    assert found.notices[0].kind == "gap"


def test_a_full_queue_drops_the_oldest_samples_and_counts_them() -> None:
    async def work() -> None:
        queue = BoundedQueue(longest=3)
        queue.put(Notice("gap", "lost"))
        for stamp in range(5):
            queue.put(Sample("x", 0.0, stamp))
        taken = await queue.take(1.0)
        assert queue.dropped == 3
        assert isinstance(taken[0], Notice)
        assert [one.time for one in taken[1:] if isinstance(one, Sample)] == [3, 4]
        assert await queue.take(0.0) == []

    within(LIMIT_S, work)


def test_a_spool_of_other_channels_is_refused(shop: Shop, tmp_path: Path) -> None:
    kind = mapped_format(shop.mapping)
    LiveRecorder(tmp_path, kind, "a test").close()
    from dataclasses import replace

    with pytest.raises(LogError, match="begun with other channels"):
        LiveRecorder(tmp_path, replace(kind, machine="another"), "a test")


def test_a_folder_that_is_no_spool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="is no spool"):
        spool_to_table(tmp_path)
