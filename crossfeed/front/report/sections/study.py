"""A study's own chapters: the ranking of its candidates, lock and ledger, declared ablations, contrasts."""

from collections.abc import Mapping
from statistics import fmean, pstdev
from typing import Any

from crossfeed.configuration import leaves
from crossfeed.front.report.artefacts import Artefacts
from crossfeed.front.report.page import Block, Note, Tone
from crossfeed.front.report.study_facts import StudyFacts, over_seeds
from crossfeed.show.figures import Dot, Dots, Figure
from crossfeed.show.tables import ResultTable, columns, filled, number, plural
from crossfeed.study.contrast import ContrastLine
from crossfeed.study.opening import Drift
from crossfeed.study.record.declaration import RMSE_COMPONENTS, Declaration
from crossfeed.study.record.score import flag_of, has_numbers
from crossfeed.study.tables import (
    COMPONENTS,
    contrast_figure,
    contrast_table,
    finite,
    ledger_table,
    machines_table,
    paired_table,
    ranking_tables,
    scores_figure,
    values_of,
)

_TARGET = {"rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "nll": "NLL", "coverage90": "in 90 %"}


def ranking(found: Artefacts) -> list[Block]:
    """The ranking, as far as runs are finished."""
    study = found.study
    if study is None or not study.ranking:
        return []
    blocks: list[Block] = []
    unfinished = sum(run.status not in ("finished", "invalid") for run in study.searched)
    if unfinished:
        blocks.append(Note(f"{unfinished} planned runs are not finished; the ranking is provisional.", "next"))
    blocks += [
        scores_figure(study.ranking, study.searched),
        *ranking_tables(study.ranking, study.score),
        _outcomes(study),
        _matrix(study),
    ]
    blocks += _confirmation(study)
    return blocks


def _outcomes(study: StudyFacts) -> ResultTable:
    """The paper's appendix table of source-validation outcomes."""
    confirmed, gated = _confirmed(study), study.protocol["config"]["training"]["health"]["latents"][0]
    rows = []
    for rank, line in enumerate(study.ranking, start=1):
        runs = [run for run in study.searched if run.candidate == line.candidate and run.status == "finished"]
        bundles = [run.outcome["bundle"] for run in runs]
        row: dict[str, Any] = {"candidate": line.candidate, "seeds": f"{line.seeds}/{line.seeds + line.invalid_seeds}"}
        row |= {name: finite(value) for name, value in line.components.items()}
        clean = values_of(study.searched, line.candidate, "clean")
        row["clean"] = f"{number(fmean(clean))} ± {number(pstdev(clean))}" if clean else None
        row["command"] = fmean(bundle["command_ratio"] for bundle in bundles) if bundles else None
        ranks = [bundle["health"][f"{gated}_rank"] for bundle in bundles if bundle.get("health")]
        row["rank"] = fmean(ranks) if ranks else None
        score = getattr(line, study.score)
        row["standing"] = f"#{rank} ({number(score)})" if line.seeds else "excluded"
        if line.dropped_after is not None:
            row["standing"] = f"dropped after {line.dropped_after} ({number(score)})"
        row["standing"] += f" / leader at {confirmed[line.candidate]} seeds" if line.candidate in confirmed else ""
        rows.append(row)
    heads = columns(
        ("candidate", "Candidate", "text"), ("seeds", "Seeds", "text"),
        *((name, latex, "number") for name, (_, latex) in COMPONENTS.items() if name != "ssl"),
        ("command", "Cmd. sens."), ("rank", "Eff. rank"), ("standing", "Discovery / confirm.", "text"),
    )  # fmt: skip
    caption = (
        "Source-validation outcomes in the paper's layout. Lower RMSE/schema-drop is better; command sensitivity "
        "greater than one indicates that shuffled future commands degrade prediction."
    )
    return ResultTable("search-outcomes", caption, heads, tuple(rows), label="search-outcomes", folded=True)


def _matrix(study: StudyFacts) -> ResultTable:
    """What makes the candidates differ: every setting on which two of them disagree, as in the paper's Appendix B."""
    configs = {run.candidate: leaves(run.config) for run in study.searched}
    names = list(dict.fromkeys(name for config in configs.values() for name in config))
    varied = [
        name
        for name in names
        if name != "training.seed" and len({str(config.get(name)) for config in configs.values()}) > 1
    ]
    rows = tuple(
        {"candidate": candidate, **{name: str(config.get(name)) for name in varied}}
        for candidate, config in configs.items()
    )
    heads = columns(("candidate", "Candidate", "text"), *((name, name, "text") for name in varied))
    caption = (
        "The candidate matrix: all settings on which candidates of the search differ; the rest is the same for all."
    )
    return ResultTable("candidate-matrix", caption, heads, rows, label="all-configs", folded=True)


def _confirmed(study: StudyFacts) -> dict[str, str]:
    """The seed counts at which a candidate led."""
    leaders: dict[str, str] = {}
    for count, name in study.confirmation.leaders.items() if study.confirmation else ():
        leaders[name] = f"{leaders[name]}, {count}" if name in leaders else str(count)
    return leaders


def _confirmation(study: StudyFacts) -> list[Block]:
    found = study.confirmation
    if found is None:
        return []
    stands = "the leader stands" if found.stable else "the leader still changed, so a lock was refused"
    return [Note(f"Confirmation: leading were {found.history}; {stands}.", "good" if found.stable else "fair")]


def ledger(found: Artefacts) -> list[Block]:
    """The history of a study; a run alone has none."""
    study = found.study
    if study is None:
        return []
    blocks: list[Block] = [_verification(found)]
    if study.lock is not None:
        frozen = [
            {"what": name, "sha256": study.lock[f"{name}_sha256"]}
            for name in ("config", "code", "normaliser", "checkpoint")
        ]
        frozen += [{"what": f"data {number}", "sha256": one} for number, one in enumerate(study.lock["data_sha256"], 1)]
        caption = (
            f"Locked on {study.lock['time']}: {study.lock['candidate']}, seed {study.lock['seed']} "
            f"(the {study.lock.get('seed_rule', 'median')} one)."
        )
        heads = columns(("what", "frozen", "text"), ("sha256", "SHA-256", "text"))
        blocks.append(ResultTable("lock", caption, heads, tuple(frozen)))
    if study.openings:
        rows = tuple(
            {
                "purpose": one.purpose, "time": one.time, "file": one.file,
                "unchanged": "yes" if one.unchanged else "NO, changed since",
                "models": ", ".join(one.models), "windows": one.result.windows,
            }
            for one in study.openings
        )  # fmt: skip
        heads = columns(
            ("purpose", "purpose", "text"), ("time", "time (UTC)", "text"), ("models", "models", "text"),
            ("windows", "windows", "count"), ("file", "result", "text"), ("unchanged", "as recorded", "text"),
        )  # fmt: skip
        blocks.append(ResultTable("openings", "Every opening of the target.", heads, rows))
    blocks.append(ledger_table(study.ledger))
    return blocks


def _verification(found: Artefacts) -> Note:
    assert found.study is not None
    check = found.study.verification
    if check.problems:
        return Note(f"Verification FAILED: {'; '.join(check.problems)}. Ledger head {check.head}.", "bad")
    remarks = f" Worth knowing: {'; '.join(check.remarks)}." if check.remarks else ""
    told = f"Verified: {plural(check.entries, 'ledger entry')}, nothing changed.{remarks}"
    return Note(f"{told} Ledger head {check.head}.", "good")


def ablation(found: Artefacts) -> list[Block]:
    """Every declaration of the ledger with as much as is known about it."""
    study = found.study
    declared = study.entries("declaration") if study else []
    if study is None or not declared:
        return []
    blocks: list[Block] = []
    for entry in declared:
        blocks += _declaration(study, entry.content)
    return blocks


def _declaration(study: StudyFacts, content: Mapping[str, Any]) -> list[Block]:
    name, arms = content["name"], list(Declaration.recorded(content).arms)
    verdicts = [entry.content for entry in study.entries("verdict") if entry.content["declaration"] == name]
    opening = next((one for one in study.openings if one.purpose == f"declared: {name}"), None)
    settings = "; ".join(
        f"{arm}: {', '.join(f'{key}={value}' for key, value in content['arms'][arm].items()) or 'as locked'}"
        for arm in arms
    )
    told = f"{name} ({settings}). Condition: {content['condition']}. "
    told += (
        f"Verdict on source validation: it {'holds' if verdicts[-1]['holds'] else 'does not hold'}."
        if verdicts
        else "No verdict yet."
    )
    strayed = _strayed(verdicts[-1]) if verdicts else ""
    told += strayed
    holds = bool(verdicts) and verdicts[-1]["holds"] and not strayed
    tone: Tone = "good" if holds else "fair" if verdicts else "next"
    blocks: list[Block] = [Note(told, tone)]
    source = {arm: _source(study, name, arm) for arm in arms}
    target = {arm: opening.scores_of(f"{name}.{arm}") for arm in arms} if opening else {}
    if any(source.values()):
        blocks.append(_arms_figure(name, source, target))
        blocks.append(_arms_table(name, source, target))
    return blocks


def _strayed(verdict: Mapping[str, Any]) -> str:
    """Why nothing was opened although the condition may hold; empty if the control repeated the search."""
    found = {name: Drift(**drift) for name, drift in verdict.get("control_drift", {}).items()}
    far = [f"{name}: {drift}" for name, drift in found.items() if drift.share > 1.0]
    return f" Its control does not repeat the search, so the target stayed sealed: {'; '.join(far)}." if far else ""


def _source(study: StudyFacts, name: str, arm: str) -> list[Mapping[str, Any]]:
    """Bundles of the runs of one arm that have numbers, each with the word of the latent gate."""
    return [
        {**run.outcome["bundle"], "flag": flag_of(run)}
        for run in study.runs
        if run.candidate == f"{name}.{arm}" and has_numbers(run)
    ]


def _arms_figure(name: str, source: Mapping[str, Any], target: Mapping[str, Any]) -> Figure:
    panels = [
        Dots(
            "Source validation", "RMSE (z-units)", RMSE_COMPONENTS,
            tuple((arm, number, tuple(Dot.over(one["components"][part] for one in bundles) for part in RMSE_COMPONENTS))
                  for number, (arm, bundles) in enumerate(source.items())),
        )
    ]  # fmt: skip
    if any(target.values()):
        for title, keys, reference in (
            ("Target: errors", ("rmse", "mae", "crps"), None),
            ("Target: share inside the 90 % interval", ("coverage90",), 0.9),
        ):  # fmt: skip
            series = tuple(
                (arm, number, tuple(Dot.over(one.get(key) for one in scores) for key in keys))
                for number, (arm, scores) in enumerate(target.items())
            )
            panels.append(Dots(title, "z-units" if reference is None else "share", keys, series, reference))
    legend = tuple((arm, number, "points") for number, arm in enumerate(source))
    caption = "Arms side by side: mean and range over seeds."
    return Figure(f"ablation-{name}", caption, tuple(panels), legend)


def _arms_table(name: str, source: Mapping[str, Any], target: Mapping[str, Any]) -> ResultTable:
    rows = []
    for arm, bundles in source.items():
        row: dict[str, Any] = {"arm": arm, "seeds": len(bundles), "flagged": sum(bool(one["flag"]) for one in bundles)}
        for part in (*RMSE_COMPONENTS, "calibration"):
            row[part] = over_seeds([one["components"][part] for one in bundles])
        row["command_ratio"] = over_seeds([one["command_ratio"] for one in bundles])
        for key in _TARGET:
            row[f"target_{key}"] = over_seeds([one.get(key) for one in target.get(arm, [])])
        rows.append(row)
    heads = columns(
        ("arm", "arm", "text"), ("seeds", "seeds", "count"), ("flagged", "flagged", "count"),
        ("clean", "clean RMSE"), ("schema_drop", "schema-drop"),
        ("masked", "masked"), ("long_horizon", "worst horizon"), ("calibration", "calibration penalty"),
        ("command_ratio", "shuffled / true"), *((f"target_{key}", f"target {title}") for key, title in _TARGET.items()),
    )  # fmt: skip
    errors = tuple(f"target_{key}" for key in ("rmse", "mae", "crps", "nll"))
    lowest = (*RMSE_COMPONENTS, "calibration", *errors)
    caption = (
        f"{name}: source validation and target by arm, mean ± standard deviation over seeds; runs that the latent gate "
        "flagged count and are marked."
    )
    return ResultTable(f"ablation-{name}", caption, filled(heads, rows), tuple(rows), lowest=lowest)


def contrasts(found: Artefacts) -> list[Block]:
    """Every contrast of the study that has numbers."""
    study = found.study
    lines = [line for line in study.contrasts if line.mean == line.mean] if study else []
    blocks: list[Block] = []
    for name in dict.fromkeys(line.contrast for line in lines):
        blocks += _contrast(name, [line for line in lines if line.contrast == name])
    if study and study.held_out:
        blocks.append(machines_table(study.held_out))
    return blocks


def _contrast(name: str, lines: list[ContrastLine]) -> list[Block]:
    arms = list(dict.fromkeys(line.arm for line in lines))
    blocks: list[Block] = []
    flagged = [
        f"{line.arm} ({line.collapsed_seeds})" for line in lines if line.metric == "clean" and line.collapsed_seeds
    ]
    if flagged:
        blocks.append(
            Note(f"{name}: seeds that the latent gate flagged, which count here: {', '.join(flagged)}.", "fair")
        )
    clean = [line for line in lines if line.metric == "clean"]
    blocks += [contrast_figure(clean), contrast_table(clean)]
    blocks += [paired_table(lines, arms[0], arm) for arm in arms[1:]]
    return blocks
