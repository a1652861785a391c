"""What was recorded, gathered from wherever it lies. Only results are read here, never a row of a target table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossfeed.control.plan_record import RecordedPlan
from crossfeed.errors import ConfigError, StorageError
from crossfeed.evaluation.adaptation.result import AdaptationResult
from crossfeed.evaluation.baselines.results import ComparisonTable
from crossfeed.evaluation.bench.result import LearningCurve
from crossfeed.evaluation.result import Evaluation
from crossfeed.files import read_sealed
from crossfeed.front.report.study_facts import StudyFacts, read_study
from crossfeed.scenarios.result import WhatIf
from crossfeed.show.figures import Figure
from crossfeed.show.tables import ResultTable
from crossfeed.training.history import read_history
from crossfeed.windows.audits.subject import AuditReport

# Where `crossfeed demo` puts things, beside the study.
COMPARISON, EVALUATION, ADAPTATION, FORECAST, AUDIT = "comparison", "evaluation", "adaptation", "forecast", "audit.json"
DEMO = "demo.json"
CONTROL = "control"  # plans of `crossfeed control plan`
CURVE = "curve"


@dataclass(frozen=True)
class RunFacts:
    """One training run: its epochs, its summary, its configuration; what is not there yet is empty."""

    name: str
    history: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class ModelResult:
    """One model among the forecasters of an evaluation that has numbers for it."""

    evaluation: Evaluation
    name: str

    def tables(self, *names: str) -> list[ResultTable]:
        """Its tables with these names, as far as they were measured."""
        return [table for table in self.evaluation.tables(self.name) if table.name in names]

    def figures(self, *names: str) -> list[Figure]:
        """Its figures with these names, as far as they were measured."""
        return [figure for figure in self.evaluation.figures(self.name) if figure.name in names]


@dataclass(frozen=True)
class Artefacts:
    """Everything a report can speak of."""

    folder: Path
    study: StudyFacts | None = None
    run: RunFacts | None = None
    evaluations: Sequence[Evaluation] = ()
    adaptation: AdaptationResult = field(default_factory=AdaptationResult)
    comparison: ComparisonTable | None = None
    curve: LearningCurve | None = None
    forecasts: Sequence[WhatIf] = ()
    decisions: Sequence[RecordedPlan] = ()
    audits: Sequence[AuditReport] = ()
    files: Sequence[Path] = ()
    # Whether a simulator played the machines: the demo says so in a file beside its study.
    simulated: bool = False

    def evaluation(self, own: bool) -> Evaluation | None:
        """The evaluation on a table the model was trained on, or on another one."""
        return next((one for one in self.evaluations if one.trained_on_this_table == own), None)

    def on_source(self) -> ModelResult | None:
        """The model on the machine it learned on."""
        return _with_numbers(self.evaluation(own=True))

    def on_target(self) -> ModelResult | None:
        """The model on the other machine: the sealed pass before anything else."""
        opening = self.study.confirmatory if self.study else None
        if opening is not None:
            name = next((run for run in opening.models if run in opening.result.scores), None)
            if name is not None:
                return ModelResult(opening.result, name)
        return _with_numbers(self.evaluation(own=False))


def gather(
    folder: Path | str,
    *,
    comparison: Path | str | None = None,
    evaluation: Path | str | None = None,
    adaptation: Path | str | None = None,
    forecast: Path | str | None = None,
    curve: Path | str | None = None,
    audits: Sequence[Path | str] = (),
) -> Artefacts:
    """Read a study or a run, and what lies beside it where the user named nothing else."""
    folder = Path(folder)
    if (folder / "study" / "study.db").is_file() and not (folder / "study.db").is_file():
        folder = folder / "study"
    if not (folder / "study.db").is_file() and not (folder / "run.json").is_file():
        raise ConfigError(
            f"{folder} holds neither a study nor a training run.",
            expected="a folder made by crossfeed study init or crossfeed train",
            remedy="Check the path.",
        )
    study = read_study(folder) if (folder / "study.db").is_file() else None
    run_folder, beside = _shown_run(folder, study), folder.parent
    # A user may call the folder of a result anything; what was made with this very model belongs to it.
    own = _model_hash(folder) if study is None else None

    def results(given: Path | str | None, usual: str, name: str) -> list[Path]:
        return _files(_named(given, beside / usual), name) or _made_with(own, folder, name)

    evaluations = results(evaluation, EVALUATION, "evaluation.json")
    adaptations = results(adaptation, ADAPTATION, "adaptation.json")
    forecasts = results(forecast, FORECAST, "forecast.json")
    decisions = results(None, CONTROL, "plan.json")
    # A comparison that still runs has no table yet.
    comparisons = _files(_named(comparison, beside / COMPARISON), "table.json")[:1]
    inside = _existing(folder / CURVE / "curve.json")
    curves = [*_files(_named(curve, beside / CURVE), "curve.json"), *inside][:1]
    audited = [Path(path) for path in audits] or _existing(beside / AUDIT)
    runs = [run_folder] if run_folder else []
    compared = read_sealed(comparisons[0]) if comparisons else {}
    return Artefacts(
        folder=folder,
        study=study,
        run=read_run(run_folder) if run_folder is not None else None,
        evaluations=[Evaluation.from_dict(read_sealed(path), str(path)) for path in evaluations],
        adaptation=_adaptation(adaptations, study),
        comparison=ComparisonTable.from_dict(compared, str(comparisons[0])) if comparisons else None,
        curve=LearningCurve.from_dict(read_sealed(curves[0]), str(curves[0])) if curves else None,
        forecasts=[WhatIf.from_dict(read_sealed(path), str(path)) for path in forecasts],
        decisions=[RecordedPlan.from_dict(read_sealed(path), str(path)) for path in decisions],
        audits=[AuditReport.from_dict(read_sealed(path), str(path)) for path in audited],
        files=(*runs, *evaluations, *adaptations, *comparisons, *curves, *forecasts, *decisions, *audited),
        simulated=any(read_sealed(path).get("data") == "simulated" for path in _existing(beside / DEMO)),
    )


def read_run(folder: Path) -> RunFacts:
    """A training run, finished or not."""
    identity = read_sealed(folder / "run.json")
    history: list[dict[str, Any]] = []
    if (folder / "history.parquet").is_file():
        try:
            history = read_history(folder / "history.parquet")
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
            raise StorageError(f"{folder / 'history.parquet'} cannot be read: {error}.") from error
    summary = read_sealed(folder / "summary.json") if (folder / "summary.json").is_file() else {}
    return RunFacts(folder.name, history, summary, identity.get("config", {}))


def _shown_run(folder: Path, study: StudyFacts | None) -> Path | None:
    """The run whose curves are shown: the folder itself, the locked run, or the best one so far."""
    if study is None:
        return folder
    shown = folder / "runs" / study.shown_run if study.shown_run else None
    return shown if shown is not None and (shown / "run.json").is_file() else None


def _named(given: Path | str | None, usual: Path) -> Path | None:
    """A folder the user named must be there; the usual one may be."""
    if given is None:
        return usual if usual.exists() else None
    if not Path(given).exists():
        raise ConfigError(f"{given} does not exist.", remedy="Check the path, or leave the option away.")
    return Path(given)


def _with_numbers(found: Evaluation | None) -> ModelResult | None:
    name = found.model.name if found and found.model else None
    return ModelResult(found, name) if found and name in found.scores else None


def _existing(path: Path) -> list[Path]:
    return [path] if path.is_file() else []


def _files(folder: Path | None, name: str) -> list[Path]:
    """A file by its own path, in a folder, or one level below it."""
    if folder is None:
        return []
    return [folder] if folder.is_file() else [*_existing(folder / name), *sorted(folder.glob(f"*/{name}"))]


def _model_hash(folder: Path) -> str | None:
    """The content hash of the model in a run's folder, if it has one already."""
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    if not path.is_file():
        return None
    try:
        with safe_open(path, "numpy") as file:
            return (file.metadata() or {}).get("sha256")
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{path} cannot be read: {error}.", expected="an undamaged model file") from error


def _made_with(sha256: str | None, folder: Path, name: str) -> list[Path]:
    """Results in folders of any name, inside a run's folder or beside it, that this very model gave."""
    if sha256 is None:
        return []
    folders = [folder, folder.parent, *(one for one in (*folder.iterdir(), *folder.parent.iterdir()) if one.is_dir())]
    found = {path.resolve(): path for folder in folders for path in _existing(folder / name)}
    return sorted(path for path in found.values() if read_sealed(path).get("model", {}).get("sha256") == sha256)


def _adaptation(files: Sequence[Path], study: StudyFacts | None) -> AdaptationResult:
    """Few-shot and online results: those of the opening first, then those of the files."""
    opening = study.confirmatory if study else None
    merged = opening.adaptation if opening else AdaptationResult()
    for path in files:
        merged = merged.completed_by(AdaptationResult.from_dict(read_sealed(path), str(path)))
    return merged
