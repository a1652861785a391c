"""How a table divides into sides and windows, for a person who wants to see it before training."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from crossfeed.ingest.table import Group, Table
from crossfeed.windows.listing import HORIZONS, WindowList, list_windows, pair_up
from crossfeed.windows.split import PARTS, Split

_LOST = {"groups_too_short": "too short", "lost_to_commands": "miss a command", "lost_to_gaps": "over a gap"}


@dataclass(frozen=True, slots=True)
class PartCount:
    """One side of a split: its groups and its windows."""

    part: str
    groups: tuple[Group, ...]
    windows: WindowList

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "part": self.part,
            "sessions": len({(group.machine, group.session) for group in self.groups}),
            "programs": len({group.program for group in self.groups}),
            **self.windows.summary(),
            "window_hash": self.windows.hash(),
            "per_group": [asdict(count) for count in self.windows.counts],
        }


def count_windows(
    table: Table, split: Split | None, context: int = 32, horizons: Sequence[int] = HORIZONS, stride: int = 1
) -> list[PartCount]:
    """Count the windows of each side; without a split, of the whole table."""
    sides: list[tuple[str, tuple[Group, ...]]] = [("all", table.groups)]
    if split is not None:
        sides = [(part, split.groups(table, part)) for part in PARTS]
    return [
        PartCount(part, groups, list_windows(pair_up(table, groups), context, horizons, stride))
        for part, groups in sides
    ]


def print_counts(counts: Sequence[PartCount], split: Split | None, *, as_json: bool = False) -> None:
    """Print the counts to standard output: a table for people, JSON for programs."""
    if as_json:
        sides = split.model_dump(mode="json") if split else None
        print(json.dumps({"split": sides, "parts": [part.to_dict() for part in counts]}, indent=2, ensure_ascii=False))
        return
    from rich.table import Table as Grid

    from crossfeed.progress import output

    first = counts[0].windows
    grid = Grid(
        title=f"context {first.context}, horizons {', '.join(map(str, first.horizons))}, stride {first.stride}",
        caption=f"split by {split.by}, seed {split.seed}, hash {split.hash()[:12]}" if split else None,
    )
    for name in ("part", "sessions", "programs", "rows", "windows", "hash"):
        grid.add_column(name, justify="left" if name in ("part", "hash") else "right", no_wrap=True)
    grid.add_column("not offered")
    for part in counts:
        content = part.to_dict()
        numbers = [f"{content[name]:,}" for name in ("sessions", "programs", "rows", "windows")]
        lost = {
            "groups_too_short": "groups too short",
            "lost_to_commands": "miss a command",
            "lost_to_gaps": "over a gap",
        }
        remarks = [f"{content[name]:,} {words}" for name, words in lost.items() if content[name]]
        grid.add_row(part.part, *numbers, str(content["window_hash"])[:8], ", ".join(remarks))
    output().print(grid)
