"""A plan of overrides to read and to look at, as plan.json records it: totals, reasons, blocks, knobs and loads."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from crossfeed.configuration import recorded
from crossfeed.scenarios.measures import sample_quantiles
from crossfeed.show.figures import INK, XY, Band, Figure, Line
from crossfeed.show.tables import ResultTable, ShownByTables, columns, plain_table, significant

if TYPE_CHECKING:
    from crossfeed.control.score import Decision, Score

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
        told = []
        if not self.deadline["met"]:
            told.append(f"The given {self.deadline['within']:g} s cannot be met; this is the best that was found.")
        if not self.search_finished:
            told.append("The search ran out of time; this is the best found so far.")
        return told

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


def plan_figure(content: Mapping[str, Any], score: "Score", decision: "Decision") -> Figure:
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


def _loads(sensor: str, score: "Score", decision: "Decision", time: list[float], where: str) -> XY:
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
