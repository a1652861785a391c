"""Which overrides a program should run under on this machine: the answer, its reasons, and files for a person."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.changed_program import changed_program
from crossfeed.control.earlier_runs import LoggedRows
from crossfeed.control.load_calibration import LoadCalibration
from crossfeed.control.load_forecast import SAMPLES, CuttingLaw, forecast_program
from crossfeed.control.plan_record import FORMAT, RecordedPlan, plan_content, plan_figure, write_tables
from crossfeed.control.planner import PlannerConfig, plan_whole
from crossfeed.control.score import Decision, Score
from crossfeed.control.task import Task, check_limits
from crossfeed.control.timeline import Timeline
from crossfeed.errors import ConfigError
from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.files import plain, write_sealed
from crossfeed.logs.align import align
from crossfeed.logs.table import Table
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import program_path, read_program
from crossfeed.scenarios.history import History, read_history
from crossfeed.scenarios.measures import warnings_about, warnings_of
from crossfeed.scenarios.plan import PlannedCommands
from crossfeed.scenarios.rollout import Rollout
from crossfeed.show.figures import Figure
from crossfeed.show.tables import ResultTable, ShownByTables
from crossfeed.training.config import WEAK_COMMAND_USE


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
