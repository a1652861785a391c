"""Results on a terminal: their tables as the rooms give them, and the sentences that only a terminal needs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossfeed.cli.render.printing import next_step, note, print_json, print_result, print_table, say, say_absent, show
from crossfeed.errors import ConfigError
from crossfeed.evaluation.verdict import words
from crossfeed.progress import output
from crossfeed.show.tables import ResultTable, number, plain_table, plural

if TYPE_CHECKING:
    from polars import DataFrame

    from crossfeed.control.offpolicy import PolicyValue
    from crossfeed.evaluation.adaptation.result import AdaptationResult
    from crossfeed.evaluation.baselines.results import ComparisonTable
    from crossfeed.evaluation.bench.result import LearningCurve
    from crossfeed.evaluation.result import Evaluation
    from crossfeed.study.study import Study
    from crossfeed.study.verify import Verification
    from crossfeed.windows.audits.subject import AuditReport, Finding

_SEVERITY = {"violation": "bold red", "warning": "yellow"}


def show_evaluation(found: "Evaluation") -> None:
    """Print the headline, where the errors lie, every probe, and the verdict as the last word."""
    from crossfeed.evaluation.result_view import headline

    show(headline(found))
    if not found.naive_have_spread:
        say("The floors are points: give --source, the table the model was trained on, for their spread.")
    say_absent(found.absent_commands)
    if found.sensors_not_read:
        note(
            f"never met before, so not read: {', '.join(found.sensors_not_read)} (a model that began with fleet judges "
            "them with --new-sensors, and takes them in with `crossfeed adapt`)"
        )
    for name, reason in found.excluded.items():
        note(f"{name}: {reason}", "left out")
    for one in (one for rows in found.comparisons for one in rows):
        say(f"{one.first} against {one.second}: better in {one.wins} of {one.units} {found.unit}s, {one.verdict}")
    for model in found.models:
        show(*(table for table in found.tables(model) if table.name not in ("verdict", "headline")))
        say(*verdict_lines(found, model))


def verdict_lines(found: "Evaluation", model: str) -> list[str]:
    """The answer first, then each channel with its reasons."""
    from crossfeed.evaluation.result_view import TRUST, sentences

    verdict = found.verdict(model)
    rows = [f"  {one.channel}: {TRUST[one.light]}, {'; '.join(one.reasons)}" for one in verdict.channels]
    return [f"May it be trusted on {words(found.machines)}? {verdict.answer}", *sentences(found, model), *rows]


def show_adaptation(result: "AdaptationResult") -> None:
    """Print what was gained, and where the adapted models lie."""
    show(*result.tables())
    if result.sensors_taken_in:
        say(_taken_in(result))
    say_absent(result.absent_commands)
    say(*(f"model: {path}" for path in result.models))
    if not result.models:
        learned = result.few_shot is None or any(row.updates for row in result.few_shot.fractions)
        why = "give --out FOLDER to keep what was learned" if learned else "there was nothing to learn from"
        say(f"No model was kept: {why}.")


def _taken_in(result: "AdaptationResult") -> str:
    """The sensors that the model had never met, and how well it forecasts them before and after."""
    names = result.sensors_taken_in
    if result.few_shot is None:
        return f"Taken in, though never met before: {', '.join(names)}"
    before, after = result.few_shot.fractions[0].sensors, result.few_shot.fractions[-1].sensors
    told = (f"{name} {number(before[name])} -> {number(after[name])}" for name in names if name in before)
    return f"Taken in, though never met before (CRPS before and after): {', '.join(told) or ', '.join(names)}"


def show_comparison(table: "ComparisonTable", folder: Path) -> None:
    """Print one table for each set of windows, what has to be said beside it, and where everything was saved."""
    show(*table.tables(), boxed=False)
    say(f"Saved in {folder}: table.csv, table.json, table.md and one file for each run")


def show_curve(curve: "LearningCurve", folder: Path) -> None:
    """Print errors by minutes, then who overtakes the fleet, and where everything lies."""
    show(*curve.tables()[:-1], boxed=False)
    say(f"Saved in {folder}: curve.json, curve.csv, curve.md, curve.png, curve.svg")


def show_advice(content: Mapping[str, Any], files: Sequence[Path]) -> None:
    """Print the verdict, what it would bring, the blocks that matter most, and what speaks against it."""
    from crossfeed.control.plan_record import RecordedPlan

    plan = RecordedPlan.from_dict(content)
    say(f"{plan.program}: {plan.verdict}")
    show(*plan.tables())
    for text in (*plan.troubles, *plan.warnings):
        note(text, "warning")
    say(*(f"wrote {file}" for file in files))


def show_value(value: "PolicyValue", logged: float) -> None:
    """Print what a policy would have earned beside what was earned as logged."""
    earned = f"refused: {value.refused}"
    if value.value is not None:
        earned = f"a run earns {value.value:.4g} ({value.low:.4g} to {value.high:.4g} at 90 %)"
    say(f"{earned}; {value.effective:.1f} runs count, {value.clipped:.1%} of the weights were cut")
    say(f"as logged a run earned {logged:.4g}")


def show_headline(content: dict[str, Any], simulated: bool) -> None:
    """Print the last page of the demo: one table, best value of each column in bold, and what it does not say."""
    from crossfeed.demo.results import METRICS, sentences
    from crossfeed.show.tables import Column

    where = f"{content['windows']:,} windows of {content['runs']} runs" if content["locked"] else "source, test side"
    heads = [Column("name", "", "text"), *(Column(metric, title) for metric, title in METRICS.items())]
    rows = tuple({"name": name, **row} for name, row in content["rows"].items())
    lowest = tuple(metric for metric in METRICS if metric != "coverage90")
    show(ResultTable("headline", f"Judged on the {content['judged_on']}: {where}", tuple(heads), rows, lowest=lowest))
    say(*(f"- {sentence}" for sentence in sentences(content, simulated)))


def show_audit(report: "AuditReport") -> None:
    """Print every finding with its cause and remedy, notes on a line each, and what was checked."""
    from rich.padding import Padding
    from rich.text import Text

    console = output()
    for finding in (*report.violations, *report.warnings):
        severity = (finding.severity, _SEVERITY[finding.severity])
        console.print(Text.assemble(severity, f"  {finding.check}  {finding.subject}"))
        for label, text in (
            ("measured", finding.measured), ("means", finding.meaning), ("cause", finding.cause),
            ("to do", finding.remedy),
        ):  # fmt: skip
            console.print(Padding(Text.assemble((f"{label:<9}", "bold"), text), (0, 0, 0, 2), expand=False))
        console.print()
    notes = report.of("note")
    if notes:
        console.print("[dim]notes[/]")
        for (check, machine, measured), channels in _gathered(notes).items():
            where = machine + (f", {', '.join(channels)}" if channels else "")
            console.print(f"  {check}: {where}: {measured}", markup=False, style="dim")
        console.print()
    (table,) = report.tables()
    console.print(table.caption, markup=False, style="bold")
    say(*table.remarks)


def _gathered(notes: "Sequence[Finding]") -> dict[tuple[str, str, str], list[str]]:
    """Notes that say the same about several channels of a machine, with those channels."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in notes:
        machine, _, channel = one.subject.partition(": ")
        channels = found.setdefault((one.check, machine, one.measured), [])
        channels += [channel] if channel else []
    return found


def show_training(summary: dict[str, Any], model: Path) -> None:
    """Print the model beside its floors, what else to know about the run, and where its model lies."""
    from crossfeed.training.health import FLOORS

    validation = summary["validation"]
    shown = {"crossfeed": validation["model"], **{name: validation[name] for name in (*FLOORS, "shuffled commands")}}
    horizons = validation["model"]["rmse_by_horizon"]
    titles = {"RMSE": "rmse", "MAE": "mae", **{f"RMSE, {horizon} ahead": horizon for horizon in horizons}}
    titles |= {"NLL": "nll", "CRPS": "crps", "coverage of 90 %": "coverage90"}
    rows = [
        [title, *(scores["rmse_by_horizon"][key] if key in horizons else scores[key] for scores in shown.values())]
        for title, key in titles.items()
    ]
    show(plain_table(f"Source validation, {validation['windows']} windows, z-space", ["", *shown], rows))
    own, last = validation["model"]["rmse"], validation["persistence"]["rmse"]
    say(
        *remarks(summary),
        f"On sessions held out its RMSE is {number(own)}; repeating the last value has {number(last)}. Its 90 % "
        f"intervals hold {100 * validation['model']['coverage90']:.0f} % of what happened.",
        f"model: {model}",
    )


def remarks(summary: dict[str, Any]) -> Iterator[str]:
    """What else to know about the run, one remark a line."""
    from crossfeed.training.health import COLLAPSED

    for stage, facts in summary["stages"].items():
        line = f"{stage}: epoch {facts['best_epoch'] + 1} of {facts['epochs']} kept, score {facts['score']:.4g}, "
        if facts["target_rank"] is not None:
            line += f"rank of context {facts['context_rank']:.0%}, target {facts['target_rank']:.0%}, "
            line += f"predicted {facts['predicted_rank']:.0%}, ridge probe R2 {facts['probe_r2']:.3f}, "
        yield f"{line}{facts['seconds']:.0f} s"
        if facts["collapse"]:
            yield f"{stage}: latents collapsed ({facts['collapse']})"
    if any(facts["collapse"] for facts in summary["stages"].values()):
        yield COLLAPSED
    validation = summary["validation"]
    for machine, scores in validation["by_machine"].items():
        yield f"{machine}: RMSE {scores['rmse']:.3f} on {scores['windows']} validation windows"
    weak = ", below 1.02: the model hardly uses the commands" if validation["weak_command_use"] else ""
    yield f"shuffled commands cost a factor of {validation['shuffled_command_ratio']:.3f} in RMSE{weak}"


def show_ranking(study: "Study") -> None:
    """Candidates by the protocol's score, with the other score beside it."""
    from crossfeed.study.record.score import score_of
    from crossfeed.study.tables import ranking_tables

    tables = ranking_tables(study.rank(), score_of(study.protocol))
    if not tables:
        say("No run is finished yet, so there is nothing to rank.")
    show(*tables, boxed=False)


def show_arms(study: "Study", metric: str = "clean", as_json: bool = False) -> None:
    """What ready studies and declared ablations found: machines left out, arms against their reference."""
    from crossfeed.study.contrast import METRICS, comparisons
    from crossfeed.study.tables import contrast_table, machines_table

    held_out = study.held_out()
    if held_out and not any(comparisons(study.store)):
        print_result(held_out, as_json, lambda: show(machines_table(held_out), boxed=False))
        return
    if metric not in METRICS:
        raise ConfigError(f"There is no metric '{metric}' to contrast.", expected=f"one of {', '.join(METRICS)}")
    lines = study.contrasts()
    if as_json:
        print_json(lines)
        return
    for title in dict.fromkeys(line.contrast for line in lines):
        chosen = [line for line in lines if (line.contrast, line.metric) == (title, metric)]
        if chosen:
            show(contrast_table(chosen), boxed=False)
        else:
            say(f"{title}: these networks have no {metric}, because they have no latents.")


def show_runs(runs: "DataFrame") -> None:
    """Every run on a line."""
    if runs.is_empty():
        say("No run is planned yet.")
        return
    rows = [["" if value is None else value for value in row] for row in runs.rows()]
    print_table(plural(len(rows), "run"), runs.columns, rows, words=2)


def show_status(study: "Study", as_json: bool) -> None:
    """Counts, next steps, ledger."""
    counts = study.runs()["status"].value_counts().to_dicts() if study.store.runs() else []
    if as_json:
        facts = {name: study.protocol[name] for name in ("name", "protocol_version")}
        runs = {row["status"]: row["count"] for row in counts}
        print_json({**facts, "runs": runs, "refusals": study.refusals(), "ledger": study.ledger()})
        return
    say(f"Protocol {study.protocol['name']}, version {study.protocol['protocol_version']}")
    say("Runs: " + (", ".join(f"{row['count']} {row['status']}" for row in counts) or "none planned"))
    entries = [[entry.number, entry.time.replace("T", " ")[:19], entry.kind] for entry in study.ledger()]
    print_table("Ledger", ["entry", "time (UTC)", "what"], entries, words=3)
    if locks := study.store.entries("lock"):
        say(f"Locked: {locks[-1].content['run']}.")
    else:
        say(*(f"Cannot be locked now: {reason}." for reason in study.refusals()))
    say(f"Ledger head: {study.verify().head}")
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
    from crossfeed.evaluation.result import Evaluation
    from crossfeed.evaluation.result_view import headline

    found = Evaluation.from_dict(result, "The result of the opening")
    show(headline(found), boxed=False)
    say(*(f"* {name} was flagged by the latent gate: {why}" for name, why in result.get("flagged", {}).items()))
    if len(found.models) == 1:
        say(*verdict_lines(found, found.models[0]))


def show_verification(found: "Verification") -> None:
    """What verify found."""
    for problem in found.problems:
        output().print(f"[red]changed:[/] {problem}")
    for remark in found.remarks:
        note(remark)
    say(f"{plural(found.entries, 'ledger entry')}, head {found.head}")
    say("Nothing changed." if not found.problems else f"Problems: {len(found.problems)}.")
