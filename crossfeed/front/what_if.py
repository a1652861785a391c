"""Compare plans from one moment: every row of each is rolled forward in sampled futures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.front.fitted_model import FittedModel, as_model
from crossfeed.front.inputs import history_of
from crossfeed.programs.limits import MotionLimits
from crossfeed.serving.measures import highest_by_sensor, read_limits
from crossfeed.serving.plan import Overrides
from crossfeed.serving.what_if import WhatIf
from crossfeed.serving.what_if import what_if as roll_forward


def what_if(
    model: FittedModel | Path | str,
    history: Any,
    plans: Any,
    *,
    session: str | None = None,
    at: float | None = None,
    seconds: float | None = None,
    samples: int = 64,
    seed: int = 0,
    limits: Mapping[str, float] | Sequence[str] = (),
    channels: Sequence[str] = (),
    overrides: Overrides | None = None,
    motion_limits: MotionLimits | None = None,
    out: Path | str | None = None,
    plot: Path | str | None = None,
    device: str = "auto",
) -> WhatIf:
    """What the machine will do under each plan, row by row, and how the plans differ in energy and peaks.

    `history` as in `FittedModel.forecast`; `plans` by name: frames, files, NC programs (`part.mpf@feed=80`) or "table"
    for what really followed. The answer has `readings` (sentences that say "cannot tell" where that is so), `plot()`,
    `to_pandas()` and the futures themselves (`paths`). `limits` ask for the chance of passing {"spindle_power": 5}.

    Examples:
        >>> import crossfeed as cf
        >>> rows = cf.Table.read("a.parquet").to_polars()[:80]
        >>> history, plan = rows[:40], rows[40:48]
        >>> slower = plan.with_columns(plan["spindle_speed"] * 0.5)
        >>> answer = cf.what_if("run", history, {"as planned": plan, "slower": slower}, samples=20)
        >>> len(answer.readings)
        1
        >>> sorted(set(answer.to_polars()["plan"]))
        ['as planned', 'slower']
    """
    fitted = as_model(model, device)
    if fitted.network.normaliser.is_placeholder:
        fitted = fitted.meets(history, at)
    moment = history_of(fitted.opened, history, session, at)
    # Columns of one plan are a mapping, too.
    if not isinstance(plans, list | tuple | Mapping) or (
        isinstance(plans, Mapping) and all(np.ndim(plan) == 1 for plan in plans.values())
    ):
        plans = [plans]
    asked = dict(limits) if isinstance(limits, Mapping) else highest_by_sensor(read_limits(limits, fitted.schema))
    return roll_forward(
        fitted.opened, moment, plans, seconds=seconds,
        samples=samples, seed=seed, limits=asked, channels=channels, overrides=overrides,
        motion_limits=motion_limits, out=out, plot=plot,
    )  # fmt: skip
