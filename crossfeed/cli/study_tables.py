"""How a study is shown on a terminal."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from crossfeed.errors import ConfigError

if TYPE_CHECKING:
    from crossfeed.study.study import Study
    from crossfeed.study.verify import Verification


def _table(title: str, names: list[str], rows: list[list[Any]]) -> None:
    table = Table(title=title)
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console().print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4f}"
    return str(value)


def ranking(study: "Study", as_json: bool = False) -> None:
    """Candidates by the protocol's score, with the other score beside it."""
    from crossfeed.study.confirm import score_of
    from crossfeed.study.halving import pool
    from crossfeed.study.score import WEIGHTS, leaders_disagree

    lines = study.rank()
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
        return
    names = ["candidate", "robust", "paper", "seeds", "invalid", "collapsed", "weak", *WEIGHTS]
    counts = ("seeds", "invalid_seeds", "collapsed_seeds", "weak_seeds")
    rows = [
        [line.candidate, line.robust, line.paper, *(getattr(line, name) for name in counts), *line.components.values()]
        for line in lines
    ]
    halved = any(line.dropped_after for line in lines)
    if halved:
        names.insert(1, "dropped")
        for row, line in zip(rows, lines, strict=True):
            row.insert(1, "" if line.dropped_after is None else f"after {line.dropped_after}")
    _table(f"Ranked by the {score_of(study.protocol)} score (lower is better)", names, rows)
    if halved:
        Console().print("Dropped candidates are shown as they stood in their last rung: not comparable with the rest.")
    if rows and leaders_disagree(pool(study.store)):
        Console().print(
            "[yellow]The two scores crown different candidates:[/] look at the components before trusting either."
        )


def contrast_table(study: "Study", metric: str = "clean", as_json: bool = False) -> None:
    """Arms against their reference: differences, intervals over seeds, exact p values and the floor they can reach."""
    from crossfeed.study.contrast import METRICS

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
                "" if line.low is None else f"{line.low:+.4f} to {line.high:+.4f}",
                "" if line is chosen[0] else f"{line.wins} of {line.seeds}",
                line.p, line.p_holm, line.floor, line.collapsed_seeds,
            ]
            for line in chosen
        ]  # fmt: skip
        what = "calibration error" if metric == "calibration" else f"{metric} RMSE"
        _table(f"{title}: {what} against {chosen[0].arm} (negative differences favour the arm)", names, rows)
        for line in chosen[1:]:
            Console().print(f"{line.arm}: {line.verdict}", highlight=False)


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
    console = Console()
    counts = study.runs()["status"].value_counts().to_dicts() if study.store.runs() else []
    if as_json:
        facts = {name: study.protocol[name] for name in ("preset", "protocol_version")}
        runs = {row["status"]: row["count"] for row in counts}
        entries = [asdict(entry) for entry in study.ledger()]
        print(json.dumps({**facts, "runs": runs, "refusals": study.refusals(), "ledger": entries}, indent=2))
        return
    console.print(f"Protocol {study.protocol['preset']}, version {study.protocol['protocol_version']}")
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
    rows = [
        [name, *("-" if scores[key] is None else scores[key] for key in keys)]
        for name, scores in result["scores"].items()
    ]
    _table(f"Target: {result['windows']} windows of {len(result['runs'])} runs", names, rows)


def verification(found: "Verification", as_json: bool = False) -> None:
    """What verify found."""
    if as_json:
        print(json.dumps(asdict(found), indent=2))
        return
    console = Console(soft_wrap=True)
    for problem in found.problems:
        console.print(f"[red]changed:[/] {problem}")
    for remark in found.remarks:
        console.print(f"[yellow]note:[/] {remark}")
    console.print(f"{found.entries} ledger entries, head {found.head}")
    console.print("Nothing changed." if not found.problems else f"{len(found.problems)} problem(s).")
