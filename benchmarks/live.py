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
from pathlib import Path

from live_demo import demo
from live_losses import kills, outage, restart
from live_machines import machines
from live_soak import soak


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
