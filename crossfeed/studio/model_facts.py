"""What a model is, whether it may be believed, and which studies, comparisons and training runs lie beside it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.opened_model import OpenedModel
from crossfeed.files import __version__, plain, read_sealed
from crossfeed.model.model_file import FLEET, locate_model
from crossfeed.programs.parse import PREFIX, bundled_programs
from crossfeed.studio.settings import Limits
from crossfeed.training.history import read_history

_SHOWN = ("channel", "unit", "light", "reasons", "skill", "coverage")
_DEPTH = 2  # folders below the named one in which is looked
_MOST = 200


def model_facts(opened: OpenedModel, limits: Limits) -> dict[str, Any]:
    """Names, units, horizons, ranges and provenance."""
    model, provenance = opened.model, opened.provenance
    ranges = provenance.get("command_range") or {}
    facts = {
        "crossfeed": __version__,
        "name": opened.forecaster.name,
        "file": opened.path.name,
        "sha256": opened.sha256,
        "machines": list(provenance.get("machines", ())),
        "adapted_to": list(provenance.get("adapted", {}).get("to", {}).get("machines", ())),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "period": float(provenance.get("row_period", 1.0)),
        "context": model.config.context,
        "horizons": list(model.horizons),
        "sensors": [
            {**channel.model_dump(), "learned": channel.name not in model.normaliser.unseen}
            for channel in model.schema.sensors
        ],
        "commands": [{**channel.model_dump(), "range": ranges.get(channel.name)} for channel in model.schema.commands],
        "shuffled_command_ratio": provenance.get("shuffled_command_ratio"),
        "programs": [PREFIX + name for name in bundled_programs()],
        "limits": limits.model_dump(),
    }
    return dict(plain(facts))


def recorded_verdict(opened: OpenedModel) -> dict[str, Any]:
    """The verdict of the study or of the evaluations that lie with the model; a sentence where there are none."""
    # Imported on the first request: the page is up a tenth of a second earlier.
    from crossfeed.front.report.artefacts import gather
    from crossfeed.front.report.sections.verdict import verdict

    folder = record_folder(opened.path)
    if opened.path == locate_model(FLEET):
        return _nothing(
            "This is the shipped model of many machines; how well it knows yours is not recorded.",
            "Judge it with crossfeed evaluate fleet --table TABLE.",
        )
    if folder is None:
        return _nothing("The model file lies alone: no study and no evaluation of it is at hand.")
    try:
        recorded = verdict(gather(folder))
    except CrossfeedError as error:
        return _nothing(f"What lies beside the model cannot be read: {error.found}")
    return dict(
        plain(
            {
                "question": recorded.question,
                "answer": recorded.answer,
                "tone": recorded.tone,
                "sentences": recorded.sentences,
                "channels": [{name: getattr(light, name) for name in _SHOWN} for light in recorded.lights],
                "next": recorded.next_steps,
            }
        )
    )


def record_folder(model: Path) -> Path | None:
    """The study a model was trained in, or its own run folder."""
    for folder in (model.parent.parent.parent, model.parent):
        if (folder / "study.db").is_file() or (folder / "run.json").is_file():
            return folder
    return None


def _nothing(
    sentence: str, step: str = "Judge it with crossfeed evaluate MODEL --table TABLE --out FOLDER beside the model."
) -> dict[str, Any]:
    return {
        "question": "May the model be trusted on the other machine, and on which channels?",
        "answer": "Not known yet.",
        "tone": "next",
        "sentences": [sentence],
        "channels": [],
        "next": [step],
    }


def runs_content(folders: Sequence[Path]) -> dict[str, Any]:
    """Everything that is found, damaged things with their reason."""
    studies, comparisons, trainings = [], [], []
    for folder in _folders(folders):
        if (folder / "study.db").is_file():
            studies.append(_read(folder, _study))
        elif (folder / "comparison.json").is_file():
            comparisons.append(_read(folder, _comparison))
        elif (folder / "run.json").is_file() and not (folder.parent.parent / "study.db").is_file():
            trainings.append(_read(folder, _training))
    return {"studies": studies, "comparisons": comparisons, "trainings": trainings}


def _folders(tops: Sequence[Path]) -> Iterator[Path]:
    seen: set[Path] = set()
    level = [top for top in tops if top.is_dir()]
    for _ in range(_DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            real = folder.resolve()
            if real in seen or len(seen) >= _MOST:
                continue
            seen.add(real)
            yield folder
            try:
                below += sorted(
                    inner
                    for inner in folder.iterdir()
                    if inner.is_dir() and not inner.is_symlink() and inner.name[0] != "."
                )
            except OSError:
                continue
        level = below


def _read(folder: Path, read: Any) -> dict[str, Any]:
    try:
        return {"name": folder.name, **read(folder)}
    except (CrossfeedError, OSError, ValueError, KeyError, TypeError) as error:
        return {"name": folder.name, "problem": str(getattr(error, "found", error))}


def _study(folder: Path) -> dict[str, Any]:
    # Imported on the first request: the page is up a tenth of a second earlier.
    from crossfeed.study.record.score import score_of
    from crossfeed.study.study import Study

    study = Study(folder)
    runs = study.store.runs()
    events = [entry.kind for entry in study.ledger()]
    judged = [run for run in runs if run.status in ("finished", "invalid")]
    score, ranking = score_of(study.protocol), study.rank() if judged else []
    locked = next((entry.content for entry in reversed(study.ledger()) if entry.kind == "lock"), None)
    return {
        "runs": {**Counter(run.status for run in runs), "planned": len(runs)},
        "done": len(judged),
        "under_way": [
            {"name": run.name, "epochs": _epochs(folder / "runs" / run.name)} for run in runs if run.status == "running"
        ],
        "score": score,
        "ranking": [
            {"candidate": ranked.candidate, "seeds": ranked.seeds, "score": getattr(ranked, score)}
            for ranked in ranking[:12]
        ],
        "locked": None if locked is None else f"{locked['candidate']}, seed {locked['seed']}",
        "opened": "opening result" in events,
        "ledger": len(events),
    }


def _epochs(folder: Path) -> int:
    """How many epochs of a run are finished."""
    history = folder / "history.parquet"
    return len(read_history(history)) if history.is_file() else 0


def _comparison(folder: Path) -> dict[str, Any]:
    identity = read_sealed(folder / "comparison.json")
    results = [read_sealed(path) for path in sorted((folder / "runs").glob("*-seed*.json"))]
    rows = [
        {
            "model": result["model"],
            "seed": result["seed"],
            "status": result["status"],
            "scores": {
                part: {name: scores.get(name) for name in ("rmse", "crps", "coverage90")}
                for part, scores in result["scores"].items()
            },
        }
        for result in results
    ]
    return {
        "finished": (folder / "table.json").is_file(),
        "done": len(rows),
        "results": rows,
        "settings": {key: value for key, value in identity.items() if isinstance(value, str | int | float | bool)},
    }


def _training(folder: Path) -> dict[str, Any]:
    return {"finished": (folder / "summary.json").is_file(), "epochs": _epochs(folder)}
