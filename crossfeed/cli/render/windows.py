"""How a table divides into sides and windows, on a terminal."""

from collections.abc import Sequence

from crossfeed.cli.render.grid import grid
from crossfeed.progress import output
from crossfeed.windows.split import Split
from crossfeed.windows.split_tables import PartCount

LOST = {"groups_too_short": "groups too short", "lost_to_commands": "miss a command", "lost_to_gaps": "over a gap"}


def show_counts(counts: Sequence[PartCount], split: Split | None) -> None:
    """Print sessions, rows and windows of each side, and why some windows are not offered."""
    first = counts[0].windows
    title = f"context {first.context}, horizons {', '.join(map(str, first.horizons))}, stride {first.stride}"
    table = grid(title, ["part", "sessions", "programs", "rows", "windows", "hash", "not offered"])
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    table.caption = f"split by {split.by}, seed {split.seed}, hash {split.hash()[:12]}" if split else None
    for part in counts:
        content = part.to_dict()
        numbers = [f"{content[name]:,}" for name in ("sessions", "programs", "rows", "windows")]
        remarks = [f"{content[name]:,} {words}" for name, words in LOST.items() if content[name]]
        table.add_row(part.part, *numbers, str(content["window_hash"])[:8], ", ".join(remarks))
    output().print(table)
