"""The terminal view of a monitor: one table that is drawn again with every snapshot."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group

    from crossfeed.live.monitor import Monitor
    from crossfeed.live.snapshot import Snapshot

_COLOURS = {"green": "green", "amber": "yellow", "red": "red"}
_BARS = "▁▂▃▄▅▆▇█"
_DRAWN_ROWS, _FEW_ROWS = 30, 8
_WIDE = 145  # columns of a terminal that hold every line of the table unbroken


async def show(monitor: "Monitor", seconds: float | None, as_json: bool) -> None:
    """Draw until Ctrl-C, the end of the source, or so many seconds; an error of the source comes through."""
    running = asyncio.create_task(monitor.run())
    drawing = asyncio.create_task(_print_lines(monitor) if as_json else _draw(monitor))
    await asyncio.wait({running, drawing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finished = [task for task in (running, drawing) if task.done()]
    for task in (drawing, running):
        task.cancel()
        with suppress(asyncio.CancelledError):
            if task not in finished:
                await task
    for task in finished:
        task.result()


async def _print_lines(monitor: "Monitor") -> None:
    from json import dumps

    async for snapshot in monitor.updates():
        print(dumps(snapshot.to_dict(), ensure_ascii=False), flush=True)


async def _draw(monitor: "Monitor") -> None:
    from rich.live import Live

    from crossfeed.progress import output

    screen = output()
    with Live(picture(monitor.snapshot(), screen.width), console=screen, refresh_per_second=4, transient=False) as live:
        async for snapshot in monitor.updates():
            live.update(picture(snapshot, screen.width))


def picture(snapshot: "Snapshot", width: int = _WIDE) -> "Group":
    """A snapshot as text: the verdict, a line for each sensor, the plan, what happened to the connection.

    On a narrow terminal the past is shorter and the first horizon is left out: a line that wraps costs two sensors.
    """
    from rich.console import Group
    from rich.markup import escape

    from crossfeed.show.formats import rich_table
    from crossfeed.show.tables import plain_table, significant

    last, rows = max(len(snapshot.horizons) - 1, 0), _DRAWN_ROWS if width >= _WIDE else _FEW_ROWS
    slots = sorted({0, last}) if width >= _WIDE else [last]
    ahead = [f"in {snapshot.horizons[slot] * (snapshot.period or 1.0):g} s" for slot in slots]
    heads, rows_shown, colours = ["", "sensor", "last rows", "now", *ahead, "may it be believed"], [], []
    for name, light in snapshot.lights.items():
        values = snapshot.recent.sensors.get(name, ())[-rows:]
        now = values[-1] if values else None
        said = snapshot.forecast.get(name)
        told = [
            f"{significant(said.median[slot])} ({significant(said.low[slot])} to {significant(said.high[slot])})"
            if said
            else ""
            for slot in slots
        ]
        shown = "absent" if now is None else f"{significant(now)} {snapshot.units[name]}"
        rows_shown.append(["●", name, _bars(values), shown, *told, light.sentence])
        colours.append(_COLOURS[light.colour])
    table = rich_table(plain_table("", heads, rows_shown, words=len(heads)), width, marks=colours)
    head = f"[bold]{escape(snapshot.machine or snapshot.source)}[/]  {snapshot.clock:%H:%M:%S} UTC"
    if snapshot.row_age is not None:
        head += f"  newest row {snapshot.row_age:.1f} s old"
    verdict = f"[{_COLOURS[snapshot.verdict.colour]}]{escape(snapshot.verdict.sentence)}[/]"
    counts = snapshot.counters
    told_counts = ", ".join(
        f"{getattr(counts, name):,} {name}"
        for name in ("rows", "samples", "gaps", "late", "dropped", "doubled", "reconnects", "restarts")
        if getattr(counts, name) or name == "rows"
    )
    learning = [f"learning: {escape(snapshot.learning)}"] if snapshot.learning else []
    newest = [*learning, *(escape(notice) for notice in snapshot.notices[:3])]
    return Group(head, verdict, table, f"plan: {escape(snapshot.plan.sentence)}", told_counts, *newest)


def _bars(values: "tuple[float | None, ...]") -> str:
    """The last values as a row of little bars; a dot where nothing is known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    return "".join(
        "·" if value is None else _BARS[int((value - low) / span * (len(_BARS) - 1)) if span else 0] for value in values
    )
