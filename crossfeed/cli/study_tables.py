"""How a study is shown on a terminal."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from crossfeed.errors import ConfigError
from crossfeed.progress import output

if TYPE_CHECKING:
    from crossfeed.study.score import CandidateScore
    from crossfeed.study.study import Study
    from crossfeed.study.verify import Verification

SHORT = {
    "clean": "clean", "schema_drop": "drop", "masked": "masked", "long_horizon": "worst", "calibration": "calib.",
    "ssl": "ssl",
}  # fmt: skip


def _table(title: str, names: list[str], rows: list[list[Any]]) -> None:
    """Numbers are never cut: on a narrow terminal the first column folds; a pipe gets as much room as it needs."""
    console = output()
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    for number, name in enumerate(names):
        wide = max([len(name), *(len(_cell(row[number])) for row in rows)])
        fixed = {"no_wrap": True, "min_width": wide} if number else {"overflow": "fold"}
        table.add_column(name, justify="right" if number else "left", **fixed)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.3f}"
    return str(value)


def ranking(study: "Study", as_json: bool = False) -> None:
    """Candidates by the protocol's score, with the other score beside it."""
    from crossfeed.study.confirm import score_of
    from crossfeed.study.halving import pool
    from crossfeed.study.score import leaders_disagree

    lines = study.rank()
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
        return
    shown = list(lines[0].components) if lines else []
    names = ["candidate", "robust", "paper", "seeds", "flags", *(SHORT[name] for name in shown)]
    rows = [
        [line.candidate, line.robust, line.paper, line.seeds, _flags(line), *line.components.values()] for line in lines
    ]
    if not any(row[4] for row in rows):
        names, rows = names[:4] + names[5:], [row[:4] + row[5:] for row in rows]
    _table(f"Ranked by the {score_of(study.protocol)} score (lower is better)", names, rows)
    if lines and "ssl" not in shown:
        output().print("This network has no latents, so no self-supervised component; the others share its weight.")
    halved = any(line.dropped_after for line in lines)
    if halved:
        output().print("Dropped candidates are shown as they stood in their last rung: not comparable with the rest.")
    if rows and leaders_disagree(pool(study.store)):
        output().print(
            "[yellow]The two scores crown different candidates:[/] look at the components before trusting either."
        )


def _flags(line: "CandidateScore") -> str:
    """What speaks against a candidate, in a few letters."""
    counts = {"invalid": line.invalid_seeds, "collapsed": line.collapsed_seeds, "weak": line.weak_seeds}
    flags = [f"{count} {name}" for name, count in counts.items() if count]
    return ", ".join(flags + ([f"dropped after {line.dropped_after}"] if line.dropped_after else []))


def arms_table(study: "Study", metric: str = "clean", as_json: bool = False) -> None:
    """What ready studies and declared ablations found: machines left out, arms against their reference."""
    from crossfeed.study.contrast import comparisons

    strangers = study.strangers()
    if not strangers or any(comparisons(study.store)):
        _contrast_table(study, metric, as_json)
        return
    if as_json:
        print(json.dumps([line.to_json() for line in strangers], indent=2))
        return
    names = ["machine", "never seen", "sd", "in training", "difference", "last value", "better than it", "in 90 %"]
    rows = [
        [
            line.machine, line.stranger, line.stranger_spread, line.trained, line.difference, line.persistence,
            f"{line.beats_persistence} of {line.seeds}", line.coverage90, line.leakage,
        ]
        for line in strangers
    ]  # fmt: skip
    _table("leave-one-out: RMSE of each machine on its validation side", [*names, "leakage"], rows)


def _contrast_table(study: "Study", metric: str, as_json: bool) -> None:
    """Arms against their reference: differences, intervals over seeds, exact p values and the floor they can reach."""
    from crossfeed.study.contrast import HIGHER_IS_BETTER, METRICS

    if metric not in METRICS:
        raise ConfigError(f"There is no metric '{metric}' to contrast.", expected=f"one of {', '.join(METRICS)}")
    lines = study.contrasts()
    if as_json:
        print(json.dumps([line.to_json() for line in lines], indent=2))
        return
    names = ["arm", "mean", "sd", "difference", "95 % over seeds", "better", "p", "Holm", "floor", "collapsed"]
    for title in dict.fromkeys(line.contrast for line in lines):
        chosen = [line for line in lines if (line.contrast, line.metric) == (title, metric)]
        rows = [
            [
                line.arm, line.mean, line.deviation, line.difference,
                "" if line.low is None else f"{line.low:+.3f} to {line.high:+.3f}",
                "" if line is chosen[0] else f"{line.wins} of {line.seeds}",
                line.p, line.p_holm, line.floor, line.collapsed_seeds,
            ]
            for line in chosen
        ]  # fmt: skip
        sign = "positive" if metric in HIGHER_IS_BETTER else "negative"
        _table(f"{title}: {metric} against {chosen[0].arm} ({sign} differences favour the arm)", names, rows)
        for line in chosen[1:]:
            output().print(f"{line.arm}: {line.verdict}", highlight=False)


def run_table(study: "Study", as_json: bool = False) -> None:
    """Every run on a line."""
    frame = study.runs()
    if as_json:
        print(json.dumps(frame.to_dicts(), indent=2))
        return
    rows = [["" if value is None else value for value in row.values()] for row in frame.to_dicts()]
    _table(f"{len(rows)} runs", frame.columns, rows)


def one_run(study: "Study", name: str) -> None:
    """Configuration and outcome of one run."""
    run = next((run for run in study.store.runs() if run.name == name), None)
    if run is None:
        raise ConfigError(f"The study has no run named '{name}'.", remedy="List them with crossfeed study runs.")
    print(json.dumps(asdict(run), indent=2))


def standing(study: "Study", as_json: bool = False) -> None:
    """Counts, next steps, ledger."""
    console = output()
    counts = study.runs()["status"].value_counts().to_dicts() if study.store.runs() else []
    if as_json:
        facts = {name: study.protocol[name] for name in ("name", "protocol_version")}
        runs = {row["status"]: row["count"] for row in counts}
        entries = [asdict(entry) for entry in study.ledger()]
        print(json.dumps({**facts, "runs": runs, "refusals": study.refusals(), "ledger": entries}, indent=2))
        return
    console.print(f"Protocol {study.protocol['name']}, version {study.protocol['protocol_version']}")
    console.print("Runs: " + (", ".join(f"{row['count']} {row['status']}" for row in counts) or "none planned"))
    _table("Ledger", ["entry", "time", "what"], [[entry.number, entry.time, entry.kind] for entry in study.ledger()])
    for reason in study.refusals():
        console.print(f"Cannot be locked now: {reason}.")
    console.print(f"Ledger head: {study.verify().head}")


def target_result(result: dict[str, Any], as_json: bool = False) -> None:
    """The sealed pass beside its floors."""
    if as_json:
        print(json.dumps(result, indent=2))
        return
    names = ["target", "RMSE", "MAE", "R2", "CRPS", "NLL", "coverage 90 %"]
    keys = ("rmse", "mae", "r2", "crps", "nll", "coverage90")
    flagged = result.get("flagged", {})
    rows = [
        [f"{name} *" if name in flagged else name, *("-" if scores[key] is None else scores[key] for key in keys)]
        for name, scores in result["scores"].items()
    ]
    _table(f"Target: {result['windows']} windows of {len(result['runs'])} runs", names, rows)
    for name, reason in flagged.items():
        output().print(f"* {name} was flagged by the latent gate: {reason}", highlight=False)


def verification(found: "Verification", as_json: bool = False) -> None:
    """What verify found."""
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    console = output()
    for problem in found.problems:
        console.print(f"[red]changed:[/] {problem}")
    for remark in found.remarks:
        console.print(f"[yellow]note:[/] {remark}")
    console.print(f"{found.entries} ledger entries, head {found.head}")
    console.print("Nothing changed." if not found.problems else f"{len(found.problems)} problem(s).")
