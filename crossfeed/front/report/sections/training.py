"""Training curves with the health of the latents, and the gate that keeps collapsed runs out of the ranking."""

from collections.abc import Mapping, Sequence
from typing import Any

from crossfeed.front.report.artefacts import Artefacts, RunFacts
from crossfeed.front.report.page import Block, Note
from crossfeed.front.report.study_facts import StudyFacts
from crossfeed.show.figures import XY, Dot, Dots, Figure, Line
from crossfeed.show.tables import ResultTable, columns

# Latents by what they are called in a figure, and their colours.
SIDES = {"context": ("context", 0), "target": ("teacher", 1), "predicted": ("predicted", 3)}
NO_LATENTS = "This network compares no latents with each other: there are no latents that could collapse."
_STAGES = {"pretrain": "Pretraining", "finetune": "Fine-tuning"}


def training(found: Artefacts) -> list[Block]:
    """How the shown run learned."""
    run = found.run
    if run is None or not run.history:
        return []
    has_latents = any(row.get("target_rank") is not None for row in run.history)
    blocks: list[Block] = [_losses(run), _health(run)] if has_latents else [_forecasts(run), Note(NO_LATENTS, "good")]
    if run.summary:
        blocks.append(_stages(run.name, run.summary))
    else:
        blocks.insert(0, Note(f"The run is under way: {len(run.history)} epochs so far.", "next"))
    return blocks


def _line(rows: Sequence[Mapping[str, Any]], key: str, name: str, colour: int, style: Any = "line") -> Line:
    return Line(name, [row["epoch"] + 1 for row in rows], [row.get(key) for row in rows], colour, style)


def _score_lines(rows: Sequence[Mapping[str, Any]]) -> tuple[Line, ...]:
    """The number that chooses the epoch, and the epoch that was kept."""
    kept = rows[rows[-1]["best_epoch"]]
    marked = Line("kept epoch", [kept["epoch"] + 1], [kept["score"]], 2, "points")
    return _line(rows, "score", "validation", 1), marked


def _losses(run: RunFacts) -> Figure:
    panels = []
    for stage, title in _STAGES.items():
        rows = [row for row in run.history if row["stage"] == stage]
        if not rows:
            continue
        known = (name for name, value in rows[0].items() if value is not None)
        terms = [name.removeprefix("train_") for name in known if name.startswith("train_")]
        wanted = ("physical", "latent") if stage == "finetune" else ("latent",)
        term = next((name for name in wanted if name in terms), terms[0])
        losses = (_line(rows, f"train_{term}", "training", 0), _line(rows, f"validation_{term}", "validation", 1))
        panels.append(XY(f"{title}: {term} loss", "epoch", "loss", losses))
        score = "validation RMSE (z-units)" if stage == "finetune" else "score (1 = a constant guess)"
        panels.append(XY(f"{title}: what decides", "epoch", score, _score_lines(rows)))
    legend = (("training", 0, "line"), ("validation", 1, "line"), ("kept epoch", 2, "points"))
    caption = (
        "Losses of both stages, and the number that chooses the epoch: the scale-free latent error in pretraining, "
        "the RMSE of the forecast in fine-tuning."
    )
    return Figure("training", caption, tuple(panels), legend)


def _forecasts(run: RunFacts) -> Figure:
    """Curves of a network that is trained for its forecasts alone."""
    rows = list(run.history)
    crps = [_line(rows, "train_crps", "training", 0), _line(rows, "crps", "validation", 1)]
    crps.append(_line(rows, "other_machine_crps", "as another machine", 3))
    shown = tuple(line for line in crps if any(value is not None for value in line.y))
    panels = (
        XY("CRPS", "epoch", "CRPS (z-units)", shown),
        XY("What decides", "epoch", "score", _score_lines(rows)),
        XY("RMSE", "epoch", "RMSE (z-units)", (_line(rows, "rmse", "validation", 1),)),
        XY("Learning rate", "epoch", "", (_line(rows, "learning_rate", "learning rate", 4),)),
    )
    legend = (
        ("training", 0, "line"), ("validation", 1, "line"), ("as another machine", 3, "line"),
        ("kept epoch", 2, "points"), ("learning rate", 4, "line"),
    )  # fmt: skip
    caption = (
        "Training windows are shown as other machines might show them and with sensors hidden, so their CRPS may lie "
        "above that of validation. What decides is the mean CRPS of the validation windows as they are and as another "
        "machine with fewer sensors might show them, or their RMSE, as training.keep says."
    )
    return Figure("training", caption, panels, legend)


def _health(run: RunFacts) -> Figure:
    rows = list(run.history)
    epochs = list(range(1, len(rows) + 1))
    floors = run.config.get("training", {}).get("health", {})
    switch = sum(row["stage"] == "pretrain" for row in rows)
    moment = switch + 0.5 if 0 < switch < len(rows) else None
    shown = {
        "rank": ("Effective rank of the latents", "share of the width", floors.get("rank_floor")),
        "varying": ("Part that varies between windows", "share", floors.get("varying_floor")),
        "relative_spread": ("Spread of the flattest coordinate", "over the median", floors.get("spread_floor")),
    }
    panels = []
    for key, (title, label, floor) in shown.items():
        lines = tuple(
            Line(name, epochs, [row.get(f"{side}_{key}") for row in rows], colour)
            for side, (name, colour) in SIDES.items()
            if any(row.get(f"{side}_{key}") is not None for row in rows)
        )
        level = (float(floor), "collapsed below") if floor else None
        panels.append(XY(title, "epoch, both stages", label, lines, level=level, moment=moment, from_zero=True))
    probe = Line("ridge probe", epochs, [row.get("probe_r2") for row in rows], 2)
    panels.append(XY("Linear probe from the latents", "epoch, both stages", "R²", (probe,), moment=moment))
    legend = (("context", 0, "line"), ("teacher", 1, "line"), ("predicted", 3, "line"), ("ridge probe", 2, "line"))
    caption = (
        "Health of the latents after every epoch. Lines should stay above the dotted floors; the vertical line is the "
        "change from pretraining to fine-tuning."
    )
    return Figure("latent-health", caption, tuple(panels), legend)


def _stages(run: str, summary: Mapping[str, Any]) -> ResultTable:
    rows = tuple(
        {
            "stage": _STAGES.get(stage, stage), "epochs": facts["epochs"], "kept": facts["best_epoch"] + 1,
            "score": facts["score"], "probe_r2": facts["probe_r2"], "target_rank": facts["target_rank"],
            "collapse": facts["collapse"] or "healthy", "seconds": facts["seconds"],
        }
        for stage, facts in summary["stages"].items()
    )  # fmt: skip
    latents = (("target_rank", "rank", "share"), ("probe_r2", "probe R²"), ("collapse", "latents", "text"))
    heads = columns(
        ("stage", "stage", "text"), ("epochs", "epochs", "count"), ("kept", "kept epoch", "count"), ("score", "score"),
        *(latents if any(row["target_rank"] is not None for row in rows) else ()), ("seconds", "time", "seconds"),
    )  # fmt: skip
    return ResultTable("training-stages", f"The stages of '{run}' and the epochs that were kept.", heads, rows)


def gate(found: Artefacts) -> list[Block]:
    """Every finished run of a study at the gate."""
    if found.study is None:
        return []
    health = found.study.protocol["config"]["training"]["health"]
    rows = _gate_rows(found.study, health)
    if not rows:
        return []
    out = [row["run"] for row in rows if row["gate"] == "out"]
    told = (
        f"{len(out)} of {len(rows)} finished runs entered no ranking: {', '.join(out)}."
        if out
        else f"All {len(rows)} finished runs passed."
    )
    return [Note(told, "fair" if out else "good"), *_gate_blocks(rows, health)]


def _gate_rows(study: StudyFacts, health: dict[str, Any]) -> list[dict[str, Any]]:
    """Every finished run: whether it passed, and what decided."""
    gated, rows = health["latents"][0], []
    for run in study.runs:
        if run.status not in ("finished", "invalid"):
            continue
        bundle = run.outcome.get("bundle", {})
        latents = bundle.get("health", {})
        invalid, flagged = run.outcome.get("invalid") or "", "; ".join(bundle.get("collapse_reasons") or [])
        rows.append(
            {
                "run": run.name, "gate": "out" if invalid else "flagged" if flagged else "passed",
                **{f"{side}_rank": latents.get(f"{side}_rank") for side in SIDES},
                "varying": latents.get(f"{gated}_varying"), "spread": latents.get(f"{gated}_{health['spread']}_spread"),
                "command_ratio": bundle.get("command_ratio"), "reason": invalid or flagged or "",
            }
        )  # fmt: skip
    return rows


def _gate_blocks(rows: list[dict[str, Any]], health: dict[str, Any]) -> list[Block]:
    """The ranks as a figure, where runs have latents, and all that was measured as a table."""
    gated = health["latents"][0]
    measured = [row for row in rows if row[f"{gated}_rank"] is not None]
    latents = (
        ("context_rank", "rank of context", "share"), ("target_rank", "of target", "share"),
        ("predicted_rank", "of predicted", "share"), ("varying", "varying"), ("spread", f"{health['spread']} spread"),
    )  # fmt: skip
    heads = columns(
        ("run", "run", "text"), ("gate", "gate", "text"), *(latents if measured else ()),
        ("command_ratio", "shuffled / true"), ("reason", "why", "text"),
    )  # fmt: skip
    blocks: list[Block] = []
    if measured:
        panel = Dots.single_series(
            f"Rank of the {gated} latents at the end", "share of the width", "run",
            {str(row["run"]): Dot(row[f"{gated}_rank"]) for row in measured}, reference=float(health["rank_floor"]),
        )  # fmt: skip
        caption = (
            "Rank after fine-tuning: left of the dotted line is collapsed. A run may be out for what happened in "
            "pretraining; the table says why."
        )
        blocks.append(Figure("collapse-gate", caption, (panel,)))
        told = (
            f"which looks at {' and '.join(health['latents'])} latents: ranks of all three after fine-tuning, varying "
            f"part and spread of the {gated} ones, and the error"
        )
    else:
        blocks.append(Note(NO_LATENTS, "good"))
        told = "by the error"
    caption = f"Every finished run at the gate, {told} under shuffled commands."
    blocks.append(ResultTable("collapse-gate", caption, heads, tuple(rows), folded=len(rows) > 12))
    return blocks
