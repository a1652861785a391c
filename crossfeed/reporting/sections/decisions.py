"""Decisions: what overrides would save, how surely, where the program was left alone, and whether that was right."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.panels import XY, Line


def sections(found: Artefacts) -> list[Section]:
    """One part for each recorded plan."""
    blocks: list[Block] = []
    for number, content in enumerate(found.decisions, start=1):
        if content.get("blocks"):
            blocks += _decision(content, "" if number == 1 else f"-{number}")
    lead = (
        "Overrides for a program under limits, only where the lower confidence bound of the gain is above 0 and "
        "no limit is in danger; elsewhere the program is left alone. Nothing was sent to a machine."
    )
    return section("decisions", "Decisions", lead, blocks)


def _decision(content: Mapping[str, Any], suffix: str) -> list[Block]:
    blocks: list[Block] = [Note(f"{content['program']}: {content['verdict']}", "good")]
    blocks += [Note(str(warning), "fair") for warning in content.get("warnings") or []]
    if not content["deadline"]["met"]:
        blocks.append(Note("The given time cannot be met; this is the best that was found.", "bad"))
    edges = np.concatenate([[0.0], np.cumsum([row["seconds_as_written"] for row in content["blocks"]])])
    feed = [100.0 * row["feed"] for row in content["blocks"]]
    line = Line("feed override", edges[:-1].tolist(), feed, 0, "step")
    panel = XY("feed override", "seconds of the program as written", "feed override [%]", (line,), ())
    blocks.append(Figure(f"decisions-knobs{suffix}", "The knob along the program", (panel,)))
    blocks.append(_totals(content, suffix))
    blocks.append(_reasons(content, suffix))
    return blocks


def _totals(content: Mapping[str, Any], suffix: str) -> ReportTable:
    seconds, energy, saved = content["seconds"], content["energy"], content["energy_saved"]
    rows: list[list[Any]] = [
        ["time as written -> planned, s", f"{seconds['as_written']:.0f} -> {seconds['planned']:.0f}"],
        ["energy as written -> planned, Wh", f"{energy['as_written']:.1f} -> {energy['planned']:.1f}"],
        ["energy saved, 90 %, Wh", f"{saved['low']:.3g} to {saved['high']:.3g}"],
        ["gain with energy priced in, 90 %, s", f"{content['gain']['low']:.3g} to {content['gain']['high']:.3g}"],
        ["stretches acted in, left alone", f"{content['stretches']['acted']}, {content['stretches']['left_alone']}"],
    ]
    if "added_chance" in content:
        rows.append(["added chance of passing a limit", f"{100.0 * content['added_chance']:.1f} %"])
    experience = content.get("experience")
    if experience:
        known = min((margin["rows"] for margin in experience["margins"].values()), default=0)
        rows.append(["loads come from", f"{experience['basis']} ({known} rows of the log vouch for the margins)"])
    played = content.get("rehearsal")
    if played:
        before, after = played["as_written"], played["planned"]
        rows += [
            [f"on {played['machine']}: time, s", f"{before['seconds']:.0f} -> {after['seconds']:.0f}"],
            [f"on {played['machine']}: seconds above a limit", f"{before['passed']} -> {after['passed']}"],
            ["acting was right", f"{played['acted_rightly']} of {played['acted']}"],
            ["leaving alone was right", f"{played['left_rightly']} of {played['left_alone']}"],
        ]
    cells = tuple({"what": what, "value": value} for what, value in rows)
    titles = columns(("what", "", "text"), ("value", "value", "text"))
    return ReportTable(f"decisions-totals{suffix}", "What it would bring", titles, cells)


def _reasons(content: Mapping[str, Any], suffix: str) -> ReportTable:
    """Why, counted in seconds of the program."""
    spent: Counter[str] = Counter()
    for row in content["blocks"]:
        why = row["why"] if row["verdict"] == "as written" else ""
        spent[f"{row['verdict']}: {why}" if why else row["verdict"]] += row["seconds_as_written"]
    rows = tuple({"decision": reason, "seconds": f"{seconds:.0f}"} for reason, seconds in spent.most_common(8))
    titles = columns(("decision", "decision", "text"), ("seconds", "seconds as written", "text"))
    return ReportTable(f"decisions-reasons{suffix}", "Where it acted, and why not elsewhere", titles, rows)
