"""A plan of overrides as plan.json records it, and as people read it: totals, reasons, NC blocks, knobs and loads."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from crossfeed.configuration import recorded
from crossfeed.control.score import Decision, Score
from crossfeed.control.task import deadline_met
from crossfeed.files import atomic_file
from crossfeed.scenarios.measures import Estimate, sample_quantiles
from crossfeed.show.figures import INK, XY, Band, Figure, Line
from crossfeed.show.tables import ResultTable, ShownByTables, columns, plain_table, significant

FORMAT = "crossfeed-control/1"
_SHOWN = 24  # blocks


@dataclass(frozen=True, repr=False)
class RecordedPlan(ShownByTables):
    """What plan.json says, as far as people read it."""

    program: str
    verdict: str
    seconds: Mapping[str, float]
    energy: Mapping[str, Any]
    gain: Mapping[str, Any]
    energy_saved: Mapping[str, Any]
    stretches: Mapping[str, int]
    deadline: Mapping[str, Any]
    blocks: list[dict[str, Any]]
    search_finished: bool = True
    task: Mapping[str, Any] = field(default_factory=dict)
    added_chance: float | None = None
    experience: Mapping[str, Any] | None = None
    rehearsal: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The plan") -> Self:
        """What plan.json holds; content that is none is refused."""
        return recorded(cls, content, origin, "a plan", "crossfeed control plan", "Plan again.")

    def tables(self) -> list[ResultTable]:
        """What it would bring, where it acts and why not elsewhere, and the blocks that last longest."""
        return [self._totals(), self._reasons(), self._longest_blocks()]

    def figures(self) -> list[Figure]:
        """The knob along the program."""
        edges = list(accumulate((row["seconds_as_written"] for row in self.blocks), initial=0.0))
        line = Line("feed override", edges[:-1], [100.0 * row["feed"] for row in self.blocks], 0, "step")
        panel = XY("feed override", "seconds of the program as written", "feed override [%]", (line,))
        return [Figure("decisions-knobs", "The knob along the program", (panel,))]

    @property
    def troubles(self) -> list[str]:
        """What keeps the plan from being the best one."""
        late = f"The given {self.deadline['within'] or 0.0:g} s cannot be met; this is the best that was found."
        unfinished = "The search ran out of time; this is the best found so far."
        return [*([] if self.deadline["met"] else [late]), *([] if self.search_finished else [unfinished])]

    def _totals(self) -> ResultTable:
        seconds, energy, saved, gain = self.seconds, self.energy, self.energy_saved, self.gain
        rows: list[list[Any]] = [
            ["time as written -> planned, s", f"{seconds['as_written']:.0f} -> {seconds['planned']:.0f}"],
            ["energy as written -> planned, Wh", f"{energy['as_written']:.1f} -> {energy['planned']:.1f}"],
            ["energy saved, 90 %, Wh", f"{saved['low']:.3g} to {saved['high']:.3g}"],
            ["gain with energy priced in, 90 %, s", f"{gain['low']:.3g} to {gain['high']:.3g}"],
            ["stretches acted in, left alone", f"{self.stretches['acted']}, {self.stretches['left_alone']}"],
        ]
        if self.added_chance is not None:
            allowed = f" (allowed: {100 * self.task['risk']:g} %)" if "risk" in self.task else ""
            rows.append(["added chance of passing a limit", f"{100.0 * self.added_chance:.1f} %{allowed}"])
        if self.experience:
            rows.append(["loads come from", _basis(self.experience)])
        if self.rehearsal:
            played, before, after = self.rehearsal, self.rehearsal["as_written"], self.rehearsal["planned"]
            rows += [
                [f"on {played['machine']}: time, s", f"{before['seconds']:.0f} -> {after['seconds']:.0f}"],
                [f"on {played['machine']}: energy, Wh", f"{before['energy']:.0f} -> {after['energy']:.0f}"],
                [f"on {played['machine']}: seconds above a limit", f"{before['passed']} -> {after['passed']}"],
                ["acting was right", f"{played['acted_rightly']} of {played['acted']}"],
                ["leaving alone was right", f"{played['left_rightly']} of {played['left_alone']}"],
            ]
        cells = tuple({"what": what, "value": value} for what, value in rows)
        heads = columns(("what", "", "text"), ("value", "value", "text"))
        return ResultTable("decisions-totals", "What it would bring", heads, cells)

    def _reasons(self) -> ResultTable:
        """Why, counted in seconds of the program."""
        spent: Counter[str] = Counter()
        for row in self.blocks:
            why = row["why"] if row["verdict"] == "as written" else ""
            spent[f"{row['verdict']}: {why}" if why else row["verdict"]] += row["seconds_as_written"]
        rows = tuple({"decision": reason, "seconds": f"{seconds:.0f}"} for reason, seconds in spent.most_common(8))
        heads = columns(("decision", "decision", "text"), ("seconds", "seconds as written"))
        return ResultTable("decisions-reasons", "Where it acted, and why not elsewhere", heads, rows)

    def _longest_blocks(self) -> ResultTable:
        longest = sorted(self.blocks, key=lambda row: -row["seconds_as_written"])[:_SHOWN]
        rows = []
        for row in sorted(longest, key=self.blocks.index):
            # Far below a limit's height nothing is told by how far: the loads to come are unknown.
            margin = "-" if row["margin"] is None else "none" if row["margin"] < -1.0 else f"{row['margin']:.0%}"
            times = (f"{row['seconds_as_written']:.0f}", f"{row['seconds']:.1f}")
            knobs = (f"{row['feed']:.0%}", significant(row["energy_saved"]), margin)
            rows.append([str(row["line"]), row["tool"], f"{row['verdict']}: {row['why']}", *times, *knobs])
        heads = ("line", "tool", "why", "s as written", "s", "feed", "saved Wh", "margin")
        caption = f"The {len(rows)} longest of {len(self.blocks)} NC blocks; all of them are in blocks.csv"
        return plain_table(caption, heads, rows, words=3, name="decisions-blocks")


def _basis(experience: Mapping[str, Any]) -> str:
    """Where the loads come from, and what the log can vouch for."""
    margins, runs = experience["margins"].values(), experience.get("runs", 0)
    source = f"{runs} earlier run{'s' if runs > 1 else ''}" if experience["basis"] == "earlier run" else "forecast"
    rows = min((margin["rows"] for margin in margins), default=0)
    if any(margin["margin"] is None for margin in margins):
        return f"{source} (only {rows} rows in the cut are known, too few to vouch for a limit)"
    return f"{source} ({rows} rows of the log vouch for the margins)"


def plan_content(score: Score, decision: Decision, finished: bool) -> dict[str, Any]:
    """Totals with intervals, the table by NC block, and what was decided how often."""
    timeline, knobs, task = score.forecast.timeline, (decision.feed_T, decision.spindle_T), score.task
    gain_ST, saved_ST = score.gains(*knobs)
    gain, ones = Estimate.of(gain_ST.sum(axis=1)), np.ones((1, len(timeline)))
    before, after = score.of(ones, ones), score.of(knobs[0][None], knobs[1][None])
    seconds, stretches = float(after.seconds_B[0]), len(decision.choices)
    acted = sum(choice.verdict != "as written" for choice in decision.choices)
    verdict = (
        f"Run it in {seconds:.0f} s instead of {timeline.seconds:.0f} s; with energy priced in that is worth "
        f"{gain.mean:.1f} s ({gain.low:.1f} to {gain.high:.1f})."
    )
    return {
        "seconds": {"as_written": timeline.seconds, "planned": seconds},
        "energy": {"as_written": float(before.energy_B[0]), "planned": float(after.energy_B[0]), "unit": "Wh"},
        "gain": {**asdict(gain), "unit": "s"},
        "energy_saved": {**asdict(Estimate.of(saved_ST.sum(axis=1))), "unit": "Wh"},
        "stretches": {"all": stretches, "acted": acted, "left_alone": stretches - acted},
        "added_chance": float(score.added(*knobs).sum()),
        "deadline": {"within": task.objective.within, "met": deadline_met(task, seconds)},
        "search_finished": finished,
        "verdict": verdict if acted else "Leave the program as it is: no change is surely better and safe.",
        "blocks": _blocks(score, decision, gain_ST, saved_ST),
        "law": {"exponent": score.law.exponent, "spread": score.law.spread, "idle": score.law.idle},
    }


def _blocks(score: Score, decision: Decision, gain_ST: np.ndarray, saved_ST: np.ndarray) -> list[dict[str, Any]]:
    """One row for each NC block that lasts: time, energy, peak, margin, and why."""
    timeline, knobs = score.forecast.timeline, (decision.feed_T, decision.spindle_T)
    taken_T, peaks, margin_T = timeline.taken(*knobs), score.peaks(*knobs), score.margins(*knobs)
    edges = [0, *(np.flatnonzero(np.diff(timeline.line_T)) + 1).tolist(), len(timeline)]
    rows = []
    for first, last in pairwise(edges):
        places = slice(first, last)
        met = [choice for choice in decision.choices if choice.first < last and choice.last >= first]
        spent: Counter[tuple[str, str]] = Counter()
        for choice in met:
            spent[choice.verdict, choice.why] += min(choice.last + 1, last) - max(choice.first, first)
        (verdict, why), _ = spent.most_common(1)[0]
        gain, saved = float(gain_ST[:, places].sum(axis=1).mean()), Estimate.of(saved_ST[:, places].sum(axis=1))
        if verdict == "faster" and len(met) > 1:
            why = f"saves {significant(gain)} s in {len(met)} stretches"
        rows.append(
            {
                "line": int(timeline.line_T[first]),
                "tool": timeline.tool_T[first],
                "seconds_as_written": (last - first) * timeline.period,
                "seconds": float(taken_T[places].sum()),
                "feed": float(decision.feed_T[places].mean()),
                "spindle": float(decision.spindle_T[places].mean()),
                "gain": gain,
                "energy_saved": saved.mean,
                "energy_saved_low": saved.low,
                "energy_saved_high": saved.high,
                "peaks": {name: float(load_T[places].max()) for name, load_T in peaks.items()},
                "margin": float(margin_T[places].min()),
                "verdict": verdict,
                "why": why,
            }
        )
    return rows


def write_tables(folder: Path, content: Mapping[str, Any], score: Score, decision: Decision) -> None:
    """schedule.csv, by the seconds on the wall, a row wherever a knob is turned; blocks.csv, one for each NC block."""
    import polars as pl

    timeline = score.forecast.timeline
    taken_T = timeline.taken(decision.feed_T, decision.spindle_T)
    knobs_T2 = np.round(100.0 * np.column_stack([decision.feed_T, decision.spindle_T]), 1)
    turned_T = np.append(True, (np.diff(knobs_T2, axis=0) != 0.0).any(axis=1))
    schedule = {
        "seconds": np.round(np.cumsum(taken_T) - taken_T, 2),
        "position": np.arange(len(timeline)) * timeline.period,
        "line": timeline.line_T,
        "tool": np.array(timeline.tool_T),
        "feed_percent": knobs_T2[:, 0],
        "spindle_percent": knobs_T2[:, 1],
    }
    rows = [dict(row) for row in content["blocks"]]
    blocks = [row | {f"peak_{name}": peak for name, peak in row.pop("peaks").items()} for row in rows]
    for name, frame in (
        ("schedule.csv", pl.DataFrame(schedule).filter(turned_T)),
        ("blocks.csv", pl.DataFrame(blocks, infer_schema_length=None)),
    ):
        with atomic_file(folder / name) as temporary:
            frame.write_csv(temporary, float_precision=6)


def plan_figure(content: Mapping[str, Any], score: Score, decision: Decision) -> Figure:
    """The knobs along the program, and every limited load as written and as planned."""
    timeline = score.forecast.timeline
    time = (np.arange(len(timeline)) * timeline.period).tolist()
    knobs = [Line("feed", time, (100.0 * decision.feed_T).tolist(), 0, "step")]
    if score.task.spindle.free:
        knobs.append(Line("spindle", time, (100.0 * decision.spindle_T).tolist(), 3, "step"))
    where = "position in the program as written, s"
    panels = [XY("overrides", where, "override in %", tuple(knobs), level=(100.0, "as written"))]
    panels += [
        _loads(sensor, score, decision, time, where) for sensor in list(score.highest) or list(score.forecast.paths)[:1]
    ]
    legend = (
        ("feed", 0, "line"), *((("spindle", 3, "line"),) if len(knobs) > 1 else ()),
        ("load as written, 90 %", INK, "band"), ("load planned, cautious", 0, "line"), ("limit", 1, "line"),
    )  # fmt: skip
    caption = f"{content['program']} on {content['history']['machine']}: {content['verdict']}"
    return Figure("plan", caption, tuple(panels), legend, stacked=len(panels))


def _loads(sensor: str, score: Score, decision: Decision, time: list[float], where: str) -> XY:
    low_T, middle_T, high_T = sample_quantiles(score.forecast.paths[sensor], (0.05, 0.5, 0.95))
    lines = [Line("as written", time, middle_T.tolist(), INK)]
    planned_T, top = score.peaks(decision.feed_T, decision.spindle_T).get(sensor), None
    if planned_T is not None:
        highest_T = np.where(np.isfinite(score.highest[sensor]), score.highest[sensor], np.nan)
        cutting_T = np.where(score.forecast.timeline.cutting, planned_T, np.nan)
        lines += [Line("planned", time, cutting_T.tolist(), 0), Line("limit", time, highest_T.tolist(), 1, "step")]
        top = 1.6 * float(np.nanmax(highest_T))
        # Braking spindles reach far below; what matters lies between nothing and the limit.
        low_T = np.maximum(low_T, -0.2 * top)
    band = Band("as written, 90 %", time, low_T.tolist(), high_T.tolist(), INK)
    unit = score.schema.channel(sensor).unit
    return XY(sensor.replace("_", " "), where, f"in {unit}", tuple(lines), (band,), highest=top)
