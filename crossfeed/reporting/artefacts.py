"""What was recorded, gathered from wherever it lies. Only results are read here, never a row of a target table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossfeed.errors import ConfigError, StorageError
from crossfeed.reporting.study_facts import StudyFacts, read_study
from crossfeed.training.record.history import read_history

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
class Extras:
    """Folders and files named by the user; None means: look beside the study."""

    comparison: Path | None = None
    evaluation: Path | None = None
    adaptation: Path | None = None
    forecast: Path | None = None
    curve: Path | None = None
    audits: Sequence[Path] = ()


@dataclass(frozen=True)
class Artefacts:
    """Everything a report can speak of."""

    place: Path
    study: StudyFacts | None = None
    run: RunFacts | None = None
    evaluations: Sequence[Mapping[str, Any]] = ()
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    comparison: Mapping[str, Any] = field(default_factory=dict)
    curve: Mapping[str, Any] = field(default_factory=dict)
    forecasts: Sequence[Mapping[str, Any]] = ()
    decisions: Sequence[Mapping[str, Any]] = ()
    audits: Sequence[Mapping[str, Any]] = ()
    files: Sequence[Path] = ()
    # Whether a simulator played the machines: the demo says so in a file beside its study.
    simulated: bool = False

    def evaluation(self, own: bool) -> Mapping[str, Any] | None:
        """The evaluation on a table the model was trained on, or on another one."""
        return next((one for one in self.evaluations if bool(one.get("trained_on_this_table")) == own), None)

    def target(self) -> tuple[Mapping[str, Any], str] | None:
        """What is known about the other machine, with the name of the model: the sealed pass before anything else."""
        opening = self.study.confirmatory if self.study else None
        if opening is not None and opening["scores"]:
            name = next((run for run in opening["models"] if run in opening["scores"]), None)
            if name is not None:
                return opening, name
        found = self.evaluation(own=False)
        return (found, found["model"]["name"]) if found and found["model"]["name"] in found["scores"] else None


def gather(place: Path | str, extras: Extras | None = None) -> Artefacts:
    """Read a study or a run, and what lies beside it."""
    place, extras = Path(place), extras or Extras()
    if (place / "study" / "study.db").is_file() and not (place / "study.db").is_file():
        place = place / "study"
    if not (place / "study.db").is_file() and not (place / "run.json").is_file():
        raise ConfigError(
            f"{place} holds neither a study nor a training run.",
            expected="a folder made by crossfeed study init or crossfeed train",
            remedy="Check the path.",
        )
    study = read_study(place) if (place / "study.db").is_file() else None
    folder, beside = _run_folder(place, study), place.parent
    # A user may call the folder of a result anything; what was made with this very model belongs to it.
    own = _model_hash(place) if study is None else None
    evaluations = _files(_named(extras.evaluation, beside / EVALUATION), "evaluation.json")
    evaluations = evaluations or _made_with(own, place, "evaluation.json")
    adaptations = _files(_named(extras.adaptation, beside / ADAPTATION), "adaptation.json")
    adaptations = adaptations or _made_with(own, place, "adaptation.json")
    # A comparison that still runs has no table yet.
    comparisons = _files(_named(extras.comparison, beside / COMPARISON), "table.json")[:1]
    forecasts = _files(_named(extras.forecast, beside / FORECAST), "forecast.json")
    forecasts = forecasts or _made_with(own, place, "forecast.json")
    decisions = _files(beside / CONTROL, "plan.json") or _made_with(own, place, "plan.json")
    curves = [*_files(_named(extras.curve, beside / CURVE), "curve.json"), *_existing(place / CURVE / "curve.json")][:1]
    audits = [*(extras.audits or _existing(beside / AUDIT))]
    return Artefacts(
        place=place,
        study=study,
        run=read_run(folder) if folder is not None else None,
        evaluations=[read_json(path) for path in evaluations],
        adaptation=_adaptation([read_json(path) for path in adaptations], study),
        comparison=read_json(comparisons[0]) if comparisons else {},
        curve=read_json(curves[0]) if curves else {},
        forecasts=[read_json(path) for path in forecasts],
        decisions=[read_json(path) for path in decisions],
        audits=[read_json(path) for path in audits],
        files=(
            *([folder] if folder else []),
            *evaluations,
            *adaptations,
            *comparisons,
            *curves,
            *forecasts,
            *decisions,
            *audits,
        ),
        simulated=any(read_json(path).get("data") == "simulated" for path in _existing(beside / DEMO)),
    )


def read_json(path: Path) -> dict[str, Any]:
    """A recorded result; one that is no JSON is named."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}.",
            expected="a JSON file written by crossfeed",
            remedy="Make it again with the command that wrote it, or leave it out of the report.",
        ) from error
    if not isinstance(content, dict):
        raise StorageError(f"{path} holds no JSON object.", expected="a JSON file written by crossfeed")
    return content


def read_run(folder: Path) -> RunFacts:
    """A training run, finished or not."""
    identity = read_json(folder / "run.json")
    history: list[dict[str, Any]] = []
    if (folder / "history.parquet").is_file():
        try:
            history = read_history(folder / "history.parquet")
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
            raise StorageError(f"{folder / 'history.parquet'} cannot be read: {error}.") from error
    summary = read_json(folder / "summary.json") if (folder / "summary.json").is_file() else {}
    return RunFacts(folder.name, history, summary, identity.get("config", {}))


def _run_folder(place: Path, study: StudyFacts | None) -> Path | None:
    """The run whose curves are shown: the folder itself, the locked run, or the best one so far."""
    if study is None:
        return place
    wanted = [study.shown_run] if study.shown_run else []
    return next((place / "runs" / name for name in wanted if (place / "runs" / name / "run.json").is_file()), None)


def _named(given: Path | None, usual: Path) -> Path | None:
    """A folder the user named must be there; the usual one may be."""
    if given is not None:
        if not given.exists():
            raise ConfigError(f"{given} does not exist.", remedy="Check the path, or leave the option away.")
        return given
    return usual if usual.exists() else None


def _existing(path: Path) -> list[Path]:
    return [path] if path.is_file() else []


def _files(place: Path | None, name: str) -> list[Path]:
    """A file by its own path, in a folder, or one level below it."""
    if place is None:
        return []
    return [place] if place.is_file() else [*_existing(place / name), *sorted(place.glob(f"*/{name}"))]


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


def _made_with(sha256: str | None, place: Path, name: str) -> list[Path]:
    """Results in folders of any name, inside a run's folder or beside it, that this very model gave."""
    if sha256 is None:
        return []
    folders = [place, place.parent, *(one for one in (*place.iterdir(), *place.parent.iterdir()) if one.is_dir())]
    found = {path.resolve(): path for folder in folders for path in _existing(folder / name)}
    return sorted(path for path in found.values() if read_json(path).get("model", {}).get("sha256") == sha256)


def _adaptation(files: Sequence[Mapping[str, Any]], study: StudyFacts | None) -> dict[str, Any]:
    """Few-shot and online results: those of the opening first, then those of the files."""
    opening = study.confirmatory if study else None
    merged: dict[str, Any] = dict((opening or {}).get("adaptation") or {})
    for content in files:
        merged |= {key: value for key, value in content.items() if key not in merged}
    return merged
