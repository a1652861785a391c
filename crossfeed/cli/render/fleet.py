"""Fleets on a terminal."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from crossfeed.cli.render.grid import grid, number, print_table, short
from crossfeed.fleet.compare import FleetComparison
from crossfeed.fleet.describe import FACTS, Match
from crossfeed.fleet.shards import ShardSummary
from crossfeed.grid import plural
from crossfeed.progress import output


def show_shards(folder: Path, shards: Sequence[ShardSummary]) -> None:
    """Print what a fleet folder holds now, period by period."""
    console = output()
    machines, rows = Counter[float](), Counter[float]()
    for shard in shards:
        machines[shard.period] += shard.machines
        rows[shard.period] += shard.rows
    counts = Counter(shard.period for shard in shards)
    cells = (
        [f"{period:g} s", *(f"{count[period]:,}" for count in (counts, machines, rows))] for period in sorted(rows)
    )
    print_table("", ["rows every", "shards", "machines", "rows"], cells)
    made = sum(shard.made for shard in shards)
    found = f", {len(shards) - made:,} of them found" if made < len(shards) else ""
    console.print(
        f"{folder}: {plural(sum(machines.values()), 'machine')}, {sum(rows.values()):,} rows in "
        f"{plural(len(shards), 'shard')}{found}",
        markup=False,
    )


def show_matches(matches: Sequence[Match]) -> None:
    """Print a real log's channels beside what nine of ten simulated machines show; a cross marks what lies outside."""
    console = output()
    table = grid("", ["channel", "machines", *FACTS], words=1)
    for channel in dict.fromkeys(match.channel for match in matches):
        own = [match for match in matches if match.channel == channel]
        cells = [
            f"{'' if match.inside else 'x '}{short(match.real)}\n[dim]{short(match.low)} to {short(match.high)}[/]"
            for match in own
        ]
        table.add_row(channel, f"{own[0].machines:,}", *cells)
    console.print(table)
    inside = sum(match.inside for match in matches)
    console.print(f"{inside} of {plural(len(matches), 'fact')} lie within what nine of ten simulated machines show")


def show_fleet_comparison(found: FleetComparison) -> None:
    """Print how well the fleet is told from the real log, and the features that do it."""
    console = output()
    console.print(
        f"{found.machine}: {plural(found.real_windows, 'real window')} against {found.fleet_windows:,} of "
        f"{plural(found.fleet_machines, 'machine')} of the fleet, a row every {found.period:g} s",
        markup=False,
    )
    console.print(f"trees tell them apart with an area under the curve of [bold]{found.auc:.3f}[/] (0.5 = not at all)")
    rows = []
    for gap in found.gaps:
        mark = "" if gap.low <= gap.real <= gap.high else " x"
        rows.append([gap.name, gap.auc, number(gap.real) + mark, gap.low, gap.middle, gap.high])
    print_table("", ["feature", "alone", "real", "fleet, 5 %", "50 %", "95 %"], rows)
    console.print(f"{found.inside:.0%} of the features lie within what nine of ten simulated machines show")
