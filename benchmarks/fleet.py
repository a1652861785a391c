"""How quickly a fleet is generated: rows of machines that log once a second, on so many cores.

python benchmarks/fleet.py --machines 64 --jobs 2
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

from crossfeed.sim.factory.draw import NEIGHBOURS, period_of
from crossfeed.sim.factory.generate import draw_table


def rows_of(number: int, minutes: float) -> int:
    return sum(len(table) for table in draw_table(0, [number], minutes))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    slow = [number for number in range(100 * NEIGHBOURS) if period_of(0, number) == 1.0][: options.machines]
    with ProcessPoolExecutor(options.jobs) as pool:
        list(pool.map(rows_of, slow[: options.jobs], [2.0] * options.jobs))  # imports are not what is measured
        begun = time.perf_counter()
        rows = sum(pool.map(rows_of, slow, [options.minutes] * len(slow)))
        seconds = time.perf_counter() - begun
    simulated = len(slow) * options.minutes * 60
    print(f"{len(slow)} machines, {rows:,} rows of 1 s in {seconds:.1f} s on {options.jobs} processes:")
    print(f"{rows / seconds * 60:,.0f} rows a minute, {simulated / seconds:,.0f} simulated seconds a second")


if __name__ == "__main__":
    main()
