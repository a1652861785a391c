"""The planned commands from whatever a user holds: a frame, a table, a file, an NC program, or "table"."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.errors import ForecastError, TableError
from crossfeed.ingest.frames import read_header, to_polars
from crossfeed.ingest.table import Table
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import conversion
from crossfeed.serving.history import ON_THE_CLOCK


def readable_plan(plan: Any, now: float, period: float) -> Any:
    """A plan in a form that `read_plans` takes; the clock of a frame must fit that of the last measured row."""
    if isinstance(plan, Path | str | np.ndarray):
        return plan
    rows = plan.to_polars() if isinstance(plan, Table) else to_polars(plan, "plan")
    named = {read_header(column).name: column for column in rows.columns}
    if "session" in named and rows[named["session"]].n_unique() > 1:
        raise TableError(
            f"The plan holds {rows[named['session']].n_unique()} sessions.",
            expected="the rows of one plan, in order",
            remedy="Keep the rows of one session.",
        )
    if "time" not in named:
        return rows
    column, dtype = named["time"], rows[named["time"]].dtype
    if dtype.is_temporal():
        seconds = rows[column].dt.timestamp("us") / 1e6
        rows = rows.with_columns((seconds - (seconds[0] or 0.0)).alias(column))
    elif dtype.is_numeric():
        seconds = rows[column] * conversion(read_header(column).unit or "s", "s").scale
    else:
        raise TableError(f"The column '{column}' of the plan holds {dtype}.", expected="seconds, or time stamps")
    _check_begin(seconds[0], now, period)
    return rows


def _check_begin(begin: float | None, now: float, period: float) -> None:
    """A plan counts from its own beginning, or goes on where the history ends; anything between is a mistake."""
    if begin is None:
        return
    expected = (0.0, period, now + period)
    if not any(abs(begin - start) <= ON_THE_CLOCK * period for start in expected):
        raise TableError(
            f"The plan begins at {begin:,.6g} s, but the history ends at {now:,.6g} s.",
            expected=f"a plan from {now + period:,.6g} s on, or one that counts from 0 or {period:g} s",
            remedy="Take the rows that follow the history, or leave the time out.",
        )


def check_trained(model: WorldModel, horizons: Sequence[int] | None) -> tuple[int, ...]:
    """The horizons asked for, all of which the model must have been trained on."""
    if horizons is None:
        return model.horizons
    asked = tuple(horizons)
    strange = [horizon for horizon in asked if horizon not in model.horizons]
    if strange or not asked:
        trained = ", ".join(map(str, model.horizons))
        raise ForecastError(
            f"The model was not trained for {', '.join(map(str, strange)) or 'no horizon at all'} rows ahead.",
            expected=f"some of {trained}",
            remedy="For every row of a plan, however long, ask what_if: it rolls trained horizons forward.",
        )
    return tuple(sorted({int(horizon) for horizon in asked}))


def check_reach(commands: np.ndarray, horizons: Sequence[int], period: float) -> None:
    """The plan must say what is commanded until the longest horizon."""
    longest = max(horizons)
    if len(commands) < longest:
        raise ForecastError(
            f"The plan has {len(commands)} rows ({len(commands) * period:g} s), but row {longest} is asked for.",
            expected=f"at least {longest} rows of planned commands",
            remedy="Plan further ahead, or ask for shorter horizons: horizons="
            f"{[horizon for horizon in horizons if horizon <= len(commands)] or [1]}.",
        )


def readable_plans(plans: Any, now: float, period: float) -> list[Any] | dict[str, Any]:
    """All plans of a question: a dict names them, a list or a single one is named by files and places."""
    if isinstance(plans, Mapping) and not all(np.ndim(plan) == 1 for plan in plans.values()):
        return {str(name): readable_plan(plan, now, period) for name, plan in plans.items()}
    several = plans if isinstance(plans, list | tuple) else [plans]
    return [readable_plan(plan, now, period) for plan in several]
