"""A study as plain data: protocol, runs, ranking, lock, ledger, openings. Rows of the vault are not touched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from crossfeed.configuration import parse
from crossfeed.errors import CrossfeedError
from crossfeed.evaluation.adaptation.result import AdaptationResult
from crossfeed.evaluation.result import Evaluation
from crossfeed.files import file_hash, read_json
from crossfeed.logs.table import Table
from crossfeed.study.contrast import ContrastLine, MachineLine, comparisons
from crossfeed.study.record.declaration import CONFIRMATION, Confirmation
from crossfeed.study.record.ledger import Entry
from crossfeed.study.record.lockable import Refusal, refusals
from crossfeed.study.record.score import CandidateScore, has_numbers, score_of
from crossfeed.study.record.store import Run
from crossfeed.study.study import Study
from crossfeed.study.verify import Verification
from crossfeed.windows.split_tables import DataConfig, SplitTables, count_windows


@dataclass(frozen=True)
class OpeningFacts:
    """One opening of the target: why and when, what came of it, and whether its file is still the recorded one."""

    purpose: str
    time: str
    file: str
    unchanged: bool
    models: Sequence[str]
    result: Evaluation
    adaptation: AdaptationResult

    def scores_of(self, candidate: str) -> list[Mapping[str, Any]]:
        """Target scores of the runs of one arm; runs are named candidate-seed."""
        return [scores for run, scores in self.result.scores.items() if run.rsplit("-", 1)[0] == candidate]


@dataclass(frozen=True)
class StudyFacts:
    """What a study folder says about itself."""

    folder: Path
    protocol: Mapping[str, Any]
    runs: Sequence[Run]
    score: str
    ranking: Sequence[CandidateScore]
    ledger: Sequence[Entry]
    verification: Verification
    refusals: Sequence[Refusal]
    openings: Sequence[OpeningFacts]
    sides: Sequence[Mapping[str, Any]]
    contrasts: Sequence[ContrastLine]
    held_out: Sequence[MachineLine]

    def clean_rmse(self, candidate: str) -> dict[str, Any] | None:
        """RMSE on source validation over the seeds of a candidate or an arm that have numbers."""
        runs = [run for run in self.runs if run.candidate == candidate and has_numbers(run)]
        return over_seeds([run.outcome["bundle"]["components"]["clean"] for run in runs])

    def entries(self, kind: str) -> list[Entry]:
        return [entry for entry in self.ledger if entry.kind == kind]

    @property
    def lock(self) -> Mapping[str, Any] | None:
        """What was locked, from the ledger."""
        locked = self.entries("lock")
        return {**locked[-1].content, "time": locked[-1].time, "entry": locked[-1].hash} if locked else None

    @property
    def confirmation(self) -> Confirmation | None:
        """The newest one."""
        entries = self.entries(CONFIRMATION)
        return Confirmation.recorded(entries[-1].content) if entries else None

    @property
    def confirmatory(self) -> OpeningFacts | None:
        """The one opening that counts."""
        return next((one for one in self.openings if one.purpose == "confirmatory"), None)

    @property
    def searched(self) -> list[Run]:
        return [run for run in self.runs if run.stage in ("search", "confirm")]

    @property
    def shown_run(self) -> str | None:
        """The run whose curves a report shows: the locked one, else the leader's first, else any that began."""
        if self.lock is not None:
            return str(self.lock["run"])
        leader = self.ranking[0].candidate if self.ranking and self.ranking[0].seeds else None
        finished = [run.name for run in self.searched if run.status == "finished" and run.candidate == leader]
        begun = [run.name for run in self.searched if (self.folder / "runs" / run.name / "run.json").is_file()]
        return next(iter([*finished, *begun]), None)


def over_seeds(values: Sequence[float | None]) -> dict[str, Any] | None:
    """Mean and standard deviation (of the sample, as in the paper); None without a value."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"estimate": fmean(known), "spread": stdev(known) if len(known) > 1 else None}


def read_study(folder: Path) -> StudyFacts:
    """Everything a study recorded; a damaged file is named."""
    study = Study(folder)
    runs, history = study.store.runs(), study.ledger()
    judged = any(run.status in ("finished", "invalid") for run in runs)
    return StudyFacts(
        folder=folder,
        protocol=study.protocol,
        runs=runs,
        score=score_of(study.protocol),
        ranking=study.rank() if judged else [],
        ledger=history,
        verification=study.verify(),
        refusals=refusals(study.store) if judged else [],
        openings=_openings(folder, history),
        sides=_sides(folder, study.protocol),
        contrasts=study.contrasts() if any(comparisons(study.store)) else [],
        held_out=study.held_out(),
    )


def _openings(folder: Path, ledger: Sequence[Entry]) -> list[OpeningFacts]:
    """The recorded results with their purposes, and whether each is still the recorded one."""
    runs = {entry.hash: entry.content["runs"] for entry in ledger if entry.kind == "opening"}
    found = []
    for entry in ledger:
        if entry.kind != "opening result":
            continue
        path = folder / "results" / entry.content["file"]
        content = read_json(path, "Restore it from a copy; crossfeed study verify lists everything that changed.")
        found.append(
            OpeningFacts(
                purpose=entry.content["purpose"],
                time=entry.time,
                file=path.name,
                unchanged=file_hash(path) == entry.content["sha256"],
                models=runs.get(entry.content["opening"], []),
                result=Evaluation.from_dict(content, str(path)),
                adaptation=AdaptationResult.from_dict(content.get("adaptation") or {}),
            )
        )
    return found


def _sides(folder: Path, protocol: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sessions, rows and windows of each side of the source tables; empty where the tables stayed elsewhere."""
    data, model = parse(DataConfig, protocol["config"]["data"], f"The study {folder}"), protocol["config"]["model"]
    rows = []
    for source in protocol["sources"]:
        try:
            table = Table.read(folder / "tables" / source["name"])
        except CrossfeedError:
            continue
        known = SplitTables.of([table], data)
        for kept, split in zip(known.tables, known.splits, strict=True):
            for part in count_windows(kept, split, model["context"], model["horizons"], data.stride):
                rows.append({"table": source["name"], "split": split.hash(), **part.to_dict()})
    return rows
