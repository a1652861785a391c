"""Studies, comparisons and training runs in a folder, with how far each has come."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crossfeed.errors import CrossfeedError
from crossfeed.json_file import read_sealed
from crossfeed.training.record.history import read_history

_DEPTH = 2  # folders below the named one in which is looked
_MOST = 200


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
                    one for one in folder.iterdir() if one.is_dir() and not one.is_symlink() and one.name[0] != "."
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
    # Imported when somebody looks: the page is up a tenth of a second earlier.
    from crossfeed.study.record.rules import score_of
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
            {"candidate": one.candidate, "seeds": one.seeds, "score": getattr(one, score)} for one in ranking[:12]
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
