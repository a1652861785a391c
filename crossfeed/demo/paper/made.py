"""What this folder has to say to each published number, under the names of the published tables.

Only recorded results are read. What was not made, or was refused, is simply missing.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from crossfeed.configuration import leaves
from crossfeed.demo.paper.published import Number
from crossfeed.demo.paper.target import NAME, PURPOSE
from crossfeed.demo.results import TABLE
from crossfeed.demo.selection import RESULT, STUDY, chosen_run, is_locked, opening
from crossfeed.files import read_sealed
from crossfeed.study.contrast import ContrastLine
from crossfeed.study.record.declaration import CONFIRMATION, Confirmation
from crossfeed.study.record.score import has_numbers, pool, rank
from crossfeed.study.record.store import Run, source_tables
from crossfeed.study.study import Study
from crossfeed.windows.split_tables import DataConfig, SplitTables, count_windows

Made = dict[tuple[str, str], Number]
LIKELIHOOD_CONSTANT = 0.9189385332046727  # half the logarithm of 2 pi, which the paper's likelihoods leave out
ARMS = ("control", "revin")


def over(values: Iterable[Any]) -> Number | None:
    """Mean and standard deviation over seeds of what is known."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    return Number(fmean(known), spread=stdev(known) if len(known) > 1 else None)


def made(folder: Path) -> dict[str, Made]:
    """Everything that was made so far, by table."""
    study = Study(folder / STUDY)
    runs = [run for run in study.store.runs() if has_numbers(run)]
    contrasts = study.contrasts() if any(run.stage.startswith(("ready", "ablation")) for run in runs) else []
    second = declared_opening(folder, study)
    parts: dict[str, Callable[[], Made]] = {
        "data": lambda: _data(folder, study),
        "initialisation": lambda: _contrast(contrasts, "initialisation") | _floors(study, runs),
        "ablations": lambda: _ablations(contrasts),
        "selection": lambda: _selection(study),
        "search": lambda: _search(study),
        "transfer": lambda: of_transfer(folder, runs, second),
        "target": lambda: of_target(folder, second),
        "runs": lambda: of_runs(second),
        "channels": lambda: of_channels(second),
        "channel_nll": lambda: of_channel_nll(second),
        "paired": lambda: _paired(contrasts, runs),
        "gate": lambda: _gate(study),
        "baselines": lambda: _baselines(folder),
        "few_shot": lambda: _few_shot(folder),
        "configuration": lambda: _configuration(study),
    }
    return {name: part() for name, part in parts.items()}


def declared_opening(folder: Path, study: Study) -> Mapping[str, Any]:
    """The result of the second opening; empty where the target stayed sealed for it."""
    for entry in study.store.entries("opening result"):
        if entry.content["purpose"] == PURPOSE:
            content: Mapping[str, Any] = json.loads(
                (folder / STUDY / "results" / entry.content["file"]).read_text(encoding="utf-8")
            )
            return content
    return {}


def arm_runs(result: Mapping[str, Any], arm: str) -> dict[int, str]:
    """The runs of an arm in the second opening, by seed."""
    names = [name for name in result.get("scores", {}) if name.startswith(f"{NAME}.{arm}-")]
    return {int(name.rsplit("-", 1)[1]): name for name in names}


def _data(folder: Path, study: Study) -> Made:
    counts, config = read_sealed(folder / "counts.json"), study.config
    known = SplitTables.of(source_tables(study.store), DataConfig.model_validate(config.data.model_dump()))
    found: Made = {}
    for table, split in zip(known.tables, known.splits, strict=True):
        for part in count_windows(table, split, config.model.context, config.model.horizons, config.data.stride):
            row = part.to_dict()
            found["source", f"{part.part}_sessions"] = Number(int(row["sessions"]))
            found["source", f"{part.part}_windows"] = Number(int(row["windows"]))
    for name in ("source", "target"):
        for column, count in (("raw_rows", "kept_rows"), ("sessions", "sessions"), ("runs", "runs")):
            if count in counts[name]:
                found[name, column] = Number(int(counts[name][count]))
        found[name, "sensors"] = Number(int(counts["sensors"][name]))
    if (folder / RESULT).exists():
        found["target", "windows"] = Number(int(opening(folder)["windows"]))
    pair = [found[name, "raw_rows"].value for name in ("source", "target") if (name, "raw_rows") in found]
    if len(pair) == 2:
        found["both", "raw_rows"] = Number(sum(int(rows or 0) for rows in pair))
    return found


def _contrast(lines: Iterable[ContrastLine], name: str) -> Made:
    """The clean RMSE of every arm, and p where a contrast has one."""
    found: Made = {}
    for line in lines:
        if (line.contrast, line.metric) == (name, "clean") and line.mean == line.mean:
            found[line.arm, "clean"] = Number(line.mean, spread=_known(line.deviation))
            if line.p == line.p:
                found[line.arm, "p"] = Number(line.p)
    return found


def _floors(study: Study, runs: Sequence[Run]) -> Made:
    """Persistence and linear drift on the validation windows of any run: they are the same for all."""
    if not runs:
        return {}
    floors = read_sealed(study.store.folder / "runs" / runs[0].name / "summary.json")["validation"]
    return {
        ("persistence", "clean"): Number(runs[0].outcome["bundle"]["anchor"]["persistence_rmse"]),
        ("drift", "clean"): Number(floors["linear drift"]["rmse"]),
    }


def _ablations(lines: Iterable[ContrastLine]) -> Made:
    found = _contrast(lines, "ablations")
    reference = found.get(("pre_search", "clean"))
    return found | ({("pre_search_norm", "clean"): reference} if reference else {})


def _selection(study: Study) -> Made:
    found: Made = {}
    entries = study.store.entries(CONFIRMATION)
    if entries:
        confirmed = Confirmation.recorded(entries[-1].content)
        first = min(confirmed.leaders)
        found["discovery", "candidate"] = Number(confirmed.leaders[first])
        found["discovery", "seeds"] = Number(first)
    for lock in study.store.entries("lock"):
        seeds = [run for run in study.store.runs("finished") if run.candidate == lock.content["candidate"]]
        found["locked", "candidate"] = Number(str(lock.content["candidate"]))
        found["locked", "seeds"] = Number(len(seeds))
    return found


def _search(study: Study) -> Made:
    """Appendix C: components over valid seeds; ranks and scores of the discovery's pool and of the finalists'."""
    found: Made = {}
    gated = study.config.training.health.latents[0]
    runs = [run for run in study.store.runs() if run.stage in ("search", "confirm")]
    for candidate in dict.fromkeys(run.candidate for run in runs):
        every = [run for run in runs if run.candidate == candidate and run.status in ("finished", "invalid")]
        bundles = [run.outcome["bundle"] for run in every if run.status == "finished"]
        found[candidate, "seeds"] = Number(f"{len(bundles)}/{len(every)}")
        values: dict[str, list[float | None]] = {
            name: [bundle["components"][name] for bundle in bundles]
            for name in ("clean", "schema_drop", "masked", "long_horizon", "calibration", "ssl")
        }
        values["command_ratio"] = [bundle["command_ratio"] for bundle in bundles]
        values["rank"] = [bundle["health"].get(f"{gated}_rank") for bundle in bundles]
        found |= {(candidate, name): number for name, one in values.items() if (number := over(one)) is not None}
    for place, line in enumerate(study.rank(stages=["search"]), start=1):
        if line.seeds:
            found[line.candidate, "discovery_rank"] = Number(place)
            found[line.candidate, "discovery_score"] = Number(line.paper)
    return found | _confirmed(study)


def _confirmed(study: Study) -> Made:
    """Rank and score of the finalists in their own pool, with all their seeds."""
    entries = study.store.entries(CONFIRMATION)
    if not entries:
        return {}
    among = Confirmation.recorded(entries[-1].content).finalists
    found: Made = {}
    for place, line in enumerate(rank([run for run in pool(study.store) if run.candidate in among], "paper"), start=1):
        found[line.candidate, "confirm_rank"] = Number(place)
        found[line.candidate, "confirm_score"] = Number(line.paper)
    return found


def of_transfer(folder: Path, runs: Iterable[Run], second: Mapping[str, Any]) -> Made:
    """Table 3: floors and the locked model of the first opening, RevIN of the second, official code."""
    found: Made = {}
    if is_locked(folder) and (folder / RESULT).exists():
        result, name = opening(folder), chosen_run(folder)
        found["persistence", "target_rmse"] = Number(result["scores"]["persistence"]["rmse"])
        found["locked", "target_rmse"] = _interval(result["intervals"][name]["rmse"])
        found["locked", "target_nll"] = _likelihood(result["scores"][name])
        candidate = name.rsplit("-", 1)[0]
        found |= _named(("locked", "source_rmse"), over(_component(runs, candidate, "clean")))
    found |= _named(("revin", "source_rmse"), over(_component(runs, f"{NAME}.revin", "clean")))
    scores = [second["scores"][run] for run in arm_runs(second, "revin").values()]
    found |= _named(("revin", "target_rmse"), over(one["rmse"] for one in scores))
    found |= _named(("revin", "target_nll"), over(_likelihood(one).value for one in scores))
    for name, mean in _comparison(folder).items():
        if name.startswith("official"):
            found |= _named((name, "source_rmse"), mean.get("source.rmse"))
            found |= _named((name, "target_rmse"), mean.get("target.rmse"))
    return found


def of_target(folder: Path, second: Mapping[str, Any]) -> Made:
    """What the text says of the target beside Table 3; arms of the second opening over their seeds."""
    found: Made = {}
    if is_locked(folder) and (folder / RESULT).exists():
        result, name = opening(folder), chosen_run(folder)
        found["locked", "r2"] = Number(result["scores"][name]["r2"])
        for horizon, row in result["by_horizon"][name].items():
            found["locked", f"r2_h{horizon}"] = Number(row["r2"])
        for metric in ("mae", "r2"):
            found["persistence", metric] = Number(result["scores"]["persistence"][metric])
    for arm in ARMS:
        scores = [second["scores"][run] for run in arm_runs(second, arm).values()]
        for metric in ("rmse", "mae", "r2", "coverage90"):
            found |= _named((arm, metric), over(one[metric] for one in scores))
        found |= _named((arm, "nll"), over(_likelihood(one).value for one in scores))
    return found


def of_runs(second: Mapping[str, Any]) -> Made:
    """Every run of the second opening."""
    found: Made = {}
    for arm in ARMS:
        for seed, name in arm_runs(second, arm).items():
            scores = second["scores"][name]
            found |= {(f"{arm}-{seed}", metric): Number(scores[metric]) for metric in ("rmse", "mae", "r2")}
            found[f"{arm}-{seed}", "nll"] = _likelihood(scores)
    return found


def of_channels(second: Mapping[str, Any]) -> Made:
    """RMSE of the channels that the paper names, arm by arm."""
    found: Made = {}
    for arm in ARMS:
        tables = [second["by_channel"][name] for name in arm_runs(second, arm).values()]
        for channel in ("z_current", "spindle_current", "spindle_torque"):
            found |= _named(
                (arm, channel), over(table[channel]["metrics"]["rmse"] for table in tables if channel in table)
            )
    return found


def of_channel_nll(second: Mapping[str, Any]) -> Made:
    """Likelihood of every channel under RevIN at the first seed."""
    first = arm_runs(second, "revin").get(0)
    rows = second["by_channel"][first] if first else {}
    return {("revin-0", channel): _likelihood(row["metrics"]) for channel, row in rows.items()}


def _paired(lines: Iterable[ContrastLine], runs: Iterable[Run]) -> Made:
    found: Made = {}
    for line in lines:
        if line.contrast == NAME and line.mean == line.mean:
            found[line.metric, line.arm] = Number(line.mean, spread=_known(line.deviation))
            if line.arm == "revin":
                found[line.metric, "difference"] = Number(line.difference, low=line.low, high=line.high)
                found[line.metric, "wins"] = Number(line.wins)
    for arm in ARMS:
        bundles = [run.outcome["bundle"] for run in runs if run.candidate == f"{NAME}.{arm}"]
        clean = [bundle["details"]["clean"] for bundle in bundles]
        found |= _named(("anchor", arm), over(bundle["anchor"]["source_mean_rmse"] for bundle in bundles))
        found |= _named(("nll", arm), over(_likelihood(one).value for one in clean))
        found |= _named(("coverage90", arm), over(one["coverage90"] for one in clean))
    return found


def _gate(study: Study) -> Made:
    """Predicted latents after pretraining (the kept epoch) and after fine-tuning."""
    found: Made = {}
    for run in study.store.runs():
        arm = run.candidate.partition(".")[2]
        if run.stage != f"ablation {NAME}" or "bundle" not in run.outcome:
            continue
        health = run.outcome["bundle"]["health"]
        summary = read_sealed(study.store.folder / "runs" / run.name / "summary.json")
        pretrained = summary["stages"].get("pretrain", {})
        row = f"{arm}-{run.seed}"
        found |= _named((row, "ssl_rank"), over([pretrained.get("predicted_rank")]))
        found |= _named((row, "spread"), over([health.get("predicted_raw_spread")]))
        found |= _named((row, "rank"), over([health.get("predicted_rank")]))
    return found


def _baselines(folder: Path) -> Made:
    found: Made = {}
    for name, mean in _comparison(folder).items():
        found |= _named((name, "source_rmse"), mean.get("source.rmse"))
    return found


def _few_shot(folder: Path) -> Made:
    if not (folder / RESULT).exists():
        return {}
    shots = (opening(folder).get("adaptation") or {}).get("few_shot") or {"fractions": []}
    return {
        (str(float(row["fraction"])), metric): Number(row["metrics"][metric])
        for row in shots["fractions"]
        for metric in ("rmse", "mae", "r2")
        if row["updates"] or not row["fraction"]
    }


def _configuration(study: Study) -> Made:
    """The settings from which candidates depart: the paper's locked candidate, in the size of this folder."""
    settings = leaves(study.config.model_dump(mode="json"))
    return {(name, "setting"): Number(str(value)) for name, value in settings.items()}


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


def _component(runs: Iterable[Run], candidate: str, name: str) -> list[float]:
    return [run.outcome["bundle"]["components"][name] for run in runs if run.candidate == candidate]


def _interval(found: Mapping[str, Any]) -> Number:
    return Number(found["estimate"], low=found.get("low"), high=found.get("high"))


def _likelihood(scores: Mapping[str, Any]) -> Number:
    """As the paper counts it, without the constant."""
    value = scores.get("nll")
    return Number(None if value is None else float(value) - LIKELIHOOD_CONSTANT)


def _named(place: tuple[str, str], number: Number | None) -> Made:
    return {} if number is None else {place: number}


def _known(value: float) -> float | None:
    return value if value == value else None
