"""May a model be trusted on a machine, and on which channels?"""

from collections.abc import Sequence
from pathlib import Path

from crossfeed.evaluation.judge import Suite, evaluate_opened
from crossfeed.evaluation.records import Unit
from crossfeed.evaluation.result import Evaluation
from crossfeed.evaluation.setup import Side
from crossfeed.front.fitted_model import FittedModel, as_model
from crossfeed.front.inputs import as_table, several
from crossfeed.ingest.table import Table


def evaluate(
    model: FittedModel | Path | str,
    table: Table | Path | str,
    source: Table | Path | str | Sequence[Table | Path | str] = (),
    *,
    part: Side = "auto",
    suite: Suite = "standard",
    unit: Unit | None = None,
    machine: str | None = None,
    new_sensors: bool = False,
    out: Path | str | None = None,
    device: str = "auto",
) -> Evaluation:
    """Judge a model on a table beside its floors; the result prints the verdict on every channel first.

    Of a table the model was trained on the test side counts (`part` names another), of any other all of it. `source`:
    tables it was trained on, which give the floors their spread. `suite="full"` adds robustness. `new_sensors` judges
    sensors that the model never met as well, where it began with fleet. The result has `verdict()`,
    `to_pandas(by="channel")`, `plot()` and every number; with `out`, evaluation.json is written there.

    Examples:
        >>> import crossfeed as cf
        >>> result = cf.evaluate("run", "b.parquet", source="a.parquet")
        >>> [one.channel for one in result.verdict().channels]
        ['spindle_current', 'spindle_torque', 'spindle_power', 'z_current']
        >>> "trust" in result.to_polars().columns
        True
    """
    fitted = as_model(model, device)
    given = [as_table(one, fitted.schema, "source") for one in (several(source) if source != () else [])]
    result = evaluate_opened(
        fitted.opened, as_table(table, fitted.schema), part=part, sources=given, suite=suite, unit=unit,
        machine=machine, new_sensors=new_sensors,
        file=Path(table).name if isinstance(table, Path | str) else "",
    )  # fmt: skip
    if out is not None:
        result.write(out)
    return result
