"""A command-conditioned world model for machine tools that keeps working on machines with other sensors.

    import crossfeed as cf

    table = cf.Table.from_frame(frame, mapping)     # pandas, polars, pyarrow
    cf.audit(table)                                 # is it what it claims to be?
    model = cf.fit(table)                           # learn the machine
    forecast = model.forecast(history, plan)        # what will it do if it is commanded this?
    cf.evaluate(model, other)                       # may it be trusted on another machine, and on which channels?
    adapted = cf.adapt(model, other)                # teach it that machine
    cf.curve(other).plot()                          # how many minutes of own logs does it take?
    cf.what_if(model, history, {"as planned": plan, "slower": slower}).plot()

Nothing heavy is imported before it is asked for.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossfeed.errors import CrossfeedError as CrossfeedError
    from crossfeed.evaluation.baselines.networks import register_baseline as register_baseline
    from crossfeed.evaluation.bench.curve import curve as curve
    from crossfeed.evaluation.bench.result import LearningCurve as LearningCurve
    from crossfeed.evaluation.judge import evaluate as evaluate
    from crossfeed.evaluation.result import Evaluation as Evaluation
    from crossfeed.files import __version__ as __version__
    from crossfeed.front.fit import adapt as adapt
    from crossfeed.front.fit import fit as fit
    from crossfeed.front.fitted_model import FittedModel as FittedModel
    from crossfeed.front.fitted_model import load as load
    from crossfeed.front.fitted_model import what_if as what_if
    from crossfeed.logs.table import Table as Table
    from crossfeed.model.forecast import Forecast as Forecast
    from crossfeed.scenarios.result import WhatIf as WhatIf
    from crossfeed.schema import Schema as Schema
    from crossfeed.windows.audits.run import audit as audit
    from crossfeed.windows.audits.subject import AuditReport as AuditReport

_HOMES = {
    "__version__": "crossfeed.files",
    "AuditReport": "crossfeed.windows.audits.subject",
    "CrossfeedError": "crossfeed.errors",
    "Evaluation": "crossfeed.evaluation.result",
    "FittedModel": "crossfeed.front.fitted_model",
    "Forecast": "crossfeed.model.forecast",
    "LearningCurve": "crossfeed.evaluation.bench.result",
    "Schema": "crossfeed.schema",
    "Table": "crossfeed.logs.table",
    "WhatIf": "crossfeed.scenarios.result",
    "adapt": "crossfeed.front.fit",
    "audit": "crossfeed.windows.audits.run",
    "curve": "crossfeed.evaluation.bench.curve",
    "evaluate": "crossfeed.evaluation.judge",
    "fit": "crossfeed.front.fit",
    "load": "crossfeed.front.fitted_model",
    "register_baseline": "crossfeed.evaluation.baselines.networks",
    "what_if": "crossfeed.front.fitted_model",
}
__all__ = [*_HOMES]

# Threads that wait must not spin: beside one other busy process that makes a forecast five times slower. Arrays of
# megabytes come in large pages, where the system has them: fetching small ones takes a tenth of an evaluation. Both are
# read when the libraries are loaded, so they stand before everything else.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def __getattr__(name: str) -> Any:
    """Import what is asked for at the first use, and keep it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'crossfeed' has no attribute '{name}'")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
