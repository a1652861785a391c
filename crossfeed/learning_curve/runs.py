"""All runs of a curve, one after the other or in several processes side by side."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from crossfeed.baselines import ARMS
from crossfeed.baselines.contenders import FLOORS
from crossfeed.baselines.runs import AttemptedRun
from crossfeed.learning_curve.entrants import TEST, CurveSetting, Entrants
from crossfeed.learning_curve.minutes import spoken
from crossfeed.model.locate import FLEET
from crossfeed.processes import in_processes
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
) -> Iterator[tuple[CurveRun, AttemptedRun]]:
    """Bring every run to its end, in the order in which they end, under one bar."""
    say, quiet = console(), is_quiet()
    with progress("Learning curve", sum(run.effort for run in plan)) as bar:
        be_quiet()  # the bars of single runs would cross this one
        try:
            for number, (run, attempt) in enumerate(_attempts(plan, setting, entrants, jobs), start=1):
                told = _in_words(run, attempt)
                bar.advance(run.effort, told)
                if not say.is_terminal:
                    say.print(f"[{number}/{len(plan)}] {told}", markup=False)
                yield run, attempt
        finally:
            be_quiet(quiet)


def _attempts(
    plan: Sequence[CurveRun], setting: CurveSetting, entrants: Entrants, jobs: int
) -> Iterator[tuple[CurveRun, AttemptedRun]]:
    if jobs == 1:
        yield from (_do_run(entrants, run) for run in plan)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    longest_first = sorted(plan, key=lambda run: -run.effort)
    yield from in_processes(_do_run, [(run,) for run in longest_first], jobs, partial(_entrants, setting, threads))


def _in_words(run: CurveRun, attempt: AttemptedRun) -> str:
    head = f"{run.model}, {spoken(run.minutes)}, seed {run.seed}"
    if attempt.result is None:
        return f"{head}: {attempt.reason}"
    if attempt.result.status == "diverged":
        return f"{head}: diverged: {attempt.result.reason}"
    return f"{head}: CRPS {attempt.result.scores[TEST]['crps']:.3f} ({attempt.result.seconds:.0f} s)"


def _entrants(setting: CurveSetting, threads: int) -> Entrants:
    """What a process has for all the runs it will do."""
    be_quiet()
    torch.set_num_threads(threads)
    return Entrants(setting)


def _do_run(entrants: Entrants, run: CurveRun) -> tuple[CurveRun, AttemptedRun]:
    return run, entrants.run(run.model, run.minutes, run.seed)
