"""What an advice says, in files for a person: plan.json, schedule, table by NC block, picture, copy of the program.

The copy has changed F words, each marked by a comment; it is read back and every feed of it compared with what was
wanted before it is kept. The original is only read.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.score import Decision, Score
from crossfeed.control.task import Task, deadline_met
from crossfeed.control.timeline import Timeline
from crossfeed.errors import ProgramError
from crossfeed.files import atomic_file
from crossfeed.programs.blocks import Move, Program
from crossfeed.programs.parse import parse_program, read_program
from crossfeed.scenarios.measures import Estimate, sample_quantiles
from crossfeed.show.figures import COLOURS, new_figure, save_figure
from crossfeed.show.tables import significant

FORMAT = "crossfeed-control/1"
_SHADES = {"faster": COLOURS[2], "slower": COLOURS[1]}
_F_WORD = re.compile(r"(?<![A-Z0-9_])F\s*(?:=\s*[A-Z_][A-Z0-9_]*|=?\s*(?:\d+\.?\d*|\.\d+))", re.IGNORECASE)
# Lines whose feeds are arguments or belong to cycles; those stay as they are.
_OTHER = re.compile(r"CYCLE|MCALL|POCKET|HOLES|SLOT|REPEAT|\bG0*(?:73|74|76|8[1-9])\b|\bG0*4\b", re.IGNORECASE)
_SAME = 5e-3  # a feed nearer to the old one than this share is not worth a changed word


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
        places = slice(int(first), int(last))
        reasons = [reason for reason in reason_T[places] if reason is not None]
        verdict, why = max(set(reasons), key=reasons.count)
        gain = float(gain_ST[:, places].sum(axis=1).mean())
        stretches = sum(choice.first < last and choice.last >= first for choice in decision.choices)
        if verdict == "faster" and stretches > 1:
            why = f"saves {significant(gain)} s in {stretches} stretches"
        saved = Estimate.of(saved_ST[:, places].sum(axis=1))
        rows.append(
            {
                "line": int(timeline.line_T[places.start]),
                "tool": timeline.tool_T[places.start],
                "seconds_as_written": (places.stop - places.start) * timeline.period,
                "seconds": float(taken_T[places].sum()),
                "feed": float(feed_T[places].mean()),
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


def draw_advice(path: Path | str, content: Mapping[str, Any], score: Score, decision: Decision) -> None:
    """Write the figure as PNG, SVG or PDF."""
    timeline = score.forecast.timeline
    time_T = np.arange(len(timeline)) * timeline.period
    sensors = list(score.highest) or list(score.forecast.paths)[:1]
    with new_figure(11.0, 2.6 + 2.1 * len(sensors)) as figure:
        axes = figure.subplots(1 + len(sensors), 1, sharex=True, squeeze=False)[:, 0]
        top: Any = axes[0]
        top.step(time_T, 100.0 * decision.feed_T, where="post", label="feed", color=COLOURS[0], linewidth=1.5)
        if score.task.spindle.free:
            top.step(time_T, 100.0 * decision.spindle_T, where="post", label="spindle", color=COLOURS[3])
        top.axhline(100.0, color="#888888", linewidth=0.8)
        top.set_ylabel("override in %")
        _shade(top, decision, timeline.period)
        top.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        top.set_title(f"{content['program']} on {content['history']['machine']}: {content['verdict']}", loc="left")
        for panel, sensor in zip(axes[1:], sensors):
            _loads(panel, sensor, score, decision, time_T)
        axes[-1].set_xlabel("position in the program as written, s")
        save_figure(figure, path)


def _shade(axes: Any, decision: Decision, period: float) -> None:
    """Behind the knobs: where it acts, and to which end."""
    named: set[str] = set()
    for choice in decision.choices:
        if choice.verdict in _SHADES:
            label = None if choice.verdict in named else choice.verdict
            named.add(choice.verdict)
            ends = (choice.first * period, (choice.last + 1) * period)
            axes.axvspan(*ends, color=_SHADES[choice.verdict], alpha=0.15, linewidth=0, label=label)


def _loads(axes: Any, sensor: str, score: Score, decision: Decision, time_T: np.ndarray) -> None:
    path_ST = score.forecast.paths[sensor]
    low_T, middle_T, high_T = sample_quantiles(path_ST, (0.05, 0.5, 0.95))
    axes.fill_between(time_T, low_T, high_T, color="#444444", alpha=0.18, linewidth=0, label="as written, 90 %")
    axes.plot(time_T, middle_T, color="#444444", label="as written")
    planned = score.peaks(decision.feed_T, decision.spindle_T).get(sensor)
    if planned is not None:
        shown_T = np.where(score.forecast.timeline.cutting, planned, np.nan)
        axes.plot(time_T, shown_T, color=COLOURS[0], label="planned, cautious")
        highest_T = score.highest[sensor]
        axes.step(
            time_T, np.where(np.isfinite(highest_T), highest_T, np.nan), where="post", color=COLOURS[1], label="limit"
        )
        top = float(np.nanmax(np.where(np.isfinite(highest_T), highest_T, np.nan)))
        # Braking spindles reach far below; what matters lies between nothing and the limit.
        axes.set_ylim(bottom=max(min(0.0, float(low_T.min())), -0.3 * top), top=1.6 * top)
    axes.set_ylabel(f"{sensor}\nin {score.schema.channel(sensor).unit}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)


def changed_program(original: Path, copy: Path, timeline: Timeline, decision: Decision) -> dict[str, Any]:
    """Write the copy and say how many lines were changed and which had to stay."""
    if copy.resolve() == original.resolve():
        raise ProgramError(f"The copy would replace {original.name}.", expected="another file name")
    program, text = read_program(original), original.read_text(encoding="utf-8", errors="replace")
    factor = _factors(program, timeline, decision)
    lines, changed, left = _rewritten(text.splitlines(), program, factor, original.suffix.lower())
    result = "\n".join(lines) + "\n"
    _check(parse_program(result, program.name), program, factor, set(left))
    with atomic_file(copy) as temporary:
        temporary.write_text(result, encoding="utf-8")
    return {"file": copy.name, "changed_lines": changed, "left_lines": left}


def _factors(program: Program, timeline: Timeline, decision: Decision) -> dict[int, float]:
    """The factor of every line with feed moves: that of its places, the lowest where it is passed more than once."""
    lines = [move.line for move in program.moves if move.feed is not None]
    met: dict[int, list[float]] = {}
    for line, feed in zip(timeline.line_T.tolist(), decision.feed_T.tolist()):
        met.setdefault(line, []).append(feed)
    factors, before = {}, 1.0
    for line in dict.fromkeys(lines):
        # A line too short to have a place of its own goes on as the one before it.
        before = float(np.min(met[line])) if line in met else before
        factors[line] = before
    return factors


def _rewritten(
    lines: list[str], program: Program, factor: dict[int, float], kind: str
) -> tuple[list[str], int, list[int]]:
    """The text with the feed said on every line where it is not the one in force."""
    feeds = {move.line: move for move in program.moves if move.feed is not None}
    executed = [block.line for block in program.blocks]
    loops = any(later < earlier for earlier, later in pairwise(executed))
    changed, left, in_force = 0, [], None
    out = list(lines)
    for number in sorted(factor):
        move, text = feeds[number], lines[number - 1]
        code, comment = _split(text)
        assert move.feed is not None
        if _OTHER.search(code) or move.per_revolution:
            if abs(factor[number] - 1.0) > _SAME:
                left.append(number)
            in_force = None
            continue
        wanted = move.feed * (factor[number] if abs(factor[number] - 1.0) > _SAME else 1.0)
        f_word = _F_WORD.search(code)
        if not f_word and not loops and in_force is not None and abs(wanted / in_force - 1.0) < 1e-6:
            continue
        if f_word and abs(wanted / move.feed - 1.0) < 1e-9:
            in_force = wanted
            continue
        if not f_word and in_force is None and abs(wanted / move.feed - 1.0) < 1e-9 and not changed:
            continue
        word = f"F{round(wanted, 1):g}" if wanted < 1e5 else f"F{wanted:.0f}"
        code = f"{code[: f_word.start()]}{word}{code[f_word.end() :]}" if f_word else f"{code.rstrip()} {word}"
        old = f_word[0] if f_word else f"F{move.feed:g} in force"
        note = f"crossfeed: {old} -> {word}"
        note = f"({note.replace('(', '').replace(')', '')})" if kind in (".nc", ".iso", ".ngc") else f"; {note}"
        out[number - 1] = f"{code.rstrip()} {comment + ' ' if comment else ''}{note}"
        in_force, changed = wanted, changed + 1
    return out, changed, left


def _split(text: str) -> tuple[str, str]:
    """Code and comment of a line."""
    at = text.find(";")
    bracket = re.search(r"\([^=]*\)\s*$", text)
    if (
        bracket
        and "MSG" not in text.upper()
        and (at < 0 or bracket.start() < at)
        and not re.search(r"\w\($", text[: bracket.start() + 1])
    ):
        at = bracket.start()
    return (text, "") if at < 0 else (text[:at].rstrip(), text[at:].strip())


def _check(copy: Program, program: Program, factor: dict[int, float], left: set[int]) -> None:
    """Refuse a copy that moves otherwise than the original or feeds otherwise than wanted."""
    old, new = program.moves, copy.moves
    same = len(old) == len(new) and all(_path(a) == _path(b) for a, b in zip(old, new))
    wrong = [] if not same else [a.line for a, b in zip(old, new) if not _fed(a, b, factor, left)]
    if not same or wrong:
        where = f"line {wrong[0]} would be fed otherwise than planned" if wrong else "its path would be another one"
        raise ProgramError(
            f"{program.name} cannot be copied with changed feeds: {where}.",
            expected="a program whose F words can be replaced one by one",
            remedy="Use the schedule of overrides instead; nothing was written.",
        )


def _path(move: Move) -> tuple[Any, ...]:
    return (move.line, move.kind, move.start, move.end, move.spindle, move.tool)


def _fed(old: Move, new: Move, factor: dict[int, float], left: set[int]) -> bool:
    if old.feed is None or new.feed is None:
        return old.feed == new.feed
    wanted = old.feed * (1.0 if old.line in left else factor[old.line])
    return abs(new.feed - wanted) <= max(0.11, 2.0 * _SAME * wanted)
