"""What this folder has to say to each published number, under the names of the published tables.

Only recorded results are read. What was not made, or was refused, is simply missing.
"""

import json
from collections import UserDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from crossfeed.configuration import leaves
from crossfeed.demo.paper.published import Number
from crossfeed.demo.paper.settings import NAME, PURPOSE
from crossfeed.demo.results import TABLE
from crossfeed.demo.selection import RESULT, STUDY, chosen_run, is_locked, opening
from crossfeed.files import read_sealed
from crossfeed.study.contrast import ContrastLine
from crossfeed.study.record.declaration import CONFIRMATION, Confirmation
from crossfeed.study.record.score import has_numbers, pool, rank
from crossfeed.study.record.store import Run, source_tables
from crossfeed.study.study import Study
from crossfeed.windows.split_tables import DataConfig, SplitTables, count_windows

LIKELIHOOD_CONSTANT = 0.9189385332046727  # half the logarithm of 2 pi, which the paper's likelihoods leave out
ARMS = ("control", "revin")
OUTCOMES = ("clean", "schema_drop", "masked", "long_horizon", "calibration", "ssl")


class Made(UserDict[tuple[str, str], Number]):
    """Numbers by row and column of one table; what is not known is left out."""

    def put(self, row: str, column: str, value: Any, **bounds: float | None) -> None:
        """One value with the spread or the bounds it has, unless there is none."""
        if value is not None and value == value:
            self[row, column] = Number(value, **bounds)

    def over(self, row: str, column: str, values: Iterable[Any]) -> None:
        """Mean and standard deviation over seeds of what is known."""
        known = [float(value) for value in values if value is not None]
        if known:
            self[row, column] = Number(fmean(known), spread=stdev(known) if len(known) > 1 else None)

    def contrast(self, lines: Iterable[ContrastLine], name: str, metric: str = "clean") -> None:
        """The mean of every arm of a contrast, and p where it has one."""
        for line in lines:
            if (line.contrast, line.metric) == (name, metric):
                self.put(line.arm, metric, line.mean, spread=_known(line.deviation))
                self.put(line.arm, "p", line.p)


def made(folder: Path) -> dict[str, Made]:
    """Everything that was made so far, by table."""
    study = Study(folder / STUDY)
    runs = [run for run in study.store.runs() if has_numbers(run)]
    contrasts = study.contrasts() if any(run.stage.startswith(("ready", "ablation")) for run in runs) else []
    second = declared_opening(folder, study)
    return {
        "data": _data(folder, study),
        "initialisation": _initialisation(contrasts, study, runs),
        "ablations": _ablations(contrasts),
        "selection": _selection(study),
        "search": _search(study),
        "transfer": of_transfer(folder, runs, second),
        "target": of_target(folder, second),
        "runs": of_runs(second),
        "channels": of_channels(second),
        "channel_nll": of_channel_nll(second),
        "paired": _paired(contrasts, runs),
        "gate": _gate(study),
        "baselines": _baselines(folder),
        "few_shot": _few_shot(folder),
        "configuration": _configuration(study),
    }


def declared_opening(folder: Path, study: Study) -> Mapping[str, Any]:
    """The result of the second opening; empty where the target stayed sealed for it."""
    for entry in study.store.entries("opening result"):
        if entry.content["purpose"] == PURPOSE:
            return dict(json.loads((folder / STUDY / "results" / entry.content["file"]).read_text(encoding="utf-8")))
    return {}


def arm_runs(result: Mapping[str, Any], arm: str) -> dict[int, str]:
    """The runs of an arm in the second opening, by seed."""
    names = [name for name in result.get("scores", {}) if name.startswith(f"{NAME}.{arm}-")]
    return {int(name.rsplit("-", 1)[1]): name for name in names}


def _data(folder: Path, study: Study) -> Made:
    counts, config, found = read_sealed(folder / "counts.json"), study.config, Made()
    known = SplitTables.of(source_tables(study.store), DataConfig.model_validate(config.data.model_dump()))
    for table, split in zip(known.tables, known.splits, strict=True):
        for part in count_windows(table, split, config.model.context, config.model.horizons, config.data.stride):
            row = part.to_dict()
            found.put("source", f"{part.part}_sessions", int(row["sessions"]))
            found.put("source", f"{part.part}_windows", int(row["windows"]))
    for name in ("source", "target"):
        for column, count in (("raw_rows", "kept_rows"), ("sessions", "sessions"), ("runs", "runs")):
            found.put(name, column, int(counts[name][count]) if count in counts[name] else None)
        found.put(name, "sensors", int(counts["sensors"][name]))
    if (folder / RESULT).exists():
        found.put("target", "windows", int(opening(folder)["windows"]))
    rows = [counts[name]["kept_rows"] for name in ("source", "target") if "kept_rows" in counts[name]]
    found.put("both", "raw_rows", sum(map(int, rows)) if len(rows) == 2 else None)
    return found


def _initialisation(lines: Iterable[ContrastLine], study: Study, runs: Sequence[Run]) -> Made:
    """Three ways to begin, beside the floors on the validation windows of any run: they are the same for all."""
    found = Made()
    found.contrast(lines, "initialisation")
    if runs:
        floors = read_sealed(study.store.folder / "runs" / runs[0].name / "summary.json")["validation"]
        found.put("persistence", "clean", runs[0].outcome["bundle"]["anchor"]["persistence_rmse"])
        found.put("drift", "clean", floors["linear drift"]["rmse"])
    return found


def _ablations(lines: Iterable[ContrastLine]) -> Made:
    found = Made()
    found.contrast(lines, "ablations")
    if reference := found.get(("pre_search", "clean")):
        found["pre_search_norm", "clean"] = reference
    return found


def _selection(study: Study) -> Made:
    found = Made()
    for entry in study.store.entries(CONFIRMATION)[-1:]:
        leaders = Confirmation.recorded(entry.content).leaders
        found.put("discovery", "candidate", leaders[min(leaders)])
        found.put("discovery", "seeds", min(leaders))
    for lock in study.store.entries("lock"):
        seeds = [run for run in study.store.runs("finished") if run.candidate == lock.content["candidate"]]
        found.put("locked", "candidate", str(lock.content["candidate"]))
        found.put("locked", "seeds", len(seeds))
    return found


def _search(study: Study) -> Made:
    """Appendix C: components over valid seeds; ranks and scores of the discovery's pool and of the finalists'."""
    found, gated = Made(), study.config.training.health.latents[0]
    runs = [run for run in study.store.runs() if run.stage in ("search", "confirm")]
    for candidate in dict.fromkeys(run.candidate for run in runs):
        every = [run for run in runs if run.candidate == candidate and run.status in ("finished", "invalid")]
        bundles = [run.outcome["bundle"] for run in every if run.status == "finished"]
        found.put(candidate, "seeds", f"{len(bundles)}/{len(every)}")
        for name in OUTCOMES:
            found.over(candidate, name, (bundle["components"][name] for bundle in bundles))
        found.over(candidate, "command_ratio", (bundle["command_ratio"] for bundle in bundles))
        found.over(candidate, "rank", (bundle["health"].get(f"{gated}_rank") for bundle in bundles))
    pools = {"discovery": study.rank(stages=["search"])}
    for entry in study.store.entries(CONFIRMATION)[-1:]:
        among = Confirmation.recorded(entry.content).finalists
        pools["confirm"] = rank([run for run in pool(study.store) if run.candidate in among], "paper")
    for stage, lines in pools.items():
        for place, line in enumerate(lines, start=1):
            if line.seeds:
                found.put(line.candidate, f"{stage}_rank", place)
                found.put(line.candidate, f"{stage}_score", line.paper)
    return found


def of_transfer(folder: Path, runs: Iterable[Run], second: Mapping[str, Any]) -> Made:
    """Table 3: floors and the locked model of the first opening, RevIN of the second, official code."""
    found, clean = Made(), [(run.candidate, run.outcome["bundle"]["components"]["clean"]) for run in runs]
    if is_locked(folder) and (folder / RESULT).exists():
        result, name = opening(folder), chosen_run(folder)
        interval = result["intervals"][name]["rmse"]
        found.put("persistence", "target_rmse", result["scores"]["persistence"]["rmse"])
        found.put("locked", "target_rmse", interval["estimate"], low=interval.get("low"), high=interval.get("high"))
        found.put("locked", "target_nll", _likelihood(result["scores"][name]))
        found.over("locked", "source_rmse", (rmse for each, rmse in clean if each == name.rsplit("-", 1)[0]))
    found.over("revin", "source_rmse", (rmse for each, rmse in clean if each == f"{NAME}.revin"))
    scores = [second["scores"][run] for run in arm_runs(second, "revin").values()]
    found.over("revin", "target_rmse", (each["rmse"] for each in scores))
    found.over("revin", "target_nll", map(_likelihood, scores))
    for name, mean in _comparison(folder).items():
        if name.startswith("official"):
            found |= {(name, column): mean[key] for column, key in _OF_COMPARISON if key in mean}
    return found


def of_target(folder: Path, second: Mapping[str, Any]) -> Made:
    """What the text says of the target beside Table 3; arms of the second opening over their seeds."""
    found = Made()
    if is_locked(folder) and (folder / RESULT).exists():
        result, name = opening(folder), chosen_run(folder)
        found.put("locked", "r2", result["scores"][name]["r2"])
        for horizon, row in result["by_horizon"][name].items():
            found.put("locked", f"r2_h{horizon}", row["r2"])
        for metric in ("mae", "r2"):
            found.put("persistence", metric, result["scores"]["persistence"][metric])
    for arm in ARMS:
        scores = [second["scores"][run] for run in arm_runs(second, arm).values()]
        for metric in ("rmse", "mae", "r2", "coverage90"):
            found.over(arm, metric, (each[metric] for each in scores))
        found.over(arm, "nll", map(_likelihood, scores))
    return found


def of_runs(second: Mapping[str, Any]) -> Made:
    """Every run of the second opening."""
    found = Made()
    for arm in ARMS:
        for seed, name in arm_runs(second, arm).items():
            for metric in ("rmse", "mae", "r2"):
                found.put(f"{arm}-{seed}", metric, second["scores"][name][metric])
            found.put(f"{arm}-{seed}", "nll", _likelihood(second["scores"][name]))
    return found


def of_channels(second: Mapping[str, Any]) -> Made:
    """RMSE of the channels that the paper names, arm by arm."""
    found = Made()
    for arm in ARMS:
        tables = [second["by_channel"][name] for name in arm_runs(second, arm).values()]
        for channel in ("z_current", "spindle_current", "spindle_torque"):
            found.over(arm, channel, (table[channel]["metrics"]["rmse"] for table in tables if channel in table))
    return found


def of_channel_nll(second: Mapping[str, Any]) -> Made:
    """Likelihood of every channel under RevIN at the first seed."""
    found, first = Made(), arm_runs(second, "revin").get(0)
    for channel, row in (second["by_channel"][first] if first else {}).items():
        found.put("revin-0", channel, _likelihood(row["metrics"]))
    return found


def _paired(lines: Iterable[ContrastLine], runs: Iterable[Run]) -> Made:
    found = Made()
    for line in lines:
        if line.contrast == NAME and line.mean == line.mean:
            found.put(line.metric, line.arm, line.mean, spread=_known(line.deviation))
            if line.arm == "revin":
                found.put(line.metric, "difference", line.difference, low=line.low, high=line.high)
                found.put(line.metric, "wins", line.wins)
    for arm in ARMS:
        bundles = [run.outcome["bundle"] for run in runs if run.candidate == f"{NAME}.{arm}"]
        clean = [bundle["details"]["clean"] for bundle in bundles]
        found.over("anchor", arm, (bundle["anchor"]["source_mean_rmse"] for bundle in bundles))
        found.over("nll", arm, map(_likelihood, clean))
        found.over("coverage90", arm, (each["coverage90"] for each in clean))
    return found


def _gate(study: Study) -> Made:
    """Predicted latents after pretraining (the kept epoch) and after fine-tuning."""
    found = Made()
    for run in study.store.runs():
        if run.stage == f"ablation {NAME}" and "bundle" in run.outcome:
            row, health = f"{run.candidate.partition('.')[2]}-{run.seed}", run.outcome["bundle"]["health"]
            stages = read_sealed(study.store.folder / "runs" / run.name / "summary.json")["stages"]
            found.put(row, "ssl_rank", stages.get("pretrain", {}).get("predicted_rank"))
            found.put(row, "spread", health.get("predicted_raw_spread"))
            found.put(row, "rank", health.get("predicted_rank"))
    return found


def _baselines(folder: Path) -> Made:
    named, column = _comparison(folder).items(), "source.rmse"
    return Made({(name, "source_rmse"): mean[column] for name, mean in named if column in mean})


def _few_shot(folder: Path) -> Made:
    found = Made()
    if (folder / RESULT).exists():
        shots = (opening(folder).get("adaptation") or {}).get("few_shot") or {"fractions": []}
        for row in (row for row in shots["fractions"] if row["updates"] or not row["fraction"]):
            for metric in ("rmse", "mae", "r2"):
                found.put(str(float(row["fraction"])), metric, row["metrics"][metric])
    return found


def _configuration(study: Study) -> Made:
    """The settings from which candidates depart: the paper's locked candidate, in the size of this folder."""
    settings = leaves(study.config.model_dump(mode="json"))
    return Made({(name, "setting"): Number(str(value)) for name, value in settings.items()})


_OF_COMPARISON = (("source_rmse", "source.rmse"), ("target_rmse", "target.rmse"))


def _comparison(folder: Path) -> dict[str, dict[str, Number]]:
    """Mean and spread of every forecaster that came to an end, by set and metric."""
    rows = read_sealed(folder / TABLE)["rows"] if (folder / TABLE).exists() else []
    return {
        row["model"]: {
            name: Number(mean, spread=row["spread"].get(name)) for name, mean in row["mean"].items() if mean is not None
        }
        for row in rows
        if row["seeds"]
    }


def _likelihood(scores: Mapping[str, Any]) -> float | None:
    """As the paper counts it, without the constant."""
    value = scores.get("nll")
    return None if value is None else float(value) - LIKELIHOOD_CONSTANT


def _known(value: float) -> float | None:
    return value if value == value else None
