"""Does the control arm of an ablation repeat the search runs of the locked candidate? If not, more was changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crossfeed.json_file import read_sealed
from crossfeed.study.record.declaration import Declaration
from crossfeed.study.record.outcomes import has_numbers
from crossfeed.study.record.store import Run, Store

# A CPU repeats a run but for rounding. A GPU adds in no fixed order, which training amplifies: there a repetition may
# fall as far from the run it repeats as another seed would, and a component that hardly moves by this much. The
# calibration penalty is a distance to zero, of which no part makes sense: its coverage may move by one percent.
ON_CPU, ON_GPU, COVERAGE_ON_GPU = 1e-4, 0.02, 0.01


@dataclass(frozen=True, slots=True)
class Drift:
    """The component in which a control run strays most from the search run it repeats, beside what is allowed."""

    component: str
    searched: float
    repeated: float
    allowed: float

    @property
    def share(self) -> float:
        """The difference as a part of what is allowed: above 1 the run is no repetition."""
        return abs(self.repeated - self.searched) / self.allowed

    def __str__(self) -> str:
        return f"{self.component} {self.repeated:.6g} instead of {self.searched:.6g} ({self.allowed:.2g} allowed)"


def control_drift(store: Store, declaration: Declaration, locked: str) -> dict[str, Drift]:
    """How far each control run is from the search run of the locked candidate that it repeats.

    Empty where the control changes the locked configuration or the search never had these seeds.
    """
    control = next(iter(declaration.arms))
    if declaration.arms[control]:
        return {}
    runs = [run for run in store.runs() if has_numbers(run)]
    searched = {run.seed: _components(run) for run in runs if run.candidate == locked}
    return {
        run.name: _drift(_components(run), searched[run.seed], searched.values(), _on_cpu(store, run))
        for run in runs
        if run.candidate == declaration.candidate(control) and run.seed in searched
    }


def _drift(
    repeated: Mapping[str, float], before: Mapping[str, float], seeds: Iterable[Mapping[str, float]], on_cpu: bool
) -> Drift:
    every = list(seeds)
    found = []
    for name, value in before.items():
        apart = max(seed[name] for seed in every) - min(seed[name] for seed in every)
        least = COVERAGE_ON_GPU if name == "calibration" else ON_GPU * abs(value)
        allowed = ON_CPU * abs(value) if on_cpu else max(least, apart)
        found.append(Drift(name, value, repeated[name], max(allowed, 1e-12)))
    return max(found, key=lambda drift: drift.share)


def _components(run: Run) -> dict[str, float]:
    return dict(run.outcome["bundle"]["components"])


def _on_cpu(store: Store, run: Run) -> bool:
    summary = store.folder / "runs" / run.name / "summary.json"
    return not summary.is_file() or str(read_sealed(summary)["device"]) == "cpu"
