"""A plan rehearsed on a simulated machine before anybody follows it: what it would bring, and whether it was right."""

from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.control.controllers import AsWritten, Controller, PlannedKnobs
from crossfeed.control.decision import Decision, reachable
from crossfeed.control.machine import Workpiece
from crossfeed.control.task import Task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import cost_by_place, idle_start, passed_by_place, trial
from crossfeed.machines.simulated.catalogue import machine_named
from crossfeed.schema import canonical

_NOTHING = 1e-2  # s


def rehearse(program: Path, machine: str, task: Task, decision: Decision, seed: int = 0) -> dict[str, Any]:
    """Time, energy and passed limits as written and as planned, and how many stretches were decided rightly.

    Acting was right where it saved something and passed no limit; leaving alone was right where going as fast as
    allowed would have saved nothing or passed a limit.
    """
    text = program.read_text(encoding="utf-8", errors="replace")
    piece = Workpiece.of(text, program.stem, machine_named(machine))
    timeline = Timeline.of(piece.program, canonical(), 1.0, piece.motion_limits)
    past, ones = idle_start(piece, seed), np.ones(len(timeline))
    feed_T, spindle_T = (_fitted(knob_T, len(timeline)) for knob_T in (decision.feed_T, decision.spindle_T))
    free_T = timeline.free(task)
    fast_T, _ = reachable(timeline, np.where(free_T, task.feed.max, 1.0), ones, task, (1.0, 1.0))
    controllers: list[Controller] = [
        AsWritten(),
        PlannedKnobs("planned", feed_T, spindle_T),
        PlannedKnobs("fastest", fast_T, ones),
    ]
    runs = [trial(piece, timeline, task, each, past) for each in controllers]
    written, planned, fastest = (cost_by_place(run, timeline, task) for run in runs)
    passed_before, passed_after, passed_fast = (passed_by_place(run, timeline, task) for run in runs)
    counts = {"acted": 0, "acted_rightly": 0, "left_alone": 0, "left_rightly": 0}
    for choice in decision.choices:
        own = slice(choice.first, min(choice.last + 1, len(timeline)))
        if choice.verdict == "as written":
            worthless = not free_T[own].any() or float(written[own].sum() - fastest[own].sum()) < _NOTHING
            counts["left_alone"] += 1
            counts["left_rightly"] += bool(worthless or passed_fast[own].any())
        else:
            saved = float(written[own].sum() - planned[own].sum())
            kept = passed_after[own].sum() <= passed_before[own].sum()
            counts["acted"] += 1
            counts["acted_rightly"] += bool(kept and (saved > 0.0 or choice.verdict == "slower"))
    totals = {
        name: {"seconds": run.seconds, "energy": run.energy, "passed": run.passed, "cutting": run.cutting}
        for name, run in zip(("as_written", "planned"), runs)
    }
    return {"machine": machine, **totals, "gain": runs[0].cost - runs[1].cost, **counts}


def _fitted(knob_T: np.ndarray, length: int) -> np.ndarray:
    """Motion limits of another machine make a program longer or shorter by a few places."""
    return np.asarray(knob_T[np.minimum(np.arange(length), len(knob_T) - 1)])
