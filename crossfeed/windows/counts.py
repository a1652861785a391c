"""How a table divides into sides and windows, for a person who wants to see it before training."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from crossfeed.ingest.table import Group, Table
from crossfeed.windows.listing import HORIZONS, WindowList, list_windows, pair_up
from crossfeed.windows.split import PARTS, Split


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
