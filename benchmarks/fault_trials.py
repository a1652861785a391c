"""Kills, full and read-only disks, second processes, a jumping clock and little memory, for every operation."""

import ctypes
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fault_children import SPOKEN, TIDY, TRACEBACK, Tally, ended, forked, in_child, place_for
from fault_operations import Operation

SECONDS: dict[str, float] = {}  # how long each operation took in peace


def undisturbed(folder: Path, operation: Operation) -> tuple[Path, float, Any]:
    """Where an operation was done in peace, in how many seconds, and what is there; done once."""
    place, began = place_for(folder, f"calm {operation.name}"), time.perf_counter()
    if operation.name not in SECONDS:
        assert ended(forked(lambda: operation.do(place))) == TIDY, operation.name
        SECONDS[operation.name] = time.perf_counter() - began
    return place, SECONDS[operation.name], in_child(lambda: operation.content(place))


def repeat(operation: Operation, place: Path, wanted: Any, tally: Tally) -> None:
    """The same command again, as a user would type it after a fault."""
    began = time.perf_counter()
    code = ended(forked(lambda: operation.do(place)))
    tally.worst = max(tally.worst, time.perf_counter() - began)
    if code != TIDY:
        tally.counts["not resumed"] += 1
    elif in_child(lambda: operation.content(place)) != wanted:
        tally.counts["other content"] += 1


def kills(folder: Path, every: list[Operation], count: int, moments: random.Random) -> dict[str, Tally]:
    """SIGKILL somewhere between start and end, once or twice, then the same command again."""
    found = {}
    for operation in every:
        _, length, wanted = undisturbed(folder, operation)
        tally = found[operation.name] = Tally()
        while tally.tries < operation.tries(count):
            place = place_for(folder, "killed")
            for _ in range(moments.choice((1, 1, 2))):
                child = forked(lambda: operation.do(place))  # noqa: B023
                time.sleep(moments.uniform(0.0, 1.05 * length))
                os.kill(child, signal.SIGKILL)
                tally.tries += 1
                tally.counts["struck"] += ended(child) == -signal.SIGKILL
            repeat(operation, place, wanted, tally)
            tally.counts["left over"] += sum(1 for path in place.rglob(".*.partial"))
        print(f"kills {operation.name}: {dict(tally.counts)}, {length:.1f} s undisturbed", file=sys.stderr, flush=True)
    return found


def full_disk(folder: Path, every: list[Operation], count: int, moments: random.Random) -> dict[str, Tally]:
    """No file may grow beyond one byte less than one of them needs; an error in words, and then the command works."""

    def limited(operation: Operation, place: Path, limit: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        operation.do(place)

    found = {}
    for operation in every:
        calm, _, wanted = undisturbed(folder, operation)
        sizes = sorted({path.stat().st_size for path in calm.rglob("*") if path.is_file()} - {0})
        limits = [0, *(size - 1 for size in sizes), *(moments.randrange(size) for size in sizes)]
        tally = found[operation.name] = Tally()
        for limit in sorted(moments.sample(limits, min(operation.tries(count), len(limits)))):
            place = place_for(folder, "full")
            tally.count(ended(forked(lambda: limited(operation, place, limit))))  # noqa: B023
            repeat(operation, place, wanted, tally)
        print(f"full {operation.name}: {dict(tally.counts)}", file=sys.stderr, flush=True)
    return found


def read_only(folder: Path, every: list[Operation]) -> dict[str, Tally]:
    """A folder that nobody may write to."""

    def powerless(operation: Operation, place: Path) -> None:
        # Root may write anywhere until it gives its capabilities away; another user could not read the interpreter.
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, none) == 0
        operation.do(place)

    found = {}
    for operation in every:
        place = place_for(folder, "read-only")
        place.chmod(0o555)
        code = ended(forked(lambda: powerless(operation, place)))  # noqa: B023
        place.chmod(0o755)
        tally = found[operation.name] = Tally()
        tally.count(code)
        tally.counts["left over"] += sum(1 for _ in place.rglob("*"))
    return found


def two_at_once(folder: Path, every: list[Operation], count: int) -> dict[str, Tally]:
    """Two processes in one folder: one works, the other waits or is told so; the content is that of one alone."""
    found = {}
    for operation in every:
        _, _, wanted = undisturbed(folder, operation)
        tally = found[operation.name] = Tally()
        for _ in range(operation.tries(count)):
            place = place_for(folder, "shared")
            children = [forked(lambda: operation.do(place)) for _ in range(2)]  # noqa: B023
            codes = [ended(child) for child in children]
            tally.tries += 1
            tally.counts["both done"] += codes == [TIDY, TIDY]
            tally.counts["one told so"] += sorted(codes) == [TIDY, SPOKEN]
            tally.counts["traceback"] += TRACEBACK in codes
            if TIDY not in codes or in_child(lambda: operation.content(place)) != wanted:  # noqa: B023
                tally.counts["other content"] += 1
    return found


def jumping_clock(folder: Path, every: list[Operation], count: int, moments: random.Random) -> dict[str, Tally]:
    """Every look at the clock may be a year before or after the last one."""

    def jumpy(operation: Operation, place: Path) -> None:
        real = time.time
        time.time = lambda: real() + moments.uniform(-3.2e7, 3.2e7)
        operation.do(place)

    found = {}
    for operation in every:
        _, _, wanted = undisturbed(folder, operation)
        tally = found[operation.name] = Tally()
        for _ in range(operation.tries(count)):
            place = place_for(folder, "clock")
            tally.tries += 1
            if ended(forked(lambda: jumpy(operation, place))) != TIDY:  # noqa: B023
                tally.counts["failed"] += 1
            elif in_child(lambda: operation.content(place)) != wanted:  # noqa: B023
                tally.counts["other content"] += 1
    return found


def little_memory(folder: Path, every: list[Operation]) -> dict[str, Tally]:
    """Two gigabytes of data and no more."""

    def small(operation: Operation, place: Path) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
        operation.do(place)

    found = {}
    for operation in every:
        place = place_for(folder, "memory")
        tally = found[operation.name] = Tally()
        tally.count(ended(forked(lambda: small(operation, place))))  # noqa: B023
    return found
