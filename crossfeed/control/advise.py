"""Which overrides a program should run under on this machine: the answer, its reasons, and files for a person.

Among the files is a copy of the NC program with the feeds of the plan: changed F words, each marked by a comment.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.earlier_runs import LoggedRows
from crossfeed.control.load_calibration import LoadCalibration
from crossfeed.control.load_forecast import SAMPLES, CuttingLaw, forecast_program
from crossfeed.control.plan_record import FORMAT, RecordedPlan, plan_content, plan_figure, write_tables
from crossfeed.control.planner import PlannerConfig, plan_whole
from crossfeed.control.score import Decision, Score
from crossfeed.control.task import Task, check_limits
from crossfeed.control.timeline import Timeline
from crossfeed.errors import ConfigError, ProgramError
from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.files import atomic_file, plain, write_sealed
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.programs.blocks import Move, Program
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import parse_program, program_path, read_program
from crossfeed.scenarios.history import History, read_history
from crossfeed.scenarios.measures import warnings_about, warnings_of
from crossfeed.scenarios.plan import PlannedCommands
from crossfeed.scenarios.rollout import Rollout
from crossfeed.show.figures import Figure
from crossfeed.show.tables import ResultTable, ShownByTables
from crossfeed.training.config import WEAK_COMMAND_USE

_F_WORD = re.compile(r"(?<![A-Z0-9_])F\s*(?:=\s*[A-Z_][A-Z0-9_]*|=?\s*(?:\d+\.?\d*|\.\d+))", re.IGNORECASE)
# Lines whose feeds are arguments or belong to cycles; those stay as they are.
_OTHER = re.compile(r"CYCLE|MCALL|POCKET|HOLES|SLOT|REPEAT|\bG0*(?:73|74|76|8[1-9])\b|\bG0*4\b", re.IGNORECASE)
_SAME = 5e-3  # a feed nearer to the old one than this share is not worth a changed word


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
    path = attrgetter("line", "kind", "start", "end", "spindle", "tool")
    same = [path(move) for move in old] == [path(move) for move in new]
    wrong = [a.line for a, b in zip(old, new) if same and not _fed(a, b, factor, left)]
    if not same or wrong:
        where = f"line {wrong[0]} would be fed otherwise than planned" if wrong else "its path would be another one"
        raise ProgramError(
            f"{program.name} cannot be copied with changed feeds: {where}.",
            expected="a program whose F words can be replaced one by one",
            remedy="Use the schedule of overrides instead; nothing was written.",
        )


def _fed(old: Move, new: Move, factor: dict[int, float], left: set[int]) -> bool:
    if old.feed is None or new.feed is None:
        return old.feed == new.feed
    wanted = old.feed * (1.0 if old.line in left else factor[old.line])
    return abs(new.feed - wanted) <= max(0.11, 2.0 * _SAME * wanted)


@dataclass(frozen=True, eq=False, repr=False)
class Advice(ShownByTables):
    """The answer: `content` is what plan.json holds; files lists what was written."""

    content: dict[str, Any]
    timeline: Timeline
    decision: Decision
    score: Score
    files: tuple[Path, ...] = field(default=())

    def tables(self) -> list[ResultTable]:
        """What it would bring, where it acts and why not elsewhere, and the longest blocks."""
        return RecordedPlan.from_dict(self.content).tables()

    def figures(self) -> list[Figure]:
        """The knobs along the program, and every limited load."""
        return [plan_figure(self.content, self.score, self.decision)]


def advise(
    model: OpenedModel | Path | str,
    history: Table | Path | str,
    program: str,
    task: Task,
    *,
    motion_limits: MotionLimits | None = None,
    session: str | None = None,
    at: float | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    config: PlannerConfig | None = None,
    device: str = "auto",
    out: Path | str | None = None,
    write_program: bool = False,
    rehearse_on: str | None = None,
) -> Advice:
    """Plan the overrides of a whole program and decide, stretch by stretch, whether to use them.

    With `out`, plan.json, schedule.csv, blocks.csv and plan.png are written there, and with `write_program` a copy of
    the program with changed F words. The program itself is only read. `rehearse_on` names a simulated machine.
    """
    opened = model if isinstance(model, OpenedModel) else open_model(model, device)
    check_command_use(opened)
    schema, path = opened.model.schema, program_path(program)
    table = history if isinstance(history, Table) else Table.read(history)
    moment = read_history(table, opened.model, session, at)
    opened.check_rows(moment.period, f"The table with {moment.title}")
    limits = task.limits_of(schema)
    unsigned = moment.command_low[schema.command_names.index("spindle_speed")] >= 0.0
    timeline = Timeline.of(read_program(path), schema, moment.period, motion_limits, bool(unsigned))
    rows = align(table, schema)
    check_limits(limits, schema, np.where(np.isfinite(moment.sensors[-1]), rows.sensors, np.nan), timeline.tool_T)
    unused = [tool for tool in task.leave if tool not in timeline.tool_T]
    if unused:
        raise ConfigError(
            f"The tool '{unused[0]}' is to be left alone, but the program does not use it.",
            expected=f"some of {', '.join(sorted({tool for tool in timeline.tool_T if tool}))}",
        )
    law = CuttingLaw.from_logs(schema, rows.sensors, rows.commands)
    calibration = LoadCalibration.of(opened.model, timeline, task, _log_before(rows, moment))
    if calibration.runs:
        forecast = calibration.from_runs(task.risk, samples, seed)
    else:
        forecast = forecast_program(
            Rollout(opened.model, moment), timeline, [each.sensor for each in limits], samples, seed
        )
        forecast = calibration.from_forecast(forecast, task.risk)
    decision, finished = plan_whole(forecast, law, task, schema, config or PlannerConfig(), seed)
    score = Score(forecast, law, task, schema)
    commands, _ = timeline.commanded(decision.feed_T, decision.spindle_T)
    planned = PlannedCommands(timeline.name, "program", None, commands)
    warnings = [*warnings_about(moment, opened.provenance), *warnings_of(planned, moment, opened.provenance)]
    if task.spindle.free and limits:
        warnings.append("the spindle stays at 100 %: speeding it up in a cut takes torque that would pass limits")
    content = {
        "format": FORMAT,
        "model": {"file": opened.path.name, "name": opened.forecaster.name, "sha256": opened.sha256},
        "history": {
            "file": moment.file,
            "machine": moment.group.machine,
            "session": moment.group.session,
            "at": moment.at,
        },
        "program": path.name,
        "task": task.model_dump(mode="json"),
        "experience": calibration.summary(task.risk),
        **plan_content(score, decision, finished),
        "warnings": [*warnings, *timeline.warnings],
    }
    if rehearse_on is not None:
        # Nothing else of an advice needs the simulator.
        from crossfeed.control.trial import rehearse

        content["rehearsal"] = rehearse(path, rehearse_on, task, decision, seed)
    content = dict(plain(content))
    files = () if out is None else _write(Path(out), path, content, score, decision, write_program)
    return Advice(content, timeline, decision, score, files)


def _log_before(rows: Table, moment: History) -> list[LoggedRows]:
    """What this machine did up to the moment from which the plan starts, session by session."""
    log = [
        LoggedRows(rows.sensors[group.start : group.stop], rows.commands[group.start : group.stop], group.program)
        for group in rows.groups
        if group.machine == moment.group.machine and group.stop <= moment.group.start
    ]
    return [*log, LoggedRows(moment.sensors, moment.commands, moment.group.program)]


def check_command_use(opened: OpenedModel) -> None:
    """Raises ConfigError for a model that hardly uses commands: it cannot tell plans apart."""
    ratio = opened.provenance.get("shuffled_command_ratio")
    if ratio is not None and ratio < WEAK_COMMAND_USE:
        raise ConfigError(
            f"The model in {opened.path} is deaf to commands: shuffled plans cost it a factor of {ratio:.3f} in RMSE.",
            expected=f"a factor of {WEAK_COMMAND_USE:g} or more, so that it can tell plans apart",
            remedy="Train on logs in which commands vary, or longer; crossfeed inspect shows how commands are used.",
        )


def _write(
    out: Path, program: Path, content: dict[str, Any], score: Score, decision: Decision, write_program: bool
) -> tuple[Path, ...]:
    """The files asked for, each whole or not at all."""
    from crossfeed.show.drawing import draw
    from crossfeed.show.figures import save_figure

    write_sealed(out / "plan.json", content)
    write_tables(out, content, score, decision)
    save_figure(draw(plan_figure(content, score, decision)), out / "plan.png")
    files = [out / name for name in ("plan.json", "schedule.csv", "blocks.csv", "plan.png")]
    if write_program:
        # Last, so that everything else is there even where a program cannot be copied.
        files.append(out / f"{program.stem}.crossfeed{program.suffix}")
        content["copy"] = changed_program(program, files[-1], score.forecast.timeline, decision)
        write_sealed(files[0], content)
    return tuple(files)
