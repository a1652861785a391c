"""Everything that can go wrong around a command: kills, full and read-only disks, second processes, clocks, damage.

    python benchmarks/faults.py [--kills 100] [--damage 200] [--seed 0] [--out faults.md]

Victims are forked from one process that has imported everything, so that a kill strikes the work and not the start.
Each operation is first done undisturbed; every disturbed one, repeated as a user would repeat it, must end with the
same content. A search of a study with its own processes is killed by benchmarks/kill_search.py.
"""

import argparse
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fault_children import TIDY, Tally, ended, forked
from fault_damage import damage
from fault_operations import operations, prepare
from fault_trials import full_disk, jumping_clock, kills, little_memory, read_only, two_at_once

from crossfeed.progress import be_quiet


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=100, help="in all, over the operations")
    options.add_argument("--full", type=int, default=5, help="full disks for each operation")
    options.add_argument("--damage", type=int, default=200, help="for each kind of file")
    options.add_argument("--only", default="", help="operations, with commas in between")
    options.add_argument("--parts", default="damage,kills,full,readonly,two,clock,memory")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--export", action="store_true", help="damage an exported model as well")
    options.add_argument("--out", type=Path)
    asked = options.parse_args()
    torch.set_num_threads(1)
    be_quiet()
    moments, folder = random.Random(asked.seed), Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    parts, lines = asked.parts.split(","), ["# Faults", ""]
    try:
        material = folder / "material"
        assert ended(forked(lambda: prepare(material, asked.export), quiet=False)) == TIDY, "no material"
        every = [one for one in operations(material) if not asked.only or one.name in asked.only.split(",")]
        heads = {
            "damage": ("file", "tries", "found", "harmless", "SILENT", "traceback"),
            "kills": ("command", "tries", "struck", "not resumed", "other content", "left over", "longest repeat"),
            "full": (
                "command",
                "tries",
                "said in words",
                "done",
                "traceback",
                "not resumed",
                "other content",
                "longest repeat",
            ),
            "readonly": ("command", "tries", "said in words", "done", "traceback", "left over"),
            "two": ("command", "tries", "both done", "one told so", "traceback", "other content"),
            "clock": ("command", "tries", "failed", "other content"),
            "memory": ("command", "tries", "done", "said in words", "traceback"),
        }
        per = math.ceil(asked.kills / sum(operation.share for operation in every))
        trials: dict[str, Callable[[], dict[str, Tally]]] = {
            "damage": lambda: damage(folder, material, asked.damage, moments),
            "kills": lambda: kills(folder, every, per, moments),
            "full": lambda: full_disk(folder, every, asked.full, moments),
            "readonly": lambda: read_only(folder, every),
            "two": lambda: two_at_once(folder, every, 2),
            "clock": lambda: jumping_clock(folder, every, 2, moments),
            "memory": lambda: little_memory(folder, every),
        }
        for part in parts:
            began, found = time.perf_counter(), trials[part]()
            names = heads[part]
            lines += [f"## {part}", "", f"| {' | '.join(names)} |", "|---|" + "---:|" * (len(names) - 1)]
            lines += [f"| {name} | {tally.row(*names[2:])} |" for name, tally in found.items()]
            lines += ["", f"{time.perf_counter() - began:.0f} s.", ""]
            print("\n".join(lines[-len(found) - 7 :]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if asked.out:
        asked.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
