"""All runs of a curve, one after the other or in several processes side by side."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from crossfeed.baselines import ARMS
from crossfeed.baselines.contenders import FLOORS
from crossfeed.baselines.runs import Ending
from crossfeed.learning_curve.entrants import TEST, CurveSetting, Entrants
from crossfeed.learning_curve.minutes import spoken
from crossfeed.model.locate import FLEET
from crossfeed.processes import end_with_parent, side_by_side
from crossfeed.progress import be_quiet, console, is_quiet, progress


@dataclass(frozen=True, order=True)
class CurveRun:
    """One model, so many minutes, one seed."""

    model: str
    minutes: float
    seed: int

    @property
    def effort(self) -> float:
        """About how long it takes, for the time left: networks learn, floors do not."""
        slow = self.model in ARMS or self.model == FLEET
        return 1.0 if self.model in FLOORS or not self.minutes else 20.0 if slow else 5.0


def do_curve_runs(
    plan: Sequence[CurveRun], setting: CurveSetting, entrants: Entrants, jobs: int
) -> Iterator[tuple[CurveRun, Ending]]:
    """Bring every run to its end, in the order in which they end, under one bar."""
    say, quiet = console(), is_quiet()
    with progress("Learning curve", sum(run.effort for run in plan)) as bar:
        be_quiet()  # the bars of single runs would cross this one
        try:
            for number, (run, ending) in enumerate(_ended(plan, setting, entrants, jobs), start=1):
                told = _in_words(run, ending)
                bar.advance(run.effort, told)
                if not say.is_terminal:
                    say.print(f"[{number}/{len(plan)}] {told}", markup=False)
                yield run, ending
        finally:
            be_quiet(quiet)


def _ended(
    plan: Sequence[CurveRun], setting: CurveSetting, entrants: Entrants, jobs: int
) -> Iterator[tuple[CurveRun, Ending]]:
    if jobs == 1:
        for run in plan:
            yield run, entrants.run(run.model, run.minutes, run.seed)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    longest_first = sorted(plan, key=lambda run: -run.effort)
    yield from side_by_side(_do_run, [(run,) for run in longest_first], jobs, _prepare_process, (setting, threads))


def _in_words(run: CurveRun, ending: Ending) -> str:
    head = f"{run.model}, {spoken(run.minutes)}, seed {run.seed}"
    if ending.result is None:
        return f"{head}: {ending.reason}"
    if ending.result.status == "diverged":
        return f"{head}: diverged: {ending.result.reason}"
    return f"{head}: CRPS {ending.result.scores[TEST]['crps']:.3f} ({ending.result.seconds:.0f} s)"


_entrants: Entrants | None = None


def _prepare_process(setting: CurveSetting, threads: int) -> None:
    """Prepare a process once for all the runs it will do."""
    global _entrants
    end_with_parent()
    be_quiet()
    torch.set_num_threads(threads)
    _entrants = Entrants(setting)


def _do_run(run: CurveRun) -> tuple[CurveRun, Ending]:
    assert _entrants is not None
    return run, _entrants.run(run.model, run.minutes, run.seed)
