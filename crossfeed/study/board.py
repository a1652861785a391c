"""How a search is watched: a table of candidates by seeds on a terminal, one line per finished run elsewhere."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crossfeed.errors import CrossfeedError
from crossfeed.progress import console
from crossfeed.study.record.store import UNFINISHED, Run, Store

if TYPE_CHECKING:
    from rich.table import Table

# Title, head, rules and caption of the table.
_FRAME = 7


@contextmanager
def board(store: Store) -> Iterator[Callable[[str], None]]:
    """Show the runs while the block works; call what it yields with the name of each run that got its outcome."""
    target = console()
    watched = {run.candidate for run in store.runs() if run.status in UNFINISHED}
    if target.quiet or not watched:
        yield lambda _: None
        return
    if not target.is_terminal or os.environ.get("CI"):
        yield lambda name: target.print(_line(store.runs(), name), soft_wrap=True)
        return
    from rich.live import Live

    last: list[Table] = []

    def draw() -> "Table":
        try:
            last[:] = [matrix([run for run in store.runs() if run.candidate in watched], target.height)]
        except CrossfeedError:  # a busy disk must not end a search that goes on well
            if not last:
                last[:] = [matrix([], target.height)]
        return last[0]

    with Live(get_renderable=draw, console=target, refresh_per_second=1):
        yield lambda _: None


def matrix(runs: Sequence[Run], height: int) -> "Table":
    """One row per candidate, one column per seed: the clean RMSE of a finished run, the status of any other."""
    from rich.table import Table

    seeds = sorted({run.seed for run in runs})
    cells = {(run.candidate, run.seed): _cell(run) for run in runs}
    names = list(dict.fromkeys(run.candidate for run in runs))
    busy = {run.candidate for run in runs if run.status in UNFINISHED}
    # Where not all fit, those with something left to do are shown first.
    shown = sorted(names, key=lambda name: name not in busy)[: max(1, height - _FRAME)] if names else []
    done = sum(run.status not in UNFINISHED for run in runs)
    table = Table(title=f"{done} of {len(runs)} runs done; clean RMSE", title_justify="left", min_width=40)
    table.add_column("candidate")
    for seed in seeds:
        table.add_column(f"seed {seed}", justify="right")
    for name in (name for name in names if name in shown):
        table.add_row(name, *(cells.get((name, seed), "") for seed in seeds))
    if len(shown) < len(names):
        table.caption = f"and {len(names) - len(shown)} more candidates"
    return table


def _cell(run: Run) -> str:
    if run.status == "finished":
        return f"{run.outcome['bundle']['components']['clean']:.3f}"
    return {"pending": "·", "running": "[cyan]running[/]", "invalid": "[red]invalid[/]"}[run.status]


def _line(runs: Sequence[Run], name: str) -> str:
    done = sum(run.status not in UNFINISHED for run in runs)
    run = next(run for run in runs if run.name == name)
    found = f"clean RMSE {_cell(run)}" if run.status == "finished" else f"invalid: {run.outcome['invalid']}"
    return f"{done}/{len(runs)} {run.candidate}, seed {run.seed}: {found}"
