"""What an advice says, as plain data (plan.json), as a schedule and as a table by NC block."""

import csv
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.atomic import atomic_file
from crossfeed.control.decision import Decision
from crossfeed.control.score import Score
from crossfeed.control.task import Task, deadline_met
from crossfeed.control.timeline import Timeline
from crossfeed.serving.measures import Estimate
from crossfeed.show.tables import significant

FORMAT = "crossfeed-control/1"


def advice_content(score: Score, decision: Decision, task: Task, finished: bool) -> dict[str, Any]:
    """Totals with intervals, the table by NC block, and what was decided how often."""
    timeline, knobs = score.forecast.timeline, (decision.feed_T, decision.spindle_T)
    gain_ST, saved_ST = score.gains(*knobs)
    ones = np.ones(len(timeline))
    before, after = score.of(ones[None], ones[None]), score.of(knobs[0][None], knobs[1][None])
    seconds = float(after.seconds_B[0])
    verdicts = [choice.verdict for choice in decision.choices]
    acted = sum(verdict != "as written" for verdict in verdicts)
    return {
        "seconds": {"as_written": timeline.seconds, "planned": seconds},
        "energy": {"as_written": float(before.energy_B[0]), "planned": float(after.energy_B[0]), "unit": "Wh"},
        "gain": {**asdict(Estimate.of(gain_ST.sum(axis=1))), "unit": "s"},
        "energy_saved": {**asdict(Estimate.of(saved_ST.sum(axis=1))), "unit": "Wh"},
        "stretches": {"all": len(verdicts), "acted": acted, "left_alone": len(verdicts) - acted},
        "added_chance": float(score.added(*knobs).sum()),
        "deadline": {"within": task.objective.within, "met": deadline_met(task, seconds)},
        "search_finished": finished,
        "verdict": _verdict(acted, gain_ST.sum(axis=1), timeline, seconds),
        "blocks": _blocks(score, decision, gain_ST, saved_ST),
        "law": {"exponent": score.law.exponent, "spread": score.law.spread, "idle": score.law.idle},
    }


def _verdict(acted: int, gain_S: np.ndarray, timeline: Timeline, seconds: float) -> str:
    if not acted:
        return "Leave the program as it is: no change is surely better and safe."
    estimate = Estimate.of(gain_S)
    return (
        f"Run it in {seconds:.0f} s instead of {timeline.seconds:.0f} s; with energy priced in that is worth "
        f"{estimate.mean:.1f} s ({estimate.low:.1f} to {estimate.high:.1f})."
    )


def _blocks(score: Score, decision: Decision, gain_ST: np.ndarray, saved_ST: np.ndarray) -> list[dict[str, Any]]:
    """One row for each NC block that lasts: time, energy, peak, margin, and why."""
    timeline, feed_T = score.forecast.timeline, decision.feed_T
    taken_T = timeline.taken(feed_T, decision.spindle_T)
    peaks, margin_T = score.peaks(feed_T, decision.spindle_T), score.margins(feed_T, decision.spindle_T)
    reason_T = np.empty(len(timeline), dtype=object)
    for choice in decision.choices:
        reason_T[choice.first : choice.last + 1] = [(choice.verdict, choice.why)] * (choice.last + 1 - choice.first)
    edges = np.flatnonzero(np.diff(timeline.line_T)) + 1
    rows = []
    for first, last in zip(np.append(0, edges), np.append(edges, len(timeline))):
        own = slice(int(first), int(last))
        reasons = [reason for reason in reason_T[own] if reason is not None]
        verdict, why = max(set(reasons), key=reasons.count)
        gain = float(gain_ST[:, own].sum(axis=1).mean())
        stretches = sum(choice.first < last and choice.last >= first for choice in decision.choices)
        if verdict == "faster" and stretches > 1:
            why = f"saves {significant(gain)} s in {stretches} stretches"
        saved = Estimate.of(saved_ST[:, own].sum(axis=1))
        rows.append(
            {
                "line": int(timeline.line_T[own.start]),
                "tool": timeline.tool_T[own.start],
                "seconds_as_written": (own.stop - own.start) * timeline.period,
                "seconds": float(taken_T[own].sum()),
                "feed": float(feed_T[own].mean()),
                "spindle": float(decision.spindle_T[own].mean()),
                "gain": gain,
                "energy_saved": saved.mean,
                "energy_saved_low": saved.low,
                "energy_saved_high": saved.high,
                "peaks": {name: float(load_T[own].max()) for name, load_T in peaks.items()},
                "margin": float(margin_T[own].min()),
                "verdict": verdict,
                "why": why,
            }
        )
    return rows


def write_schedule(path: Path, timeline: Timeline, decision: Decision) -> None:
    """The knobs over the seconds on the wall: one row wherever one of them is turned."""
    wall = np.concatenate([[0.0], np.cumsum(timeline.taken(decision.feed_T, decision.spindle_T))])
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["seconds", "position", "line", "tool", "feed_percent", "spindle_percent"])
        last = None
        for index in range(len(timeline)):
            knobs = (round(100.0 * decision.feed_T[index], 1), round(100.0 * decision.spindle_T[index], 1))
            if knobs != last:
                row = [
                    f"{wall[index]:.2f}",
                    f"{index * timeline.period:g}",
                    timeline.line_T[index],
                    timeline.tool_T[index],
                ]
                writer.writerow([*row, *knobs])
                last = knobs


def write_blocks(path: Path, content: Mapping[str, Any]) -> None:
    """The table by NC block as CSV."""
    sensors = sorted({name for row in content["blocks"] for name in row["peaks"]})
    plain_columns = [name for name in content["blocks"][0] if name != "peaks"]
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*plain_columns, *(f"peak_{name}" for name in sensors)])
        for row in content["blocks"]:
            cells = [row[name] for name in plain_columns] + [row["peaks"].get(name) for name in sensors]
            writer.writerow([f"{cell:.5g}" if isinstance(cell, float) else cell for cell in cells])
