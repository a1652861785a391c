"""All runs of a curve, one after the other or in several processes side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from crossfeed.baselines import ARMS
from crossfeed.baselines.contenders import FLOORS
from crossfeed.baselines.results import Result
from crossfeed.baselines.runs import run_tasks
from crossfeed.learning_curve.minutes import spoken
from crossfeed.learning_curve.runner import CurveRunner
from crossfeed.model.locate import FLEET
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


def do_curve_runs(plan: Sequence[CurveRun], runner: CurveRunner, jobs: int) -> Iterator[tuple[CurveRun, Result]]:
    """Bring every run to its end, in the order in which they end, under one bar."""
    say, quiet = console(), is_quiet()
    tasks, prepare = [(run,) for run in plan], partial(CurveRunner, runner.setting)
    with progress("Learning curve", sum(run.effort for run in plan)) as bar:
        be_quiet()  # the bars of single runs would cross this one
        try:
            results = run_tasks(_do_run, tasks, runner, jobs, prepare, lambda run: run.effort)
            for number, (run, result) in enumerate(results, start=1):
                told = f"{run.model}, {spoken(run.minutes)}, seed {run.seed}: {result.in_words('crps')}"
                bar.advance(run.effort, told)
                if not say.is_terminal:
                    say.print(f"[{number}/{len(plan)}] {told}", markup=False)
                yield run, result
        finally:
            be_quiet(quiet)


def _do_run(runner: CurveRunner, run: CurveRun) -> tuple[CurveRun, Result]:
    return run, runner.run(run.model, run.minutes, run.seed)
