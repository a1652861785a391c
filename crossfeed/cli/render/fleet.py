"""Fleets on a terminal."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from crossfeed.cli.render.grid import grid, plural
from crossfeed.fleet.shards import ShardSummary


def show_shards(folder: Path, shards: Sequence[ShardSummary], console: Console) -> None:
    """Print what a fleet folder holds now, period by period."""
    table = grid("", ["rows every", "shards", "machines", "rows"], words=1, boxed=False)
    machines, rows = Counter[float](), Counter[float]()
    for shard in shards:
        machines[shard.period] += shard.machines
        rows[shard.period] += shard.rows
    for period in sorted(rows):
        count = sum(shard.period == period for shard in shards)
        table.add_row(f"{period:g} s", f"{count:,}", f"{machines[period]:,}", f"{rows[period]:,}")
    console.print(table)
    made = sum(shard.made for shard in shards)
    found = f", {len(shards) - made:,} of them found" if made < len(shards) else ""
    console.print(
        f"{folder}: {plural(sum(machines.values()), 'machine')}, {sum(rows.values()):,} rows in "
        f"{plural(len(shards), 'shard')}{found}",
        markup=False,
    )
