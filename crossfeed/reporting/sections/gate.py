"""The gate that keeps collapsed runs out of the ranking."""

from typing import Any

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns
from crossfeed.reporting.panels import Dot, Dots
from crossfeed.reporting.sections.training import NO_LATENTS, SIDES
from crossfeed.reporting.study_facts import StudyFacts


def sections(found: Artefacts) -> list[Section]:
    """Every finished run of a study at the gate."""
    if found.study is None:
        return []
    gate = found.study.protocol["config"]["training"]["health"]
    rows = _rows(found.study, gate)
    if not rows:
        return []
    out = [row["run"] for row in rows if row["gate"] == "out"]
    told = (
        f"{len(out)} of {len(rows)} finished runs entered no ranking: {', '.join(out)}."
        if out
        else f"All {len(rows)} finished runs passed."
    )
    lead = (
        "A run whose latents collapsed in pretraining, whose loss was no number or whose saved file does not repeat "
        "its numbers is kept out; a collapse after fine-tuning is flagged and costs points."
    )
    blocks = (Note(told, "fair" if out else "good"), *_blocks(rows, gate))
    return [Section("gate", "Collapse gate", lead, blocks)]


def _rows(study: StudyFacts, gate: dict[str, Any]) -> list[dict[str, Any]]:
    """Every finished run: whether it passed, and what decided."""
    gated, rows = gate["latents"][0], []
    for run in study.runs:
        if run.status not in ("finished", "invalid"):
            continue
        bundle = run.outcome.get("bundle", {})
        health = bundle.get("health", {})
        invalid, flagged = run.outcome.get("invalid") or "", "; ".join(bundle.get("collapse_reasons") or [])
        rows.append(
            {
                "run": run.name, "gate": "out" if invalid else "flagged" if flagged else "passed",
                **{f"{side}_rank": health.get(f"{side}_rank") for side in SIDES},
                "varying": health.get(f"{gated}_varying"), "spread": health.get(f"{gated}_{gate['spread']}_spread"),
                "command_ratio": bundle.get("command_ratio"), "reason": invalid or flagged or "",
            }
        )  # fmt: skip
    return rows


def _blocks(rows: list[dict[str, Any]], gate: dict[str, Any]) -> list[Block]:
    """The ranks as a figure, where runs have latents, and all that was measured as a table."""
    gated = gate["latents"][0]
    measured = [row for row in rows if row[f"{gated}_rank"] is not None]
    latents = (
        ("context_rank", "rank of context", "share"), ("target_rank", "of target", "share"),
        ("predicted_rank", "of predicted", "share"), ("varying", "varying"), ("spread", f"{gate['spread']} spread"),
    )  # fmt: skip
    heads = columns(
        ("run", "run", "text"), ("gate", "gate", "text"), *(latents if measured else ()),
        ("command_ratio", "shuffled / true"), ("reason", "why", "text"),
    )  # fmt: skip
    blocks: list[Block] = []
    if measured:
        panel = Dots.single_series(
            f"Rank of the {gated} latents at the end", "share of the width", "run",
            {str(row["run"]): Dot(row[f"{gated}_rank"]) for row in measured}, reference=float(gate["rank_floor"]),
        )  # fmt: skip
        caption = (
            "Rank after fine-tuning: left of the dotted line is collapsed. A run may be out for what happened in "
            "pretraining; the table says why."
        )
        blocks.append(Figure("collapse-gate", caption, (panel,)))
        told = (
            f"which looks at {' and '.join(gate['latents'])} latents: ranks of all three after fine-tuning, varying "
            f"part and spread of the {gated} ones, and the error"
        )
    else:
        blocks.append(Note(NO_LATENTS, "good"))
        told = "by the error"
    caption = f"Every finished run at the gate, {told} under shuffled commands."
    blocks.append(ReportTable("collapse-gate", caption, heads, tuple(rows), folded=len(rows) > 12))
    return blocks
