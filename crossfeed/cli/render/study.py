"""How a study is shown on a terminal."""

from typing import TYPE_CHECKING, Any

from crossfeed.cli.render.grid import next_step, print_json, print_table
from crossfeed.grid import plural
from crossfeed.progress import output

if TYPE_CHECKING:
    from polars import DataFrame

    from crossfeed.study.record.score import CandidateScore
    from crossfeed.study.study import Study
    from crossfeed.study.verify import Verification

SHORT = {
    "clean": "clean", "schema_drop": "drop", "masked": "masked", "long_horizon": "worst", "calibration": "calib.",
    "ssl": "ssl",
}  # fmt: skip


def show_ranking(study: "Study") -> None:
    """Candidates by the protocol's score, with the other score beside it."""
    from crossfeed.study.record.rules import score_of
    from crossfeed.study.record.score import leaders_disagree

    lines = study.rank()
    if not lines:
        output().print("No run is finished yet, so there is nothing to rank.")
        return
    shown = list(lines[0].components)
    names = ["candidate", "robust", "paper", "seeds", "flags", *(SHORT[name] for name in shown)]
    rows = [
        [line.candidate, line.robust, line.paper, line.seeds, _flags(line), *line.components.values()] for line in lines
    ]
    if not any(row[4] for row in rows):
        names, rows = names[:4] + names[5:], [row[:4] + row[5:] for row in rows]
    print_table(f"Ranked by the {score_of(study.protocol)} score (lower is better)", names, rows)
    if "ssl" not in shown:
        output().print("This network has no latents, so no self-supervised component; the others share its weight.")
    halved = any(line.dropped_after for line in lines)
    if halved:
        output().print("Dropped candidates are shown as they stood in their last rung: not comparable with the rest.")
    if leaders_disagree([line for line in lines if line.dropped_after is None]):
        output().print(
            "[yellow]The two scores crown different candidates:[/] look at the components before trusting either."
        )


def _flags(line: "CandidateScore") -> str:
    """What speaks against a candidate, in a few letters."""
    counts = {"invalid": line.invalid_seeds, "collapsed": line.collapsed_seeds, "weak": line.weak_seeds}
    flags = [f"{count} {name}" for name, count in counts.items() if count]
    return ", ".join(flags + ([f"dropped after {line.dropped_after}"] if line.dropped_after else []))


def show_runs(runs: "DataFrame") -> None:
    """Every run on a line."""
    if runs.is_empty():
        output().print("No run is planned yet.")
        return
    rows = [["" if value is None else value for value in row] for row in runs.rows()]
    print_table(plural(len(rows), "run"), runs.columns, rows, words=2)


def show_status(study: "Study", as_json: bool) -> None:
    """Counts, next steps, ledger."""
    console = output()
    counts = study.runs()["status"].value_counts().to_dicts() if study.store.runs() else []
    if as_json:
        facts = {name: study.protocol[name] for name in ("name", "protocol_version")}
        runs = {row["status"]: row["count"] for row in counts}
        print_json({**facts, "runs": runs, "refusals": study.refusals(), "ledger": study.ledger()})
        return
    console.print(f"Protocol {study.protocol['name']}, version {study.protocol['protocol_version']}")
    console.print("Runs: " + (", ".join(f"{row['count']} {row['status']}" for row in counts) or "none planned"))
    entries = [[entry.number, entry.time.replace("T", " ")[:19], entry.kind] for entry in study.ledger()]
    print_table("Ledger", ["entry", "time (UTC)", "what"], entries, words=3)
    if locks := study.store.entries("lock"):
        console.print(f"Locked: {locks[-1].content['run']}.")
    else:
        for reason in study.refusals():
            console.print(f"Cannot be locked now: {reason}.")
    console.print(f"Ledger head: {study.verify().head}")
    show_next(study)


def show_next(study: "Study") -> None:
    """The step of the protocol that can be taken now."""
    from crossfeed.study.record.lockable import refusals
    from crossfeed.study.record.store import UNFINISHED

    folder, kinds = study.store.folder, {entry.kind for entry in study.ledger()}
    statuses = {run.status for run in study.store.runs()}
    if not statuses:
        next_step("study", "search", folder)
    elif statuses & set(UNFINISHED):
        next_step("study", "search", folder, "--planned")
    elif "lock" not in kinds:
        found = refusals(study.store)
        steps = [refusal.step for refusal in found if refusal.step] or [("confirm",)]
        command, *options = steps[0] if found else ("lock",)
        next_step("study", command, folder, *options)
    elif study.protocol["vault"] and "opening result" not in kinds:
        next_step("study", "unseal", folder)
    else:
        next_step("report", folder)


def show_target_result(result: dict[str, Any]) -> None:
    """The sealed pass beside its floors, and where one model was opened, the verdict on it."""
    from crossfeed.cli.render.evaluation import verdict_lines
    from crossfeed.evaluation.result import Evaluation

    names = ["target", "RMSE", "MAE", "R2", "CRPS", "NLL", "coverage 90 %"]
    keys = ("rmse", "mae", "r2", "crps", "nll", "coverage90")
    flagged = result.get("flagged", {})
    rows = [
        [f"{name} *" if name in flagged else name, *(scores[key] for key in keys)]
        for name, scores in result["scores"].items()
    ]
    where = f"{plural(result['windows'], 'window')} of {plural(len(result['runs']), 'run')}"
    print_table(f"Target: {where}", names, rows)
    for name, reason in flagged.items():
        output().print(f"* {name} was flagged by the latent gate: {reason}", highlight=False)
    found = Evaluation.from_dict(result, "The result of the opening")
    if len(found.models) == 1:
        output().print("\n".join(verdict_lines(found, found.models[0])), markup=False, soft_wrap=True)


def show_verification(found: "Verification") -> None:
    """What verify found."""
    console = output()
    for problem in found.problems:
        console.print(f"[red]changed:[/] {problem}")
    for remark in found.remarks:
        console.print(f"[yellow]note:[/] {remark}")
    console.print(f"{plural(found.entries, 'ledger entry')}, head {found.head}")
    console.print("Nothing changed." if not found.problems else f"Problems: {len(found.problems)}.")
