"""The order of the chapters, and who tells them."""

from functools import partial
from pathlib import Path
from typing import Any

from crossfeed.demo import results, selection
from crossfeed.demo.chapter import CANDIDATES, SEEDS, Chapter, ChapterResult, DemoSettings, run_chapters, sole_worker
from crossfeed.demo.results import HEADLINE, headline
from crossfeed.demo.selection import make_logs
from crossfeed.files import read_sealed
from crossfeed.progress import console

REPORT = "report/report.html"


def run_demo(folder: Path | str, settings: DemoSettings) -> dict[str, Any]:
    """Tell the whole story in `folder`; what is there already is told from memory. Gives the headline."""
    import torch

    folder, threads = Path(folder), torch.get_num_threads()
    with sole_worker(folder, "demo", settings, "a demo"):
        console().print(
            f"From the logs of machine A to forecasts on machine B. Everything stays in [bold]{folder}/[/].\n"
        )
        torch.set_num_threads(1)  # the same numbers everywhere; two processes side by side do the long work
        try:
            seconds = run_chapters(folder, chapters(folder, settings))
        finally:
            torch.set_num_threads(threads)
    console().print(f"\nThe end, after {seconds:.0f} s." if seconds >= 1 else "\nThe end; nothing was left to do.")
    return {**read_sealed(folder / HEADLINE), "report": str(folder / REPORT)}


def chapters(folder: Path, settings: DemoSettings) -> list[Chapter]:
    """Real logs need no simulator and have none to ask; everything else is the same."""
    simulated = settings.simulated
    write_logs = partial(make_logs, folder, "demo", settings.seed)
    first = Chapter("logs", "Two simulated machines write their logs", write_logs)
    last_but_one = Chapter(
        "counterfactual", "Changed commands, judged by the simulator", partial(results.counterfactual, folder)
    )
    return [
        *([first] if simulated else []),
        Chapter("tables", "Logs become tables; the audit looks at both", partial(selection.prepare, folder, settings)),
        Chapter("seal", "The target is sealed", partial(selection.seal, folder, settings)),
        Chapter(
            "search", f"{len(CANDIDATES)} candidates x {SEEDS} seeds compete on the source alone",
            partial(selection.search, folder),
        ),
        Chapter("confirm", "More seeds, until the leader stands", partial(selection.confirm, folder)),
        Chapter("lock", "The leader is locked", partial(selection.lock, folder)),
        Chapter("opening", "The sealed target is opened, once", partial(selection.open_target, folder)),
        Chapter("rivals", "What one would use instead, on the same windows", partial(results.rivals, folder)),
        Chapter("what_if", "What if: two command sequences", partial(results.forecast, folder, simulated)),
        *([last_but_one] if simulated else []),
        Chapter("report", "The report", partial(close, folder)),
    ]  # fmt: skip


def close(folder: Path) -> ChapterResult:
    """Write the headline and the report."""
    from crossfeed.front.report.artefacts import gather
    from crossfeed.front.report.report import write_report

    headline(folder)
    written = write_report(gather(folder / selection.STUDY), (folder / REPORT).parent)
    size = f"{len(written.sections)} sections, {len(written.figures)} figures"
    return ChapterResult(f"{size}. Its verdict: {written.answer}", (HEADLINE, REPORT))
