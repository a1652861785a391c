"""A study as plain data: protocol, runs, ranking, lock, ledger, openings. Rows of the vault are not touched."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossfeed.adaptation.result import AdaptationResult
from crossfeed.errors import CrossfeedError, StorageError
from crossfeed.evaluation.result import Evaluation
from crossfeed.study.ledger import Entry
from crossfeed.study.score import CandidateScore
from crossfeed.study.store import Run

if TYPE_CHECKING:
    from crossfeed.study.contrast import ContrastLine
    from crossfeed.study.leave_one_out import MachineLine
    from crossfeed.study.study import Study
    from crossfeed.study.verify import Verification


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


@dataclass(frozen=True)
class StudyFacts:
    """What a study folder says about itself."""

    folder: Path
    protocol: Mapping[str, Any]
    runs: Sequence[Run]
    score: str
    ranking: Sequence[CandidateScore]
    disagree: bool
    ledger: Sequence[Entry]
    verification: "Verification"
    refusals: Sequence[str]
    openings: Sequence[OpeningFacts]
    sides: Sequence[Mapping[str, Any]]
    contrasts: "Sequence[ContrastLine]"
    strangers: "Sequence[MachineLine]"

    def entries(self, kind: str) -> list[Entry]:
        return [entry for entry in self.ledger if entry.kind == kind]

    @property
    def lock(self) -> Mapping[str, Any] | None:
        """What was locked, from the ledger."""
        locked = self.entries("lock")
        return {**locked[-1].content, "time": locked[-1].time, "entry": locked[-1].hash} if locked else None

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


def read_study(folder: Path) -> StudyFacts:
    """Everything a study recorded; a damaged file is named."""
    # With these comes torch, which a report on a run does without.
    from crossfeed.study.confirm import score_of
    from crossfeed.study.contrast import comparisons, contrasts
    from crossfeed.study.leave_one_out import machine_lines
    from crossfeed.study.study import Study

    try:
        study = Study(folder)
        runs, ledger = study.store.runs(), study.ledger()
        verification = study.verify()
        judged = any(run.status in ("finished", "invalid") for run in runs)
        ranking = study.rank() if judged else []
        return StudyFacts(
            folder=folder,
            protocol=study.protocol,
            runs=runs,
            score=score_of(study.protocol),
            ranking=ranking,
            disagree=bool(ranking) and study.rank("paper")[0].candidate != study.rank("robust")[0].candidate,
            ledger=ledger,
            verification=verification,
            refusals=study.refusals() if judged else [],
            openings=_openings(folder, ledger),
            sides=_sides(folder, study),
            contrasts=contrasts(study.store) if any(comparisons(study.store)) else [],
            strangers=machine_lines(study.store),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # a study.db that holds something else
        raise StorageError(
            f"{folder / 'study.db'} does not hold what a study records: {error!r}.",
            remedy="crossfeed study verify lists everything that changed.",
        ) from error


def _openings(folder: Path, ledger: Sequence[Entry]) -> list[OpeningFacts]:
    """The recorded results with their purposes, and whether each is still the recorded one."""
    runs = {entry.hash: entry.content["runs"] for entry in ledger if entry.kind == "opening"}
    found = []
    for entry in ledger:
        if entry.kind != "opening result":
            continue
        path = folder / "results" / entry.content["file"]
        try:
            raw = path.read_bytes()
            content = json.loads(raw)
        except (OSError, ValueError) as error:
            raise StorageError(
                f"The result {path} cannot be read: {error}.",
                expected="the file the ledger recorded",
                remedy="Restore it from a copy; crossfeed study verify lists everything that changed.",
            ) from error
        found.append(
            OpeningFacts(
                purpose=entry.content["purpose"],
                time=entry.time,
                file=path.name,
                unchanged=hashlib.sha256(raw).hexdigest() == entry.content["sha256"],
                models=runs.get(entry.content["opening"], []),
                result=Evaluation.from_dict(content, str(path)),
                adaptation=AdaptationResult.from_dict(content.get("adaptation") or {}),
            )
        )
    return found


def _sides(folder: Path, study: "Study") -> list[dict[str, Any]]:
    """Sessions, rows and windows of each side of the source tables; empty where the tables stayed elsewhere."""
    from crossfeed.ingest.table import Table
    from crossfeed.windows.counts import count_windows
    from crossfeed.windows.split_tables import SplitTables

    data, model = study.config.data, study.config.model
    rows = []
    for source in study.protocol["sources"]:
        try:
            table = Table.read(folder / "tables" / source["name"])
        except CrossfeedError:
            continue
        known = SplitTables.of([table], data)
        for kept, split in zip(known.tables, known.splits, strict=True):
            for part in count_windows(kept, split, model.context, model.horizons, data.stride):
                rows.append({"table": source["name"], "split": split.hash(), **part.to_dict()})
    return rows
